"""What limits a kernel, by its counters: every problem with the figures that show it, the costliest first.

Costs are in sectors of 32 bytes. A wavefront of shared memory takes the time of four, since a multiprocessor moves 128
bytes of either a cycle. Launches are counted at small sizes, so nothing is said that follows from the size: idle blocks
and threads, and what a reduction costs beside a short row.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from musadata.sampling.profiling import metrics as names
from musadata.sampling.profiling.kernel_code import KernelCode
from musadata.sampling.profiling.metrics import Counters, Pointer

WAVEFRONT = 4  # sectors
LEAST_SHARE = 0.15  # of the launch's whole cost, below which a problem is not worth a word
SCATTERED = 1.5  # times as many sectors as the bytes would fit in
CACHED = 128  # sectors that the first cache holds whatever else a block reads
FAR_APART = 0.5  # sectors a lane, from which on neighbours are not near each other
BROADCAST = 3  # sectors a request, below which lanes mostly read the same
REPEATED = 4.0  # times that the same sector is asked for
REUSED = 6  # times that each element is read, from which on many threads want it
SECTOR_FLOATS = 8
TURNS = 4  # accesses of a thread from which on it walks along a row
ONE_WORD = 0.9  # of a warp's lanes that take turns, from which on all of them change the same word
CONTENDED = 8  # turns an atomic request, from which on its lanes meet more often than those of scattered indices
TILE = re.compile(r"__shared__\s+[\w:]+\s+(\w+)\[([^\]]+)\]\[([^\]]+)\]")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Problem:
    """One thing that costs time. `kind` names its wording; `values` are what that says."""

    kind: str
    cost: float
    values: dict[str, Any]


def total_cost(counters: Counters) -> float:
    """What all accesses of a launch cost."""
    return counters.get(names.SECTORS) + _cost_of_shared(counters)


def find_problems(counters: Counters, code: KernelCode) -> list[Problem]:
    """The problems that are worth a word; none if the kernel does what it has to."""
    found = [problem for find in _FINDERS for problem in find(counters, code)]
    least = LEAST_SHARE * total_cost(counters)
    return sorted((one for one in found if one.cost >= least), key=lambda one: (-one.cost, one.kind))


def resident_blocks(counters: Counters) -> int:
    """Blocks that a multiprocessor holds at once, registers aside."""
    return int(min(counters.get(name) for name in (names.LIMIT_SHARED, names.LIMIT_BLOCKS, names.LIMIT_WARPS)))


def _warps(counters: Counters) -> int:
    return -(-counters.threads // names.WARP)


def _scattered(counters: Counters, code: KernelCode) -> list[Problem]:
    found = []
    for one in counters.pointers:
        if one.name and not _is_served_by_cache(one) and one.sectors >= SCATTERED * one.least_sectors > 0:
            kind = _how_indexed(one) if one.name in code.gathered else _how_scattered(one, counters)
            found.append(Problem(kind, one.sectors - one.least_sectors, _describe(counters, one)))
    return found


def _is_served_by_cache(one: Pointer) -> bool:
    """Lanes that mostly read the same, and small tables: the cache has them, in whatever order they are read."""
    few_each = one.sectors < BROADCAST * one.requests
    return few_each or (one.sectors < 8 * one.requests and one.different_sectors <= CACHED)


def _how_indexed(one: Pointer) -> str:
    return "gathered" if one.operation == "load" else "gathered_stores"


def _how_scattered(one: Pointer, counters: Counters) -> str:
    """Whether lanes leave gaps, each walks along the memory that it begins at, or each access is somewhere else."""
    if one.sectors < max(8 * one.requests, FAR_APART * one.lanes):
        return "strided"
    if one.operation == "store":
        return "scattered_stores"
    busy = counters.get(names.THREADS) - counters.get(names.IDLE)
    if one.sectors < 2 * one.different_sectors or one.lanes < TURNS * busy:
        return "transposed"
    return "rows_reused" if one.lanes >= REUSED * SECTOR_FLOATS * one.different_sectors else "rows"


def _describe(counters: Counters, one: Pointer) -> dict[str, Any]:
    return {
        "name": one.name,
        "operations": "loads from" if one.operation == "load" else "stores to",
        "requests": one.requests,
        "sectors": one.sectors,
        "least": one.least_sectors,
        "different": one.different_sectors,
        "all_sectors": counters.get(names.SECTORS),
    }


def _repeated(counters: Counters, code: KernelCode) -> list[Problem]:
    """Loads that ask for the same sectors again, beyond what caches hold for certain, where this costs more than what
    the kernel moves through its other pointers in any case."""
    found = []
    tiles = "__shared__" in code.text
    moved = sum(one.different_sectors for one in counters.pointers)
    for one in counters.pointers:
        is_load = one.operation == "load" and bool(one.name) and one.different_sectors > CACHED
        is_scattered = one.sectors >= SCATTERED * one.least_sectors
        if is_load and not is_scattered and one.sectors >= REPEATED * one.different_sectors:
            cost = (one.sectors - one.different_sectors) / 2
            if cost >= moved - one.different_sectors:
                found.append(Problem("tiles" if tiles else "repeated", cost, _describe(counters, one)))
    return found


def _conflicts(counters: Counters, code: KernelCode) -> list[Problem]:
    found = []
    for operation in ("load", "store"):
        wavefronts = counters.get(names.wavefronts_name(operation))
        conflicts = counters.get(names.conflicts_name(operation))
        if conflicts >= 0.25 * wavefronts > 0:
            tile = TILE.search(code.text)
            kind = "conflicts_tile" if tile and _NUMBER.fullmatch(tile[3].strip()) else "conflicts"
            values = {"operation": operation, "wavefronts": wavefronts, "conflicts": conflicts}
            if tile and kind == "conflicts_tile":
                values["tile"] = tile[0].split(None, 2)[2]
            found.append(Problem(kind, WAVEFRONT * conflicts, values))
    return found


def _cost_of_shared(counters: Counters) -> float:
    return WAVEFRONT * sum(counters.get(names.wavefronts_name(operation)) for operation in ("load", "store"))


def _divergent(counters: Counters, code: KernelCode) -> list[Problem]:
    if counters.get(names.BARRIERS) or counters.get(names.COLLECTIVES):
        return []  # a reduction's own steps, whose share only tells how short the rows were that were counted
    requests, divergent = counters.get(names.REQUESTS), counters.get(names.DIVERGENT)
    lanes = counters.get(names.LANES)
    results = sum(one.requests for one in counters.pointers if one.operation == "store" and one.lanes == one.requests)
    if not requests or divergent - results < 0.25 * requests:  # that one lane stores what a row came to costs little
        return []
    lost = 1 - lanes / (names.WARP * requests)
    values = {"requests": requests, "divergent": divergent, "lanes": lanes, "warp": names.WARP}
    return [Problem("divergent", lost * divergent / requests * total_cost(counters) / 2, values)]


def _atomics(counters: Counters, code: KernelCode) -> list[Problem]:
    requests, turns = counters.get(names.ATOMICS), counters.get(names.TURNS)
    if not requests or turns < CONTENDED * requests:
        return []
    kind = "atomics" if turns >= ONE_WORD * names.WARP * requests else "atomics_scattered"
    return [Problem(kind, float(turns), {"requests": requests, "turns": turns})]


def _occupancy(counters: Counters, code: KernelCode) -> list[Problem]:
    warps, resident = _warps(counters), resident_blocks(counters)
    shared, blocks = counters.get(names.LIMIT_SHARED), counters.get(names.LIMIT_BLOCKS)
    if counters.blocks == 1 or not resident or resident * warps > names.SM_WARPS / 2:
        return []  # a single block may be all that there is to do
    kind = "occupancy_shared" if shared < blocks else "occupancy_blocks"
    values = {"resident": resident, "warps": warps, "most": names.SM_WARPS, "occupied": resident * warps}
    return [Problem(kind, (1 - resident * warps / names.SM_WARPS) * total_cost(counters) / 3, values)]


_FINDERS: tuple[Callable[[Counters, KernelCode], list[Problem]], ...] = (
    _scattered,
    _repeated,
    _conflicts,
    _divergent,
    _atomics,
    _occupancy,
)
