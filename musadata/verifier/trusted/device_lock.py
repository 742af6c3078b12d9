"""Locks on a device across all processes of a machine: as many candidates as its memory has room for, of which any
number are executed, or one is timed.
"""

import fcntl
import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_POLL_SECONDS = 0.01


class _Hold:
    """A locked file, or none. Each candidate needs an object of its own, since locks belong to open files."""

    _held: IO[bytes] | None = None

    def release(self) -> None:
        """Release the lock if it is held."""
        if self._held is not None:
            self._held.close()
            self._held = None


class DeviceLock(_Hold):
    """A lock in three files. A candidate that wants the device alone holds the gate until the others have left, so that
    newcomers cannot keep it waiting. Those that want it alone come before those that share it, one after the other:
    each change from many to one waits for the slowest of the many.

    Locks end with their process.
    """

    def __init__(self, folder: Path, name: str):
        self._gate_path, self._path = _file(folder, name, "gate"), _file(folder, name, "lock")
        self._waiting_path = _file(folder, name, "waiting")
        self._wanted: IO[bytes] | None = None  # held by those that wait to be alone, or are

    def share(self) -> None:
        """Wait until no candidate is being timed or waits for that; none will be timed while this is held."""
        self.release()
        with self._waiting_path.open("wb") as waiting:
            fcntl.flock(waiting, fcntl.LOCK_EX)
        self._take(fcntl.LOCK_SH)

    def take_alone(self) -> None:
        """Wait until no other candidate uses the device; none will while this is held."""
        self.release()
        self._wanted = self._waiting_path.open("wb")
        fcntl.flock(self._wanted, fcntl.LOCK_SH)
        self._take(fcntl.LOCK_EX)

    def give_way(self) -> None:
        """If this is shared and another waits to be alone, let it go first. Asked between two commands: else it would
        wait for all that the slowest of the many has left to do."""
        if self._held is not None and self._wanted is None and self._is_wanted():
            self.share()

    def _is_wanted(self) -> bool:
        with self._waiting_path.open("wb") as waiting:
            try:
                fcntl.flock(waiting, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    def release(self) -> None:
        """Release the lock if it is held."""
        super().release()
        if self._wanted is not None:
            self._wanted.close()
            self._wanted = None

    def _take(self, kind: int) -> None:
        with self._gate_path.open("wb") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            held = self._path.open("wb")
            fcntl.flock(held, kind)
        self._held = held


class DeviceSeat(_Hold):
    """One of the places for a process with a context of its own."""

    def __init__(self, folder: Path, name: str, seats: int):
        self._paths = [_file(folder, name, f"seat{number}") for number in range(seats)]

    def take(self) -> None:
        """Wait until one is free."""
        for path in itertools.cycle(self._paths):
            file = path.open("wb")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                if path == self._paths[-1]:
                    time.sleep(_POLL_SECONDS)
                continue
            self._held = file
            return


def _file(folder: Path, name: str, purpose: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    safe = "".join(letter if letter.isalnum() else "-" for letter in name)
    return folder / f"{safe}.{purpose}"


@contextmanager
def released(*holds: _Hold | None) -> Iterator[None]:
    """Release all of these at the end of the block."""
    try:
        yield
    finally:
        for hold in holds:
            if hold is not None:
                hold.release()
