"""Locks on a device across all processes of a machine: as many candidates as its memory has room for, of which any
number are executed, or one is timed.
"""

import fcntl
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


class DeviceSeats:
    """Places on a device, of which each holder has some: for a process with a context of its own, or parts of memory.

    Attributes:
        count: how many there are.
    """

    def __init__(self, folder: Path, name: str, count: int, purpose: str = "seat"):
        self._paths = [_file(folder, name, f"{purpose}{number}") for number in range(count)]
        self._gate_path, self.count = _file(folder, name, f"{purpose}-gate"), count
        self._held: list[IO[bytes]] = []

    def take(self, count: int = 1) -> None:
        """Wait until so many are free, or all where there are fewer; in the order in which they are asked for."""
        wanted = len(self._held) + min(count, self.count)
        with self._gate_path.open("wb") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)  # of two that have some, each would wait for the other
            while len(self._held) < wanted:
                self.take_free(wanted - len(self._held))
                if len(self._held) < wanted:
                    time.sleep(_POLL_SECONDS)

    def take_free(self, count: int) -> None:
        """Take as many of these as are free, without waiting."""
        for path in self._paths:
            if count == 0:
                return
            file = path.open("wb")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                continue
            self._held.append(file)
            count -= 1

    def release(self) -> None:
        """Give all back."""
        while self._held:
            self._held.pop().close()


def _file(folder: Path, name: str, purpose: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    safe = "".join(letter if letter.isalnum() else "-" for letter in name)
    return folder / f"{safe}.{purpose}"


@contextmanager
def released(*holds: _Hold | DeviceSeats | None) -> Iterator[None]:
    """Release all of these at the end of the block."""
    try:
        yield
    finally:
        for hold in holds:
            if hold is not None:
                hold.release()
