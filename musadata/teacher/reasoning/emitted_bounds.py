"""Step 5 for kernels that are known: what ends inside of a block or a tile, and which conditions guard what is read.

The answers to a task have the same kernels in different schedules. What is said here holds for all of them.
"""

from collections.abc import Mapping
from math import gcd, prod

from musadata.teacher.compiler.emission.pointwise import THREADS
from musadata.teacher.compiler.emission.rowwise import WARP, identity
from musadata.teacher.compiler.emission.tiled import can_tile, partition
from musadata.teacher.compiler.ir.index_formulas import Variable
from musadata.teacher.compiler.lowering.fusion import PARTS_AXIS, Reduce
from musadata.teacher.compiler.lowering.shared_axes import dealt
from musadata.teacher.reasoning.kernel_facts import FLAT, KernelFacts
from musadata.teacher.reasoning.sentences import say
from musadata.teacher.reasoning.task_analysis import join, unique

_MOST_GUARDS, _MOST_ROUNDS = 3, 2
_SHARED = 8  # steps: with fewer, no team of threads shares a point
_SMALLEST_TILE, _LARGEST_TILE = 4, 128


def bound_kernel(facts: KernelFacts) -> str:
    """The idle threads and the guards of a kernel, with figures of both sets of shapes; empty for a single point."""
    if facts.kernel.attends:
        return _attention(facts)
    if can_tile(facts.kernel) and not facts.is_partial:
        sentences = [_tiles(facts)]
    else:
        rounds = _rounds(facts)
        few = rounds and max(facts.points_of_sets) < THREADS  # a thread for each would leave the device idle
        sentences = ["" if facts.is_partial or few else bound_results(facts), rounds]
    return " ".join(sentence for sentence in (*sentences, *_guards(facts)) if sentence)


def bound_results(facts: KernelFacts) -> str:
    """Whether the points of a kernel fill whole blocks; empty for a single one."""
    total, other = facts.points_of_sets
    if total == other == 1:
        return ""
    return bound_points(total, other, facts.name_of(facts.writes[0].buffer) if facts.is_flat else "")


def bound_points(total: int, other: int, out: str) -> str:
    """Whether points fill whole blocks in one set of shapes, in both or in none. They are elements of `out`, or have
    inner loops where that is empty."""
    rest, last = total % THREADS, other % THREADS
    told = {"total": total, "other": other, "block": THREADS, "rest": rest, "last": last}
    told |= {"idle": THREADS - rest, "spare": THREADS - last}
    words = {
        "grid": "in a flat grid" if out else "in a flat grid with a thread for each point",
        "what": f"an element of `{out}`" if out else "a point",
        "guard": f"the guard `{FLAT} < total`" if out else "the guard on points",
    }
    if total == other:
        name = "points_of_both_sets" if rest else "whole_blocks_of_both_sets"
    elif rest and last:
        name = "points"
    else:
        name = "whole_blocks_of_second_set" if rest else "whole_blocks_of_first_set" if last else "whole_blocks"
    return say(name, **told, **words)


def _tiles(facts: KernelFacts) -> str:
    """What sticks out of the tiles of a product."""
    kernel = dealt(facts.kernel)
    stage, parts = kernel.reductions[0], partition(kernel)
    assert parts is not None and stage.contraction is not None
    axes = {"row": list(parts[1]), "column": list(parts[2]), "depth": list(stage.axes)}
    if any(axis.extent.variables for axis in stage.axes):
        del axes["depth"]  # that of one phase is not that of another
    sides, figures = _sides(facts, axes)
    if stage.contraction.shared:
        sides = f"In each {'phase' if facts.kernel.axes[1:2] == kernel.axes[1:2] else 'group'} {sides}"
    fitting = gcd(_LARGEST_TILE, *figures)
    if fitting == _LARGEST_TILE:
        return say("whole_tiles", sides=sides, fitting=fitting)
    return say("some_tiles" if fitting >= _SMALLEST_TILE else "no_tiles", sides=sides, fitting=fitting)


def _attention(facts: KernelFacts) -> str:
    """What sticks out of the tiles of queries, keys and columns."""
    stage, parts = facts.kernel.reductions[0], partition(facts.kernel)
    if parts is None:
        return ""
    sides, _ = _sides(facts, {"row": list(parts[1]), "column": list(parts[2]), "depth": list(stage.axes[:1])})
    return say("attention_tiles", sides=sides)


def _sides(facts: KernelFacts, axes: Mapping[str, list[Variable]]) -> tuple[str, list[int]]:
    """The sides of a product in words, those of the second set of shapes that differ, and all figures."""
    first, other = (
        [(prod(facts.extents(some, sizes)), name) for name, some in axes.items()]
        for sizes in (facts.sizes, facts.other)
    )
    changed = [one for one, before in zip(other, first, strict=True) if one != before]
    second = f", with the second set of shapes {_counted(changed)}" if changed else ""
    return f"{_counted(first)}{second}", [number for number, _ in (*first, *other)]


def _counted(parts: list[tuple[int, str]]) -> str:
    named = {"depth": "a depth of {}", "row": "{} rows", "column": "{} columns"}
    return join(
        ["1 " + name if number == 1 and name != "depth" else named[name].format(number) for number, name in parts]
    )


def _rounds(facts: KernelFacts) -> str:
    """What each reduction starts from, where a warp that shares its steps has lanes without one."""
    found: dict[str, list[str]] = {}
    for stage in facts.kernel.stages:
        if not isinstance(stage, Reduce) or stage.kind.startswith("arg") or facts.pieces is not None:
            continue
        if any(axis.extent.variables or axis.name in PARTS_AXIS for axis in stage.axes):
            continue
        first, other = (prod(facts.extents(stage.axes, sizes)) for sizes in (facts.sizes, facts.other))
        rests = [_spare(first)] if first % WARP else []
        rests += [f"with the second set of shapes {_spare(other)}"] if other % WARP and other != first else []
        if rests and first > _SHARED:
            found.setdefault("; ".join(rests), []).append(f"`{identity(stage.kind, stage.dtype)}` in `{stage.local}`")
    texts = [say("spare_lanes", rests=rests, holds=join(unique(holds))) for rests, holds in found.items()]
    return " ".join(texts[:_MOST_ROUNDS])


def _spare(steps: int) -> str:
    return f"{WARP} − {steps} % {WARP} = {WARP - steps % WARP}"


def _guards(facts: KernelFacts) -> list[str]:
    texts = []
    for guard in facts.guards()[:_MOST_GUARDS]:
        text = f"Where `{guard.condition}` does not hold, "
        names = unique([f"`{facts.name_of(buffer)}`" for buffer in guard.buffers])
        if guard.is_loaded_elsewhere:
            text += f"`{guard.other}` counts in {join([f'`{name}`' for name in guard.stages])}."
        elif names:
            text += f"{join(names)} {'is' if len(names) == 1 else 'are'} not loaded and `{guard.other}` counts."
        else:
            text += f"`{guard.other}` counts."
        texts.append(text)
    for access in facts.loaded_indices()[:1]:
        texts.append(say("loaded_index", seed=f"{facts.name} {access.text}", index=access.text))
    return texts
