"""What limits a kernel, by its counters: every problem with the figures that show it, the costliest first.

Costs are in sectors of 32 bytes. A wavefront of shared memory takes the time of four, since a multiprocessor moves 128
bytes of either a cycle. Shares that are not moved but waited for (idle lanes) count as half of what they idle through.
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
_FULL = 0.9  # of the lanes of the warps that do something
FEW_ACCESSES = 8  # of a thread, up to which they wait for memory about once
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
    if any(problem.kind.startswith(("serial", "surplus")) for problem in found):  # which say what to do with threads
        found = [problem for problem in found if not problem.kind.startswith("idle")]
    least = LEAST_SHARE * total_cost(counters)
    return sorted((one for one in found if one.cost >= least), key=lambda one: (-one.cost, one.kind))


def find_small(counters: Counters) -> Problem | None:
    """What is to be said of a launch whose blocks all run at once and are soon over, or wait with few others.

    Such a launch does not wait for the bandwidth of memory: it keeps too few requests on the way.
    """
    warps, device = counters.blocks * _warps(counters), names.MULTIPROCESSORS * names.SM_WARPS
    threads, lanes = counters.get(names.THREADS), counters.get(names.LANES)
    if not threads or counters.blocks > names.MULTIPROCESSORS * resident_blocks(counters):
        return None
    soon = lanes < FEW_ACCESSES * threads
    if not soon and 2 * warps > device:
        return None
    values = {"blocks": counters.blocks, "warps": _warps(counters), "launched": warps, "threads": threads}
    values |= {"multiprocessors": names.MULTIPROCESSORS, "most": names.SM_WARPS, "device": device, "lanes": lanes}
    return Problem("small" if soon else "waiting", 0.0, values)


def find_few(counters: Counters) -> Problem | None:
    """That multiprocessors are without a block: whatever else is wrong, it decides little at such a size."""
    if counters.blocks >= names.MULTIPROCESSORS:
        return None
    warps = _warps(counters)
    values = {"blocks": counters.blocks, "most": names.MULTIPROCESSORS, "warps": warps, "held": names.SM_WARPS}
    values |= {"launched": counters.blocks * warps, "device": names.MULTIPROCESSORS * names.SM_WARPS}
    return Problem("few", 0.0, values)


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
    if not counters.pointers and counters.get(names.SECTORS) >= SCATTERED * counters.get(names.LEAST_SECTORS) > 0:
        sectors, least = counters.get(names.SECTORS), counters.get(names.LEAST_SECTORS)
        found.append(Problem("scattered", sectors - least, {"sectors": sectors, "least": least}))
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
    if one.lanes >= REUSED * SECTOR_FLOATS * one.different_sectors:
        return "rows_reused"
    stored = sum(other.lanes for other in counters.pointers if other.operation == "store")
    return "rows" if one.lanes >= TURNS * stored else "rows_kept"  # reduced, or as many results as elements


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
                values |= {"tile": tile[0].split(None, 2)[2], "padded": f"{tile[1]}[{tile[2]}][{int(tile[3]) + 1}]"}
            found.append(Problem(kind, WAVEFRONT * conflicts, values))
    return found


def _surplus(counters: Counters, code: KernelCode) -> list[Problem]:
    """Reductions of a block with more threads than there are elements."""
    threads, barriers = counters.get(names.THREADS), counters.get(names.BARRIERS)
    loads = [one for one in counters.pointers if one.operation == "load" and one.name]
    most = max(loads, key=lambda one: one.lanes, default=None)
    requests = counters.get(names.REQUESTS)
    if not (most and barriers) or most.lanes >= threads or 2 * counters.get(names.requests_name("load")) > requests:
        return []
    values = {"name": most.name, "lanes": most.lanes, "threads": threads, "barriers": barriers}
    values |= {"requests": requests, "loads": counters.get(names.requests_name("load"))}
    kind = "surplus_in_one_block" if counters.blocks == 1 else "surplus"
    return [Problem(kind, _cost_of_shared(counters), values)]


def _cost_of_shared(counters: Counters) -> float:
    return WAVEFRONT * sum(counters.get(names.wavefronts_name(operation)) for operation in ("load", "store"))


def _tree(counters: Counters, code: KernelCode) -> list[Problem]:
    """Reductions in shared memory alone, with fewer threads in every step."""
    requests, loads = counters.get(names.REQUESTS), counters.get(names.requests_name("load"))
    barriers, divergent = counters.get(names.BARRIERS), counters.get(names.DIVERGENT)
    if not barriers or counters.get(names.COLLECTIVES) or 2 * loads > requests or divergent < 0.05 * requests:
        return []
    if _surplus(counters, code):
        return []
    values = {"requests": requests, "loads": loads, "barriers": barriers, "divergent": divergent}
    return [Problem("tree", _cost_of_shared(counters), values)]


def _exchange(counters: Counters, code: KernelCode) -> list[Problem]:
    """Reductions of a block whose threads have little to reduce."""
    requests, loads = counters.get(names.REQUESTS), counters.get(names.requests_name("load"))
    collectives, barriers = counters.get(names.COLLECTIVES), counters.get(names.BARRIERS)
    if not (collectives and barriers) or 2 * loads > requests or _surplus(counters, code):
        return []
    values = {"requests": requests, "loads": loads, "barriers": barriers, "collectives": collectives}
    values |= {"lanes": counters.get(names.LANES), "threads": counters.get(names.THREADS)}
    kind = "exchange_in_one_block" if counters.blocks == 1 else "exchange"
    return [Problem(kind, _cost_of_shared(counters), values)]


def _divergent(counters: Counters, code: KernelCode) -> list[Problem]:
    if _surplus(counters, code) or _exchange(counters, code) or _tree(counters, code):
        return []  # of which most of it comes
    requests, divergent = counters.get(names.REQUESTS), counters.get(names.DIVERGENT)
    lanes = counters.get(names.LANES)
    results = sum(one.requests for one in counters.pointers if one.operation == "store" and one.lanes == one.requests)
    if not requests or divergent - results < 0.25 * requests:  # that one lane stores what a row came to costs little
        return []
    lost = 1 - lanes / (names.WARP * requests)
    values = {"requests": requests, "divergent": divergent, "lanes": lanes}
    reduces = counters.get(names.BARRIERS) or counters.get(names.COLLECTIVES)
    kind = "divergent_reduction" if reduces else "divergent"
    return [Problem(kind, lost * divergent / requests * total_cost(counters) / 2, values)]


def _idle(counters: Counters, code: KernelCode) -> list[Problem]:
    threads, idle = counters.get(names.THREADS), counters.get(names.IDLE)
    if not threads or idle < 0.25 * threads:
        return []
    alone = not counters.get(names.BARRIERS) and not counters.get(names.COLLECTIVES)
    is_full = counters.get(names.LANES) >= _FULL * names.WARP * counters.get(names.REQUESTS)
    if alone and counters.blocks > 1 and (idle < counters.threads or is_full):
        return []  # the end of the last block, or whole warps that leave at once while the others are full
    rows = "idle" if counters.get(names.BARRIERS) else "idle_lanes" if counters.get(names.COLLECTIVES) else "idle_grid"
    kind = "idle_in_one_block" if counters.blocks == 1 else rows
    values = {"threads": threads, "idle": idle, "blocks": counters.blocks, "block": counters.threads}
    return [Problem(kind, idle / threads * total_cost(counters) / 2, values)]


def _atomics(counters: Counters, code: KernelCode) -> list[Problem]:
    requests, turns = counters.get(names.ATOMICS), counters.get(names.TURNS)
    if not requests or turns < CONTENDED * requests:
        return []
    kind = "atomics" if turns >= ONE_WORD * names.WARP * requests else "atomics_scattered"
    return [Problem(kind, float(turns), {"requests": requests, "turns": turns})]


def _occupancy(counters: Counters, code: KernelCode) -> list[Problem]:
    warps, resident = _warps(counters), resident_blocks(counters)
    shared, blocks = counters.get(names.LIMIT_SHARED), counters.get(names.LIMIT_BLOCKS)
    if not resident or resident * warps > names.SM_WARPS / 2:
        return []
    kind = "occupancy_shared" if shared < blocks else "occupancy_blocks"
    values = {"resident": resident, "warps": warps, "most": names.SM_WARPS}
    return [Problem(kind, (1 - resident * warps / names.SM_WARPS) * total_cost(counters) / 3, values)]


def _serial(counters: Counters, code: KernelCode) -> list[Problem]:
    """Long work in few blocks."""
    threads, lanes = counters.get(names.THREADS), counters.get(names.LANES)
    if not threads or counters.blocks >= names.MULTIPROCESSORS or lanes < 128 * threads:
        return []
    values = {"blocks": counters.blocks, "most": names.MULTIPROCESSORS, "threads": threads, "lanes": lanes}
    return [Problem("serial", (1 - counters.blocks / names.MULTIPROCESSORS) * total_cost(counters) / 3, values)]


_FINDERS: tuple[Callable[[Counters, KernelCode], list[Problem]], ...] = (
    _scattered,
    _repeated,
    _conflicts,
    _surplus,
    _exchange,
    _tree,
    _divergent,
    _idle,
    _atomics,
    _occupancy,
    _serial,
)
