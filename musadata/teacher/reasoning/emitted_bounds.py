"""Step 5 for kernels that are known: how many threads have work, and which conditions guard what they read."""

from math import prod

from musadata.teacher.compiler.emission.pointwise import THREADS, can_vectorise
from musadata.teacher.compiler.emission.rowwise import WARP, identity
from musadata.teacher.compiler.emission.tiled import TILE, can_tile, partition
from musadata.teacher.compiler.lowering.fusion import Reduce
from musadata.teacher.reasoning.kernel_facts import KernelFacts
from musadata.teacher.reasoning.task_analysis import join, unique

_MOST_GUARDS, _MOST_ROUNDS = 3, 2
_SHARED = 8  # steps: with fewer, no team of threads shares a point


def bound_kernel(facts: KernelFacts) -> str:
    """The guards of a kernel, with figures of both sets of shapes."""
    if facts.kernel.attends:
        return _attention(facts)
    sentences = [_tiles(facts)] if can_tile(facts.kernel) else [_points(facts), _rounds(facts)]
    return " ".join(sentence for sentence in [*sentences, *_guards(facts)] if sentence)


def _points(facts: KernelFacts) -> str:
    total, other = facts.points(facts.sizes), facts.points(facts.other)
    if total == other == 1 or facts.pieces is not None:
        return ""
    what = "points" if facts.is_flat else "results"
    tail = _vector_tail(facts, total, other)
    if total % THREADS == 0 and other % THREADS == 0:
        sets = "" if total == other else f", and {other} with the second set of shapes,"
        each = "" if facts.is_flat else ", a thread each,"
        return f"{total} {what}{sets}{each} fill blocks of {THREADS} exactly: a missing bound would not show{tail}."
    second = "" if total == other else f"; with the second set of shapes {_idle(other, what)}"
    return f"{'' if facts.is_flat else 'With a thread each, '}{_idle(total, what)}{second}{tail}."


def _idle(total: int, what: str) -> str:
    """How many threads of the last block are past the end, with one for each element."""
    blocks = -(-total // THREADS)
    idle = blocks * THREADS - total
    if not idle:
        return f"{total} {what} fill {blocks} × {THREADS} = {total} threads"
    if blocks == 1:
        each = f"{what.rstrip('s')} leaves" if total == 1 else f"{what} leave"
        return f"{total} {each} {THREADS} − {total} = {idle} threads of a block to be stopped"
    return f"{total} {what} in {blocks} blocks leave {blocks} × {THREADS} − {total} = {idle} threads to be stopped"


def _vector_tail(facts: KernelFacts, total: int, other: int) -> str:
    """What is left where a thread takes four elements at once."""
    if not can_vectorise(facts.kernel) or not (total % 4 or other % 4):
        return ""
    rests = unique([f"{number} % 4 = {number % 4}" for number in (total, other) if number % 4])
    return f"; loads of four leave a tail: {join(rests)}"


def _tiles(facts: KernelFacts) -> str:
    """What sticks out of the tiles of a product."""
    stage = facts.kernel.reductions[0]
    assert stage.contraction is not None
    _, rows, cols = stage.contraction.parts(stage.index)
    parts = [
        ("row", list(dict.fromkeys(v for index in rows for v in index.variables))),
        ("column", list(dict.fromkeys(v for index in cols for v in index.variables))),
        ("depth", list(stage.axes)),
    ]
    first = [(prod(facts.extents(axes, facts.sizes)), name) for name, axes in parts]
    other = [(prod(facts.extents(axes, facts.other)), name) for name, axes in parts]
    changed = [one for one, before in zip(other, first, strict=True) if one != before]
    over = unique([name if name == "depth" else f"{name}s" for number, name in (*first, *other) if number % TILE])
    second = f", with the second set of shapes {_counted(changed)}" if changed else ""
    if not over:
        return f"{_counted(first)}{second}, are whole tiles of {TILE} × {TILE}."
    lost = f"tiles of {TILE} × {TILE} reach beyond the {join(over)}"
    how = "0 is loaded there and nothing stored, and every thread stays for the barriers"
    return f"{_counted(first)}{second}: {lost}, so {how}."


def _attention(facts: KernelFacts) -> str:
    """What sticks out of the tiles of queries, keys and columns."""
    stage, parts = facts.kernel.reductions[0], partition(facts.kernel)
    if parts is None:
        return ""
    axes = {"row": parts[1], "column": parts[2], "depth": stage.axes[:1]}
    first, other = (
        [(prod(facts.extents(some, sizes)), name) for name, some in axes.items()]
        for sizes in (facts.sizes, facts.other)
    )
    changed = [one for one, before in zip(other, first, strict=True) if one != before]
    second = f", with the second set of shapes {_counted(changed)}" if changed else ""
    beyond = "keys beyond the depth get the score `-INFINITY` and so no weight; nothing is stored beyond the others"
    return f"{_counted(first)}{second}, for queries, values and keys: {beyond}."


def _counted(parts: list[tuple[int, str]]) -> str:
    named = {"depth": "a depth of {}", "row": "{} rows", "column": "{} columns"}
    return join(
        ["1 " + name if number == 1 and name != "depth" else named[name].format(number) for number, name in parts]
    )


def _rounds(facts: KernelFacts) -> str:
    """How a warp gets through the steps of each reduction, and what its spare lanes contribute."""
    found: dict[str, list[str]] = {}
    for stage in facts.kernel.stages:
        if not isinstance(stage, Reduce) or stage.kind.startswith("arg") or facts.pieces is not None:
            continue
        if any(axis.extent.variables for axis in stage.axes):
            continue
        steps = [prod(facts.extents(stage.axes, sizes)) for sizes in (facts.sizes, facts.other)]
        if steps[0] > _SHARED and any(number % WARP for number in steps):
            rounds = "; with the second set of shapes ".join(unique([_round(number) for number in steps]))
            found.setdefault(rounds, []).append(f"`{identity(stage.kind, stage.dtype)}` for `{stage.local}`")
    texts = [f"{rounds[0].upper()}{rounds[1:]}: spare lanes hold {join(holds)}." for rounds, holds in found.items()]
    return " ".join(texts[:_MOST_ROUNDS])


def _round(steps: int) -> str:
    rounds = -(-steps // WARP)
    spare = rounds * WARP - steps
    counted = f"⌈{steps} / {WARP}⌉ = {rounds} round{' of a warp leaves' if rounds == 1 else 's of a warp leave'}"
    return f"{counted} {rounds} × {WARP} − {steps} = {spare} lanes idle"


def _guards(facts: KernelFacts) -> list[str]:
    texts = [
        f"Where `{condition}` does not hold, nothing is loaded and `{other}` counts."
        for condition, other in facts.guards()[:_MOST_GUARDS]
    ]
    for access in facts.loaded_indices()[:1]:
        texts.append(f"`{access.text}` decides which element is taken: outside of its axis it would leave the tensor.")
    return texts
