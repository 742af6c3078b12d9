"""Questions whose answers follow from a task's trace: each function computes one, or None."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from random import Random

from musadata.records import Bound, QuestionTopic, TensorFact, Trace
from musadata.tracing.layout import is_contiguous
from musadata.tracing.roofline import H100, itemsize, traffic, unit_of

WARP, SECTOR_BYTES = 32, 32
_FEWEST_MOVED, _MOST_MOVED = 3, 8  # tensors whose bytes a question has added up
_MOST_DRAWS = 16  # of a warp, until its access is not trivial


@dataclass(frozen=True)
class Figures:
    """A question's facts, as text that goes with it, and the values of its wording."""

    facts: str
    values: dict[str, object]


def describe(*facts: TensorFact) -> str:
    """A line for each tensor. What it was made from is named where all of that has a line too."""
    listed = {fact.name for fact in facts}
    return "\n".join(_line(fact, listed.issuperset(fact.operands)) for fact in facts)


def _line(fact: TensorFact, is_traced: bool) -> str:
    made = f", made by `{fact.operator}`" if fact.operands else ""
    source = f" from {', '.join(fact.operands)}" if fact.operands and is_traced else ""
    given = f" with {fact.arguments}" if fact.operands and fact.arguments else ""
    layout = f"shape {fact.shape}, strides {fact.stride} in elements"
    return f"`{fact.name}`: {fact.role}, {fact.dtype}, {layout}{made}{source}{given}."


def roofline(trace: Trace, random: Random) -> Figures | None:
    moved = [fact for fact in trace.tensors if fact.role != "intermediate"]
    if not trace.flops or not _FEWEST_MOVED <= len(moved) <= _MOST_MOVED or traffic(moved) != trace.bytes:
        return None  # nothing to derive, a list that is too long to follow, or tensors that the trace does not show
    memory = trace.bound is Bound.MEMORY
    return Figures(
        f"{describe(*moved)}\nWork: {trace.flops} FLOPs. Least traffic: each of these tensors is moved once, whole.",
        {
            "flops": trace.flops,
            "bytes": trace.bytes,
            "sum": _sum_of_bytes(moved),
            "balance": H100.balance(unit_of(trace.tensors)),
            "intensity": f"{trace.flops / trace.bytes:.4g}",
            "relation": "<=" if memory else ">",
            "limit": "memory" if memory else "arithmetic",
        },
    )


def _sum_of_bytes(facts: Sequence[TensorFact]) -> str:
    """The elements of tensors, added for each size of an element: 4 × (800 + 100) + 8 × 16."""
    counts: dict[int, list[str]] = {}
    for fact in facts:
        counts.setdefault(itemsize(fact.dtype), []).append(str(prod(fact.shape)))
    texts = {size: some[0] if len(some) == 1 else f"({' + '.join(some)})" for size, some in counts.items()}
    return " + ".join(f"{size} × {text}" for size, text in texts.items())


def coalescing(trace: Trace, random: Random) -> Figures | None:
    """A warp that counts off the elements of a tensor which does not lie in its own order."""
    strided = [fact for fact in trace.tensors if not is_contiguous(fact) and prod(fact.shape) >= 2 * WARP]
    for fact in random.sample(strided, len(strided)):
        size = itemsize(fact.dtype)
        for _ in range(_MOST_DRAWS):
            first = WARP * random.randrange(prod(fact.shape) // WARP)
            places = [_place(fact, first + lane) for lane in range(WARP)]
            sectors = {place * size // SECTOR_BYTES for place in places}
            if len(sectors) > -(-WARP * size // SECTOR_BYTES):  # else there is nothing to think about
                values = {"name": fact.name, "first": first, "last": first + WARP - 1, "size": size}
                return Figures(describe(fact), values | {"runs": "\n".join(_runs(places)), "sectors": len(sectors)})
    return None


def _place(fact: TensorFact, number: int) -> int:
    """The place in memory, in elements, of the element with a number in the order of the shape."""
    place = 0
    for side, step in zip(reversed(fact.shape), reversed(fact.stride), strict=True):
        place, number = place + number % side * step, number // side
    return place


def _runs(places: Sequence[int]) -> Iterator[str]:
    """A row of a table for each run of lanes that lie equally far apart."""
    yield "| lanes | first element | apart |"
    yield "| --- | --- | --- |"
    start = 0
    while start < len(places):
        end, step = start + 1, 0
        if end < len(places):
            step = places[end] - places[start]
        while end < len(places) and places[end] - places[end - 1] == step:
            end += 1
        yield (
            f"| {start}–{end - 1} | {places[start]} | {step} |"
            if end - start > 1
            else f"| {start} | {places[start]} | |"
        )
        start = end


ASKED: dict[Callable[[Trace, Random], Figures | None], QuestionTopic] = {
    roofline: QuestionTopic.MEMORY,
    coalescing: QuestionTopic.COALESCING,
}
