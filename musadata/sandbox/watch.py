"""How much CPU and memory all processes of one call use together, from /proc."""

import os
from dataclasses import dataclass
from pathlib import Path

from musadata.sandbox.confine import kill_all
from musadata.sandbox.limits import Limits


@dataclass(frozen=True)
class _Process:
    state: str
    parent: int
    ticks: int  # of CPU time, ended children included
    private_bytes: int


class Watch:
    """Sees what the kernel's own limits do not: a call that only sleeps, and the memory of many processes together."""

    def __init__(self, limits: Limits, whole_cell: bool):
        self._limits = limits
        self._whole_cell = whole_cell
        self._ticks = -1
        self._idle = 0.0
        self._ticks_per_second = os.sysconf("SC_CLK_TCK")
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._start = self._read(os.getpid())

    def reason_to_end(self, passed: float) -> str:
        """ "timeout", "memory" or "", after another `passed` seconds of wall time."""
        processes = self._processes()
        if not processes:
            return ""
        ticks = sum(process.ticks for process in processes.values())
        asleep = all(process.state in "SZTt" for process in processes.values())
        if ticks > (self._limits.seconds + 1) * self._ticks_per_second:
            return "timeout"  # together; the kernel's own limit is for each process
        self._idle = self._idle + passed if asleep and ticks == self._ticks else 0.0
        self._ticks = ticks
        if self._idle > self._limits.idle_seconds:
            return "timeout"
        # The warm process's own pages are shared by all its forks, so they are not counted against the call.
        shared = self._start.private_bytes if self._start else 0
        used = sum(max(0, process.private_bytes - shared) for process in processes.values())
        return "memory" if 0 < self._limits.memory_mb << 20 < used else ""

    def kill_descendants(self) -> None:
        """Kill all that this process has started or adopted, until nothing is left."""
        kill_all(self._descendants)

    def user_tasks(self) -> int:
        """Tasks of this user on the whole machine: without namespaces the kernel counts them all."""
        count = 0
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if folder.stat().st_uid == os.getuid():
                    count += len(list((folder / "task").iterdir()))
            except OSError:
                continue
        return count

    def _processes(self) -> dict[int, _Process]:
        pids = self._all() if self._whole_cell else self._descendants()
        found = {pid: self._read(pid) for pid in pids}
        return {pid: process for pid, process in found.items() if process is not None}

    def _all(self) -> list[int]:
        try:
            return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and path.name != "1"]
        except OSError:
            return []

    def _descendants(self) -> list[int]:
        found: list[int] = []
        waiting = [os.getpid()]
        while waiting:
            pid = waiting.pop()
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                try:
                    new = [int(child) for child in children.read_text().split()]
                except OSError:
                    continue
                found += new
                waiting += new
        return found

    def _read(self, pid: int) -> _Process | None:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
            statm = Path(f"/proc/{pid}/statm").read_text().split()
        except OSError:
            return None
        fields = stat[stat.rindex(")") + 2 :].split()
        private = (int(statm[1]) - int(statm[2])) * self._page
        return _Process(fields[0], int(fields[1]), sum(map(int, fields[11:15])), private)
