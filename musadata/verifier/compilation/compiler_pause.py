"""Pausing the compilers of a machine, whichever of our processes have started them, for a measurement of the host.

Who measures holds a locked file; each compiler's keeper looks for such files a few times a second, stops its compiler
while there are any, and lets it go on at the end. So a measurement that dies ends the pause with it: its locks go.
"""

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from musadata.verifier.compilation.build_cache import cache_folder

LOOK_SECONDS = 0.1  # between two looks of a keeper
_MOST_SECONDS = 60.0  # that one compiler is paused: who measures may wait for it, or one measurement follow another
_SUFFIX = ".quiet"


@contextmanager
def compilers_paused(name: str) -> Iterator[None]:
    """Stop the compilers for the time of the block. `name` is that of the device that has been taken for it."""
    safe = "".join(letter if letter.isalnum() else "-" for letter in name)
    with (_folder() / f"{safe}{_SUFFIX}").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        time.sleep(2 * LOOK_SECONDS)  # until all keepers have looked
        yield


class PausedGroup:
    """The process group of a compiler."""

    def __init__(self, group: int):
        self._group = group
        self._left = _MOST_SECONDS

    def look(self) -> float:
        """Return at once, or after the pause: how many seconds it was."""
        if self._left <= 0 or not _is_wanted():
            return 0.0
        start = time.monotonic()
        self._signal(signal.SIGTSTP)
        try:
            while time.monotonic() - start < self._left and _is_wanted():
                time.sleep(LOOK_SECONDS)
        finally:
            self._signal(signal.SIGCONT)
        paused = time.monotonic() - start
        self._left -= paused
        return paused

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._group, number)


def _is_wanted() -> bool:
    return any(_is_locked(path) for path in _folder().glob(f"*{_SUFFIX}"))


def _is_locked(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _folder() -> Path:
    folder = cache_folder() / "locks"
    folder.mkdir(exist_ok=True)
    return folder
