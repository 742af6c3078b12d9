"""The schedules in which the answers of a task launch a kernel, with their grids at the sizes of a trace."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from musadata.records import Trace
from musadata.teacher.compiler.emission.candidate import Candidate
from musadata.teacher.compiler.emission.launch import EmittedKernel
from musadata.teacher.grounding.launches import Launch, find_launches

_HELD = re.compile(r"float \w+_row\w*\[(\d+)\];")


@dataclass(frozen=True)
class Way:
    """One schedule of a kernel, with its launches at the first and at the second set of shapes."""

    emitted: EmittedKernel
    launches: tuple[Launch, Launch]

    @property
    def schedule(self) -> str:
        return self.emitted.schedule

    @property
    def threads(self) -> tuple[int, ...]:
        """The sizes of a block along x, y and z."""
        return self.launches[0].threads

    @property
    def block(self) -> int:
        return self.launches[0].block_size

    @property
    def held(self) -> int:
        """How many elements of a row a thread has in registers at a time; 0 if it holds none."""
        match = _HELD.search(self.emitted.source)
        return int(match[1]) if match else 0

    @property
    def team(self) -> int:
        """How many threads share the steps of a point; 1 where each point has a thread of its own, or a column."""
        return 32 if "warp per" in self.schedule else self.block if "block per" in self.schedule else 1


def ways_of(candidates: Sequence[Candidate], first: Trace, second: Trace) -> list[tuple[Way, ...]]:
    """The schedules of each kernel, those that differ, in the order of the candidates."""
    found: list[dict[tuple[str, int], Way]] = [{} for _ in candidates[0].kernels]
    for candidate in candidates:
        one, other = (_first_launches(candidate, trace) for trace in (first, second))
        for ways, emitted in zip(found, candidate.kernels, strict=True):
            name = emitted.kernel.name
            if name in one and name in other:
                way = Way(emitted, (one[name], other[name]))
                ways.setdefault((way.schedule, way.block), way)
    return [tuple(ways.values()) for ways in found]


def _first_launches(candidate: Candidate, trace: Trace) -> dict[str, Launch]:
    """The first launch of each kernel, by its name."""
    return {launch.kernel: launch for launch in reversed(find_launches(candidate.source, trace))}
