"""A seccomp filter that refuses the system calls that computing never needs.

The numbers are those of the kernel's syscall tables for x86-64 and aarch64; on other machines no filter is set.
"""

import ctypes
import os
import platform
import struct

_X86_64 = {
    "socket": 41, "connect": 42, "accept": 43, "bind": 49, "listen": 50, "ptrace": 101, "syslog": 103,
    "pivot_root": 155, "adjtimex": 159, "chroot": 161, "acct": 163, "settimeofday": 164, "mount": 165,
    "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169, "sethostname": 170, "setdomainname": 171,
    "iopl": 172, "ioperm": 173, "init_module": 175, "delete_module": 176, "quotactl": 179, "clock_settime": 227,
    "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272, "accept4": 288,
    "perf_event_open": 298, "open_by_handle_at": 304, "clock_adjtime": 305, "setns": 308, "process_vm_readv": 310,
    "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "kexec_file_load": 320, "bpf": 321,
    "userfaultfd": 323, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_getfd": 438,
    "mount_setattr": 442, "quotactl_fd": 443,
}  # fmt: skip
_AARCH64 = {
    "socket": 198, "connect": 203, "accept": 202, "bind": 200, "listen": 201, "ptrace": 117, "syslog": 116,
    "pivot_root": 41, "adjtimex": 171, "chroot": 51, "acct": 89, "settimeofday": 170, "mount": 40, "umount2": 39,
    "swapon": 224, "swapoff": 225, "reboot": 142, "sethostname": 161, "setdomainname": 162, "init_module": 105,
    "delete_module": 106, "quotactl": 60, "clock_settime": 112, "kexec_load": 104, "add_key": 217,
    "request_key": 218, "keyctl": 219, "unshare": 97, "accept4": 242, "perf_event_open": 241,
    "open_by_handle_at": 265, "clock_adjtime": 266, "setns": 268, "process_vm_readv": 270,
    "process_vm_writev": 271, "kcmp": 272, "finit_module": 273, "kexec_file_load": 294, "bpf": 280,
    "userfaultfd": 282, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_getfd": 438,
    "mount_setattr": 442, "quotactl_fd": 443,
}  # fmt: skip
_TABLES = {"x86_64": (0xC000003E, _X86_64, 56), "aarch64": (0xC00000B7, _AARCH64, 220)}
# (system call, which argument, value that is refused), by the number of clone: SIGKILL to anybody and the end of a CPU
# time limit of its own choice, so that a call that dies of SIGKILL was killed from outside.
_SIGKILL, _RLIMIT_CPU = 9, 0
_DENIED_ARGUMENTS = {
    56: ((62, 1, _SIGKILL), (200, 1, _SIGKILL), (234, 2, _SIGKILL), (129, 1, _SIGKILL), (297, 2, _SIGKILL),
         (424, 1, _SIGKILL), (160, 0, _RLIMIT_CPU), (302, 1, _RLIMIT_CPU)),
    220: ((129, 1, _SIGKILL), (130, 1, _SIGKILL), (131, 2, _SIGKILL), (138, 1, _SIGKILL), (240, 2, _SIGKILL),
          (424, 1, _SIGKILL), (164, 0, _RLIMIT_CPU), (261, 1, _RLIMIT_CPU)),
}  # fmt: skip
_CLONE3 = 435  # the same everywhere; its flags lie in memory that a filter cannot read
_CLONE_NEW_NAMESPACES = 0x7E020000
_X32_NUMBERS = 0x40000000  # a second table on x86-64 kernels; no other machine has such numbers

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_AF_UNIX = 1
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16

_libc = ctypes.CDLL(None, use_errno=True)


def deny_system_calls(local_sockets: bool = False) -> None:
    """Refuse the listed calls with EPERM, for this process and all that it starts; sets no_new_privs.

    With `local_sockets` a process may open Unix sockets and listen on them, but still connect to none: CUDA's driver
    does not start without (seen with driver 580).
    """
    if _libc.prctl(38, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs")
    table = _TABLES.get(platform.machine())
    if table is None:
        return
    code = b"".join(struct.pack("HBBI", *line) for line in _program(*table, local_sockets))
    instructions = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(instructions))
    if _libc.prctl(22, 2, ctypes.create_string_buffer(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp: " + os.strerror(ctypes.get_errno()))


def _program(
    architecture: int, denied: dict[str, int], clone: int, local_sockets: bool
) -> list[tuple[int, int, int, int]]:
    """The filter as (code, jump if true, jump if false, operand)."""
    lines: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_AT_LEAST, 0, 1, _X32_NUMBERS),
        (_RETURN, 0, 0, _REFUSE | _EPERM),
        (_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _REFUSE | _ENOSYS),  # the C library then falls back to clone
        (_EQUAL, 0, 3, clone),
        (_LOAD, 0, 0, _FIRST_ARGUMENT_AT),
        (_ANY_BIT, 0, 1, _CLONE_NEW_NAMESPACES),
        (_RETURN, 0, 0, _REFUSE | _EPERM),
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    for number, argument, refused in _DENIED_ARGUMENTS[clone]:
        lines += [
            (_EQUAL, 0, 4, number),
            (_LOAD, 0, 0, _FIRST_ARGUMENT_AT + 8 * argument),
            (_EQUAL, 0, 1, refused),
            (_RETURN, 0, 0, _REFUSE | _EPERM),
            (_LOAD, 0, 0, _NUMBER_AT),
        ]
    if local_sockets:
        lines += [
            (_EQUAL, 0, 3, denied["socket"]),
            (_LOAD, 0, 0, _FIRST_ARGUMENT_AT),
            (_EQUAL, 1, 0, _AF_UNIX),
            (_RETURN, 0, 0, _REFUSE | _EPERM),
            (_LOAD, 0, 0, _NUMBER_AT),
        ]
    allowed = {"socket", "bind", "listen"} if local_sockets else set()
    numbers = sorted(number for name, number in denied.items() if name not in allowed)
    lines += [(_EQUAL, len(numbers) - index, 0, number) for index, number in enumerate(numbers)]
    return [*lines, (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE | _EPERM)]
