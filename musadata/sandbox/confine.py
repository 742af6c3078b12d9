"""Namespaces, mounts and limits: how a warm server locks itself in, and how each call is locked in once more.

Three walls, from outside to inside: the *jail* is entered once by the warm server (a root folder of its own that holds
only system folders, Python and the project, read-only; no network), the *cell* by every call (its own processes, its
own writable scratch folder), and `restrict_process` takes away what the call's process could still use against them.
"""

import contextlib
import ctypes
import os
import platform
import resource
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from musadata.sandbox.limits import Limits
from musadata.sandbox.seccomp import deny_system_calls

SCRATCH = "/tmp/scratch"
_NOBODY = 65534
_INSIDE_ID = 1000
_NEW_NS, _NEW_UTS, _NEW_IPC, _NEW_USER, _NEW_PID, _NEW_NET = (
    0x20000,
    0x4000000,
    0x8000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
_READ_ONLY, _NO_SUID, _NO_DEV, _BIND, _RECURSIVE, _PRIVATE = 1, 2, 4, 4096, 16384, 1 << 18
_SET_PDEATHSIG, _SET_DUMPABLE = 1, 4
_AT_FDCWD, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NOSUID = -100, 0x8000, 1, 2
_MNT_DETACH = 2
_MOUNT_SETATTR = 442
CLONE = {"x86_64": 56, "aarch64": 220}
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SYSTEM_FOLDERS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/etc", "/nix", "/gnu")
_DEVICES = ("null", "zero", "full", "random", "urandom")

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    arguments = source.encode(), target.encode(), kind and kind.encode(), flags, options.encode()
    _check(_libc.mount(*arguments), f"mount {target}")


def readable_folders(extra: Iterable[str] = ()) -> list[str]:
    """System folders, this Python with its packages, the project, and `extra`; outer folders first."""
    project = str(Path(__file__).resolve().parents[2])
    packages = [entry for entry in sys.path if next(Path(entry).glob("*.dist-info"), None)]  # PYTHONPATH, a user's own
    wanted = [*_SYSTEM_FOLDERS, sys.prefix, sys.base_prefix, sys.exec_prefix, *packages, project, *extra]
    # A prefix that is the root itself, or somebody's home, would let everything back in.
    bare = {"/", str(Path.home()), "/tmp", "/home", "/root"}
    return sorted({folder for folder in wanted if Path(folder).is_dir() and (folder == project or folder not in bare)})


def enter_jail(folders: Iterable[str], devices: Iterable[str] = ()) -> None:
    """Give this process a root of its own that holds `folders`, read-only, and no network. Only for one thread.

    Root becomes nobody, so that file permissions and process limits hold for it as well.

    Raises:
        OSError: the system does not allow it.
    """
    if os.getuid() == 0:
        _check(_libc.unshare(_NEW_NS | _NEW_NET | _NEW_IPC | _NEW_UTS), "unshare")
        _build_root(folders, devices)
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
        _libc.prctl(_SET_DUMPABLE, 1, 0, 0, 0)  # cleared by the change of user; without it /proc/self belongs to root
    else:
        _new_user_namespace(_NEW_NS | _NEW_NET | _NEW_IPC | _NEW_UTS)
        _build_root(folders, devices)


def _new_user_namespace(others: int) -> None:
    ids = os.geteuid(), os.getegid()
    _check(_libc.unshare(_NEW_USER | others), "unshare")
    _map_ids(*ids)


def _map_ids(user: int, group: int) -> None:
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{_INSIDE_ID} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{_INSIDE_ID} {group} 1")


def _build_root(folders: Iterable[str], devices: Iterable[str]) -> None:
    # Opened before anything is covered, as sources may lie below the folder that becomes the new root.
    sources = {folder: os.open(folder, os.O_PATH) for folder in folders}
    nodes = {f"/dev/{name}": os.open(f"/dev/{name}", os.O_PATH) for name in _DEVICES}
    nodes |= {name: os.open(name, os.O_PATH) for name in devices}
    proc = os.open("/proc", os.O_PATH)
    _mount("none", "/", None, _RECURSIVE | _PRIVATE)
    new = "/tmp"
    _mount("tmpfs", new, "tmpfs", _NO_SUID, "mode=755,size=4m")
    for name in ("/proc", "/tmp", "/dev/shm"):
        Path(new + name).mkdir(parents=True)
    for folder, descriptor in sources.items():
        _show_folder(new, folder, descriptor)
    for name, descriptor in nodes.items():
        Path(new + name).parent.mkdir(parents=True, exist_ok=True)
        Path(new + name).touch()
        _mount(f"/proc/self/fd/{descriptor}", new + name, None, _BIND)
    attributes = struct.pack("QQQQ", _MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NOSUID, 0, 0, 0)
    _check(_libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, new.encode(), _AT_RECURSIVE, attributes, 32), "mount_setattr")
    # Writable, because each call writes its user map there before it gets a /proc of its own.
    _mount(f"/proc/self/fd/{proc}", new + "/proc", None, _BIND | _RECURSIVE)
    for descriptor in (*sources.values(), *nodes.values(), proc):
        os.close(descriptor)
    os.chdir(new)
    _check(_libc.syscall(_PIVOT_ROOT[platform.machine()], b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", _MNT_DETACH), "umount")
    os.chdir("/")


def _show_folder(root: str, folder: str, descriptor: int) -> None:
    """Make `folder` appear below `root`; links such as /lib -> usr/lib stay links."""
    target = Path(root + folder)
    if Path(folder).is_symlink():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(Path(folder).readlink())
        return
    if target.is_dir() and os.path.samestat(target.stat(), os.fstat(descriptor)):
        return  # inside a folder that is there already
    target.mkdir(parents=True, exist_ok=True)
    _mount(f"/proc/self/fd/{descriptor}", str(target), None, _BIND | _RECURSIVE)


def fork_into_cell() -> int:
    """`os.fork`, but the child is the first process of new namespaces; it must call `furnish_cell`.

    One system call in place of unshare and a second fork: forking a process with torch in it costs 6 ms, ending it 8.
    The child's C library does not learn its new thread id, so it must not raise signals to itself, only fork again.

    Raises:
        OSError: the system does not allow it.
    """
    ids = os.geteuid(), os.getegid()
    flags = _NEW_USER | _NEW_NS | _NEW_PID | _NEW_IPC | signal.SIGCHLD
    ctypes.pythonapi.PyOS_BeforeFork()
    pid: int = ctypes.PyDLL(None, use_errno=True).syscall(CLONE[platform.machine()], flags, 0, 0, 0, 0)
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        try:
            _map_ids(*ids)
        except OSError:
            os._exit(1)
        return 0
    number = ctypes.get_errno()
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(number, f"clone: {os.strerror(number)}")
    return pid


def furnish_cell(limits: Limits, folders: Iterable[str] = ()) -> None:
    """Mount this call's own /tmp, /dev/shm and /proc; only for the first process of a cell.

    `folders` are the readable ones: those below /tmp are shown again in the new one.
    """
    covered = {folder: os.open(folder, os.O_PATH) for folder in folders if folder.startswith("/tmp/")}
    _mount("tmpfs", "/tmp", "tmpfs", _NO_SUID | _NO_DEV, f"mode=700,size={limits.file_mb}m,nr_inodes=16k")
    _mount("tmpfs", "/dev/shm", "tmpfs", _NO_SUID | _NO_DEV, f"mode=700,size={limits.file_mb}m,nr_inodes=16k")
    for folder, descriptor in covered.items():
        _show_folder("", folder, descriptor)
        os.close(descriptor)
    try:
        _mount("proc", "/proc", "proc", _NO_SUID | _NO_DEV)
    except OSError:
        # Where parts of the outer /proc are masked (containers) the kernel allows no new one: better none than that.
        _mount("tmpfs", "/proc", "tmpfs", _READ_ONLY)
    Path(SCRATCH).mkdir()
    # So that the call cannot reach into the memory of the process that guards it.
    _libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when `parent` dies, also if that has just happened."""
    _libc.prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() not in (parent, 0):  # 0: the parent is outside this namespace
        os._exit(1)


def restrict_process(limits: Limits, spare_processes: int, local_sockets: bool) -> None:
    """Take resource limits, give up all capabilities, and refuse dangerous system calls. There is no way back.

    `spare_processes` already run under the same user and count against `limits.processes`.
    """
    seconds = max(1, -int(-limits.seconds // 1))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")  # of all processes the kernel should sacrifice this first
    _lower(resource.RLIMIT_CPU, seconds, seconds + 1)
    if limits.memory_mb:
        _lower(resource.RLIMIT_AS, _mapped_bytes() + (limits.memory_mb + limits.reserved_mb << 20))
    _lower(resource.RLIMIT_FSIZE, limits.file_mb << 20)
    _lower(resource.RLIMIT_NOFILE, 512)
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_MEMLOCK, 1 << 20)
    _lower(resource.RLIMIT_MSGQUEUE, 0)
    _lower(resource.RLIMIT_NPROC, limits.processes + spare_processes)
    _drop_capabilities()
    _libc.prctl(_SET_DUMPABLE, 1, 0, 0, 0)
    deny_system_calls(local_sockets)


def _lower(kind: int, soft: int, hard: int | None = None) -> None:
    allowed = resource.getrlimit(kind)[1]
    hard = soft if hard is None else hard
    if allowed != resource.RLIM_INFINITY:
        soft, hard = min(soft, allowed), min(hard, allowed)
    resource.setrlimit(kind, (soft, hard))


def _mapped_bytes() -> int:
    """Address space in use, most of it the mapped libraries of torch."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (OSError, IndexError):
        return 64 << 30  # no /proc in this cell


def _drop_capabilities() -> None:
    header = struct.pack("Ii", 0x20080522, 0)
    _check(_libc.capset(header, struct.pack("IIIIII", 0, 0, 0, 0, 0, 0)), "capset")


def kill_all(processes: Callable[[], Iterable[int]] = lambda: [-1]) -> None:
    """Kill these processes until nothing that this one has started or adopted is left, for 5 seconds at the most; as it
    is, all other processes of this cell, which is for its first process only."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        for pid in processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(0.001)
        except ChildProcessError:
            return
