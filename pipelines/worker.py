"""The worker processes of a local run: Beam's own, that keep quiet and never outlive the command that started them.

They are forked from one process that has imported what all of them need. Beam starts a worker by a command,
`python -m pipelines.worker`. It asks the warm process for a fork, waits for its end and passes its exit code on; where
there is no warm process it becomes the worker itself. The warm process starts with the run, so that Beam is imported on
another core at the same time, and torch for the sandboxes on a third.
"""

import argparse
import contextlib
import gc
import importlib
import json
import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

WARM = "MUSADATA_WARM_WORKERS"  # the socket of the process that forks workers


def local_workers(arguments: Sequence[str]) -> int:
    """How many workers Beam's options ask for on this machine, found without Beam; 0 for another runner."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--runner", default="DirectRunner")
    parser.add_argument("--direct_num_workers", type=int, default=0)
    asked = parser.parse_known_args(arguments)[0]
    if asked.runner.rsplit(".", 1)[-1].lower() not in ("directrunner", "fnapirunner"):
        return 0
    return asked.direct_num_workers or len(os.sched_getaffinity(0))


@contextlib.contextmanager
def warm_workers(
    arguments: Sequence[str], modules: Sequence[str], preload: Sequence[str] = ("torch",)
) -> Iterator[None]:
    """Have `modules` imported for the workers that start in here, and `preload` for their sandboxes."""
    from musadata.sandbox import start_ahead
    from musadata.sandbox.forked import has_process_descriptors

    count = local_workers(arguments)
    if count == 1:
        start_ahead(preload)
    if count < 2 or not has_process_descriptors():
        yield
        return
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listening:
        path = str(Path(folder, "workers"))
        with contextlib.suppress(OSError):  # the folder's name is too long
            listening.bind(path)
            listening.listen(count)
        about = str(listening.fileno()), str(os.getpid()), ",".join(modules), ",".join(preload)
        command = [sys.executable, "-m", "pipelines.worker", *about]
        # Its standard input closes with this block. It ends with its last worker then, which Beam may still wait for.
        warm = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[listening.fileno()])
        listening.close()
        os.environ[WARM] = path
        try:
            yield
        finally:
            del os.environ[WARM]
            assert warm.stdin is not None
            warm.stdin.close()


class _Forks:
    """The workers, each with the connection of the command that waits for it."""

    def __init__(self, listening: socket.socket):
        self._listening = listening
        self._selector = selectors.DefaultSelector()
        self._waiting: dict[int, socket.socket] = {}  # by process id
        self._selector.register(listening, selectors.EVENT_READ, self._accept)
        self._selector.register(sys.stdin, selectors.EVENT_READ, self._close)

    def serve(self) -> None:
        """Return when no worker is left and no further one can come."""
        while self._selector.get_map():
            for key, _ in self._selector.select():
                key.data()

    def _close(self) -> None:
        self._selector.unregister(sys.stdin)
        self._selector.unregister(self._listening)
        self._listening.close()

    def _accept(self) -> None:
        connection, _ = self._listening.accept()
        with connection.makefile("rb") as stream:
            environment = json.loads(stream.readline() or "null")
        if environment is None:  # its command has ended
            connection.close()
            return
        pid = os.fork()
        if pid == 0:
            _become_worker(environment, os.getppid())
        descriptor = os.pidfd_open(pid)
        self._waiting[pid] = connection
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._kill(pid))
        self._selector.register(descriptor, selectors.EVENT_READ, lambda: self._reap(pid, descriptor))

    def _kill(self, pid: int) -> None:
        """The command that waits has ended, and its worker ends with it."""
        self._selector.unregister(self._waiting[pid])
        os.kill(pid, signal.SIGKILL)

    def _reap(self, pid: int, descriptor: int) -> None:
        self._selector.unregister(descriptor)
        os.close(descriptor)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with self._waiting.pop(pid) as connection, contextlib.suppress(OSError):
            with contextlib.suppress(KeyError):  # `_kill` was first
                self._selector.unregister(connection)
            connection.sendall(b"%d\n" % code)


def _become_worker(environment: dict[str, str], warm: int) -> NoReturn:
    try:
        os.environ.clear()
        os.environ.update(environment)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        run(warm)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def serve_forks(listening: socket.socket, owner: int, modules: Sequence[str], preload: Sequence[str]) -> None:
    """Import `modules`, and elsewhere `preload`, then fork a worker of process `owner` for every connection."""
    from musadata.sandbox import start_ahead
    from musadata.sandbox.confine import die_with_parent

    die_with_parent(owner)
    start_ahead(preload)
    gc.disable()  # what is imported stays
    for module in modules:
        importlib.import_module(module)
    gc.enable()
    gc.freeze()  # else the collector of each worker would touch, and so copy, all that is warm
    _Forks(listening).serve()


def keep_quiet() -> None:
    # Every failure reaches the command through the control channel; here it would be printed once more per worker.
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the command; its end is ours


def run(parent: int) -> NoReturn:
    """Be the worker that the environment describes, a child of process `parent`."""
    from apache_beam.runners.worker import sdk_worker, sdk_worker_main

    from musadata.sandbox.confine import die_with_parent
    from pipelines import lifetime

    die_with_parent(parent)
    vars(sdk_worker)["print"] = lambda *_, **__: None  # it prints the traceback as well as sending it
    lifetime.collect_rarely()
    sdk_worker_main.main(sys.argv)
    lifetime.close()  # journals on an object store hold back what is not yet worth a segment
    os._exit(0)  # its threads still hold what extensions would complain of at the interpreter's end


def _wait_for_fork(path: str) -> int | None:
    """The exit code of a worker that the warm process has forked; None if there is no such process."""
    with socket.socket(socket.AF_UNIX) as warm:
        try:
            warm.connect(path)
            warm.sendall(json.dumps(dict(os.environ)).encode() + b"\n")
        except OSError:
            return None
        with warm.makefile("rb") as stream:
            return int(stream.readline() or 1)


def main() -> None:
    """A worker; with arguments the warm process."""
    keep_quiet()
    if len(sys.argv) > 1:
        from pipelines import worker  # under its real name

        listening, owner, modules, preload = sys.argv[1:]
        opened = socket.socket(fileno=int(listening))
        worker.serve_forks(opened, int(owner), modules.split(","), preload.split(","))
        os._exit(0)
    parent = os.getppid()
    code = _wait_for_fork(os.environ.get(WARM, ""))
    if code is not None:
        os._exit(code if code >= 0 else 128 - code)
    run(parent)


if __name__ == "__main__":
    main()
