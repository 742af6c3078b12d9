"""Who may use a device: any number of candidates that are only executed, or one that is timed, over all processes."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


class DeviceLock:
    """A lock in two files. Whoever wants the device alone holds the gate while the others leave, so none starves.

    Each candidate needs an object of its own, since locks belong to open files. Locks end with their process.
    """

    def __init__(self, folder: Path, name: str):
        folder.mkdir(parents=True, exist_ok=True)
        safe = "".join(letter if letter.isalnum() else "-" for letter in name)
        self._gate_path, self._path = folder / f"{safe}.gate", folder / f"{safe}.lock"
        self._held: IO[bytes] | None = None

    def share(self) -> None:
        """Wait until nobody is timed, then keep timing away."""
        self._take(fcntl.LOCK_SH)

    def take_alone(self) -> None:
        """Wait until nobody else uses the device, then keep everybody away."""
        self._take(fcntl.LOCK_EX)

    def release(self) -> None:
        """Let the others in; nothing happens if the lock is not held."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def _take(self, kind: int) -> None:
        self.release()
        with self._gate_path.open("wb") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            held = self._path.open("wb")
            fcntl.flock(held, kind)
        self._held = held


@contextmanager
def released(lock: DeviceLock | None) -> Iterator[DeviceLock | None]:
    """Whatever happens inside, the lock is not held afterwards."""
    try:
        yield lock
    finally:
        if lock is not None:
            lock.release()
