"""Warm processes that are forked from a template, which has imported once what all of them need."""

import contextlib
import os
import select
import signal


def has_process_descriptors() -> bool:
    """Whether the kernel has descriptors of processes (Linux 5.3): they tell the end of one that is nobody's child."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


class ForkedProcess:
    """A process that a template has forked: what `subprocess.Popen` offers of a child."""

    def __init__(self) -> None:
        self.pid = self._descriptor = -1

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def found(self, pid: int) -> None:
        """It has told its number.

        Raises:
            OSError: it has ended since.
        """
        self.pid, self._descriptor = pid, os.pidfd_open(pid)

    def poll(self) -> int | None:
        """Its exit code as far as it can be known, 1; None while it runs."""
        return 1 if self._has_ended(0.0) else None

    def wait(self) -> int:
        self._has_ended(None)
        return 1

    def kill(self) -> None:
        if self._descriptor >= 0:
            with contextlib.suppress(ProcessLookupError):  # it has ended, maybe just now
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def _has_ended(self, seconds: float | None) -> bool:
        return self._descriptor >= 0 and bool(select.select([self._descriptor], [], [], seconds)[0])
