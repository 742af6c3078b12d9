"""Step 5 for kernels that are known: what ends inside of a block or a tile of the answer, and which conditions guard
what is read."""

from collections.abc import Mapping, Sequence
from math import prod

from musadata.compiler.emission.pointwise import THREADS
from musadata.compiler.emission.tiled import partition
from musadata.compiler.ir.code import Loop
from musadata.compiler.ir.index_formulas import Variable
from musadata.compiler.ir.schedule import Bind
from musadata.compiler.lowering.shared_axes import dealt
from musadata.teacher.reasoning.kernel_facts import KernelFacts
from musadata.teacher.reasoning.launched_ways import Way
from musadata.teacher.reasoning.sentences import say
from musadata.teacher.reasoning.task_analysis import join, unique

_MOST_GUARDS = 3
_SECOND = "in set 2 "


def bound_kernel(facts: KernelFacts) -> str:
    """The idle threads and the guards of a kernel, with figures of both sets of shapes; empty for a single point."""
    if facts.kernel.attends:
        return _attention(facts)
    if facts.way.schedule.tile and not facts.is_partial:
        sentences = [_tiles(facts, facts.way.schedule.tile)]
    else:
        sentences = ["" if facts.is_partial else bound_results(facts), *_rounds(facts)]
    return " ".join(sentence for sentence in (*sentences, *_guards(facts)) if sentence)


def bound_results(facts: KernelFacts) -> str:
    """Whether the points of a kernel fill whole blocks of the answer; empty for a single point, or a block for each."""
    (total, other), way = facts.points_of_sets, facts.way
    if total == other == 1 or way.team == way.block > 1:
        return ""
    if way.schedule.find(Bind, "rows") and way.schedule.find(Bind, "columns"):
        return _along_rows(facts, way)
    columns = way.schedule.by_columns
    each = way.threads[0] if columns else way.block // way.team
    guard = f"if ({way.guard}) return;" if way.guard else "column < total" if columns else ""
    if way.schedule.strides:
        loops = (one.statement for one in way.places if isinstance(one.statement, Loop))
        guard = next((str(loop.condition) for loop in loops), "")
    if not way.fours:
        return bound_points(total, other, each, guard)
    tail = say("float4_tail", left=_left(total, other, 4)) if total % 4 or other % 4 else ""
    return f"{bound_points(-(-total // 4), -(-other // 4), each, guard or 'first < total')} {tail}".rstrip()


def bound_points(total: int, other: int, block: int = THREADS, guard: str = "i < total") -> str:
    """What whole blocks leave of points at two sizes, and the guard that stops those past the end; "" for nothing."""
    if not (total % block or other % block):
        return ""
    return say("points", guard=guard or "a guard", left=_left(total, other, block))


def _left(total: int, other: int, each: int) -> str:
    """`4224 % 256 = 128, in set 2 129 % 256 = 129`."""
    second = f", in set 2 {other} % {each} = {other % each}" if other != total else ""
    return f"{total} % {each} = {total % each}{second}"


def _along_rows(facts: KernelFacts, way: Way) -> str:
    """The threads of a row's last block that have no column, in either set of shapes."""
    last, block = way.emitted.kernel.axes[-1], way.block
    rests = []
    for number, sizes in enumerate((facts.sizes, facts.other)):
        cols = last.extent.evaluate(sizes)
        if cols % block:
            rests.append(f"{_SECOND * number}{block} − {cols} % {block} = {block - cols % block}")
    return say("grid_of_blocks", block=block, guard=way.guard, rests=" and ".join(unique(rests))) if rests else ""


def _tiles(facts: KernelFacts, tile: Sequence[int]) -> str:
    """What is left for the last tiles of a product."""
    kernel = dealt(facts.kernel)
    stage, parts = kernel.reductions[0], partition(kernel)
    assert parts is not None and stage.contraction is not None
    axes = {"row": list(parts[1]), "column": list(parts[2]), "depth": list(stage.axes)}
    if any(axis.extent.variables for axis in stage.axes):
        del axes["depth"]  # that of one phase is not that of another
    sides, _ = _sides(facts, axes)
    if stage.contraction.shared:
        sides = f"In each {'phase' if facts.kernel.axes[1:2] == kernel.axes[1:2] else 'group'} {sides}"
    rests: list[list[str]] = []
    for sizes in (facts.sizes, facts.other):
        lengths = [(prod(facts.extents(some, sizes)), name) for name, some in axes.items()]
        named = {"depth": "depth", "row": "rows", "column": "columns"}
        left = [
            f"{length} % {side} = {length % side} of the {named[name]}"
            for (length, name), side in zip(lengths, tile, strict=False)
            if length % side
        ]
        rests.append([text for text in left if not rests or text not in rests[0]])
    told = [join(left) for left in rests[:1] if left] + [f"{_SECOND}{join(left)}" for left in rests[1:] if left]
    in_fours = tile[2] == 1
    shape = f"{tile[0]} × {tile[1]}" if in_fours else f"{tile[0]} × {tile[1]} by {tile[2]} of the depth"
    name = "whole_tiles" if not told else "lines_of_tiles" if in_fours else "rest_of_tiles"
    return say(name, sides=sides, tile=shape, rests=", ".join(told))


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
    second = f", in set 2 {_counted(changed)}" if changed else ""
    return f"{_counted(first)}{second}", [number for number, _ in (*first, *other)]


def _counted(parts: list[tuple[int, str]]) -> str:
    named = {"depth": "a depth of {}", "row": "{} rows", "column": "{} columns"}
    return join(
        ["1 " + name if number == 1 and name != "depth" else named[name].format(number) for number, name in parts]
    )


def _rounds(facts: KernelFacts) -> list[str]:
    """How many threads of a warp or a block that shares the steps never have one, at the declared size."""
    way = facts.way
    if way.team == 1 or facts.pieces is not None:
        return []
    steps = [prod(facts.extents(stage.axes, facts.sizes)) for stage in facts.kernel.reductions]
    shares = max((-(-number // 4) if way.held else number for number in steps), default=way.team)
    if shares >= way.team or any(axis.extent.variables for one in facts.kernel.reductions for axis in one.axes):
        return []
    what = "lanes of a warp" if way.schedule.team == "warp" else "threads of a block"
    return [say("idle_team", what=what, team=way.team, shares=shares, idle=way.team - shares)]


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
