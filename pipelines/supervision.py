"""What keeps a local run going when one of its processes dies, and removes what such processes leave.

Beam's local runner waits for ever for a worker that died while it started, and ends with a traceback per worker where
one died later. Everything that a run has done is on disk, so the remedy is the same for both: the command ends what is
left of its workers and starts itself anew, a bounded number of times.
"""

import atexit
import contextlib
import fcntl
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, NoReturn

from musadata.errors import MusadataError

MOST_RESTARTS = 5
RESTART_SECONDS = 3.0
_RESTARTS = "MUSADATA_RESTARTS"  # how often this command has started itself anew
_SCRATCH = "musadata-run-"
_WORKER_THREAD = "run_worker"  # as Beam names the thread that waits for a worker process
_REMEDY = "free some memory and run the same command again: what is done is kept"

_over = threading.Event()
_held: list[IO[bytes] | None] = []  # keeps the lock on the scratch folder until this process ends


def supervise() -> None:
    """Have this command survive the death of its workers; to be called once, by the command line only."""
    _over.clear()
    threading.excepthook = _when_a_thread_fails


def await_restart() -> None:
    """Give way where the run has failed because a worker died: the thread that waits for it starts the run anew."""
    time.sleep(RESTART_SECONDS)


def stop_supervising() -> None:
    """The run has ended, and with it its workers."""
    _over.set()


def _when_a_thread_fails(failed: threading.ExceptHookArgs) -> None:
    """A thread that waits for a worker raises when the worker ends with anything but 0."""
    died = failed.thread is not None and failed.thread.name == _WORKER_THREAD
    if died and not _over.is_set():
        _over.set()
        _start_anew()
        return
    from grpc import RpcError  # how a lost connection shows in Beam

    if not _over.is_set() and not issubclass(failed.exc_type, RpcError):
        threading.__excepthook__(failed)


def _start_anew() -> NoReturn:
    restarts = int(os.environ.get(_RESTARTS, "0")) + 1
    end_children()
    if restarts > MOST_RESTARTS:
        print(f"musadata: worker processes died {restarts} times; {_REMEDY}", file=sys.stderr, flush=True)
        leave(1)
    print("musadata: a worker process died; the run goes on with new ones", file=sys.stderr, flush=True)
    os.environ[_RESTARTS] = str(restarts)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def end_children() -> None:
    """Kill the processes that this one has started; what these have started dies with them."""
    for pid in _children():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for pid in _children():
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _children() -> list[int]:
    found = []
    for children in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(pid) for pid in children.read_text().split()]
    return found


def own_scratch_folder() -> None:
    """Put all temporary files of the run into one folder that is removed at its end, and remove those of dead runs.

    Raises:
        MusadataError: no temporary folder can be made.
    """
    shared = Path(tempfile.gettempdir())
    if shared.name.startswith(_SCRATCH):  # this process has started itself anew
        shared = shared.parent
    for folder in shared.glob(f"{_SCRATCH}*"):
        if _hold(folder) is not None:
            shutil.rmtree(folder, ignore_errors=True)
    try:
        own = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=shared))
        own.chmod(0o711)
    except OSError as error:
        text = f"no temporary folder can be made ({error.strerror})"
        raise MusadataError(text, where=str(shared), remedy="make room there, or name another in TMPDIR") from error
    _held.append(_hold(own))
    tempfile.tempdir = os.environ["TMPDIR"] = str(own)
    atexit.register(_remove, own, os.getpid())


def _hold(folder: Path) -> IO[bytes] | None:
    """A lock on a folder, which its owner holds while it lives; None if somebody else has it."""
    try:
        file = (folder / ".lock").open("wb")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return None
    return file


def leave(code: int) -> NoReturn:
    """End this process at once, its children and its temporary files with it: Beam's threads would complain."""
    _over.set()
    end_children()
    if Path(tempfile.gettempdir()).name.startswith(_SCRATCH):
        _remove(Path(tempfile.gettempdir()), os.getpid())
    os._exit(code)


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
