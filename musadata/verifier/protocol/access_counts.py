"""What a candidate's kernels did to memory in one call, counted while the emulator executed them.

All figures are sums over a launch. A *request* is one instruction of a warp. Between two points at which the warp is in
step (a barrier of the block, or a collective of the warp), the k-th time that lanes execute an access is one request.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

OPERATIONS = ("load", "store", "atomic")


@dataclass(frozen=True)
class GlobalCounts:
    """Accesses to global memory.

    Attributes:
        argument: place of the pointer among the kernel's pointer arguments; -1 for memory that none of them points to.
        lanes: instructions of threads.
        bytes: that threads asked for.
        sectors: of 32 bytes, summed over requests.
        least_sectors: that would hold as many different bytes, summed over requests.
        lines: of 128 bytes, summed over requests.
        turns: of atomics; the lanes of a request that change the same bytes take turns.
    """

    operation: str
    argument: int
    requests: int
    lanes: int
    bytes: int
    sectors: int
    least_sectors: int
    lines: int
    turns: int


@dataclass(frozen=True)
class SharedCounts:
    """Accesses to shared memory: 32 banks of 4 bytes. A request of 8 bytes a lane has two phases, of 16 bytes four.

    Attributes:
        wavefronts: in each phase, as many as the bank with the most different words has of them.
        conflicts: wavefronts beyond one for each phase.
        worst: the most wavefronts of one phase.
    """

    operation: str
    requests: int
    lanes: int
    wavefronts: int
    conflicts: int
    worst: int
    turns: int


@dataclass(frozen=True)
class TouchedMemory:
    """Different bytes, and sectors of 32 bytes, of what one pointer argument points to."""

    argument: int
    read_bytes: int
    read_sectors: int
    written_bytes: int
    written_sectors: int


@dataclass(frozen=True)
class LaunchCounts:
    """One launch of a kernel.

    Attributes:
        static_shared, dynamic_shared: bytes of a block.
        barriers, collectives: that blocks, and warps, have passed.
        requests, lanes: to global and shared memory.
        divergent_requests: by fewer lanes than those of their warp that access memory at all.
        divergent_warps: that made any such request, of `warps` that access memory.
        idle_threads: that access no memory.
        module_accesses: to `__constant__` and `__device__` variables, which nothing else here counts.
        repeated: lanes executed the same access more than once while their warp was not brought into step, so that
            requests are only right if they took the same turns of their loops.
        uneven: and not equally often.
        incomplete: there were more accesses than were to be counted.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    static_shared: int
    dynamic_shared: int
    barriers: int
    collectives: int
    requests: int
    lanes: int
    divergent_requests: int
    divergent_warps: int
    warps: int
    idle_threads: int
    module_accesses: int
    repeated: bool
    uneven: bool
    incomplete: bool
    global_memory: tuple[GlobalCounts, ...] = ()
    shared_memory: tuple[SharedCounts, ...] = ()
    touched: tuple[TouchedMemory, ...] = ()


@dataclass(frozen=True)
class CountedCall:
    """The launches of one call, in order; `why` there are none, or why it failed."""

    launches: tuple[LaunchCounts, ...] = ()
    why: str = ""


def read_counts(text: str) -> tuple[LaunchCounts, ...]:
    """The launches that the emulator's counter describes.

    Raises:
        ValueError: the text is not of its form.
    """
    launches: list[LaunchCounts] = []
    for line in text.splitlines():
        kind, *values = line.split("\t")
        if kind == "launch":
            launches.append(_read_launch(values))
        elif launches and kind in _PARTS:
            column, part = _PARTS[kind]
            more: dict[str, Any] = {column: (*getattr(launches[-1], column), _read(part, values))}
            launches[-1] = replace(launches[-1], **more)
        else:
            raise ValueError(f"no counts: {line[:80]!r}")
    return tuple(launches)


_PARTS: dict[str, tuple[str, type]] = {
    "global": ("global_memory", GlobalCounts),
    "shared": ("shared_memory", SharedCounts),
    "touched": ("touched", TouchedMemory),
}
_FLAGS = ("repeated", "uneven", "incomplete")
_FIGURES = [field.name for field in fields(LaunchCounts)][3:17]


def _read_launch(values: list[str]) -> LaunchCounts:
    kernel, *rest = values
    numbers = [int(value) for value in rest]
    if len(numbers) != 6 + len(_FIGURES):
        raise ValueError(f"a launch with {len(numbers)} figures")
    named: dict[str, Any] = dict(zip(_FIGURES, numbers[6:], strict=True))
    named |= {name: bool(named[name]) for name in _FLAGS}
    grid, block = (numbers[0], numbers[1], numbers[2]), (numbers[3], numbers[4], numbers[5])
    return LaunchCounts(kernel, grid, block, **named)


def _read(kind: type, values: list[str]) -> Any:
    names = [field.name for field in fields(kind)]
    if len(names) != len(values) or ("operation" in names and values[0] not in OPERATIONS):
        raise ValueError(f"no {kind.__name__}: {values[:3]}")
    named = zip(names, values, strict=True)
    return kind(**{name: value if name == "operation" else int(value) for name, value in named})
