"""Step 5 for kernels that are known: what ends inside of a block or a tile, and which conditions guard what is read.

The answers to a task have the same kernels in different schedules. What is said here holds for all of them.
"""

from collections.abc import Mapping
from math import gcd, prod

from musadata.teacher.compiler.emission.pointwise import THREADS
from musadata.teacher.compiler.emission.rowwise import identity
from musadata.teacher.compiler.emission.tiled import can_tile, partition
from musadata.teacher.compiler.ir.index_formulas import Variable
from musadata.teacher.compiler.lowering.fusion import PARTS_AXIS
from musadata.teacher.compiler.lowering.shared_axes import dealt
from musadata.teacher.reasoning.kernel_facts import FLAT, KernelFacts
from musadata.teacher.reasoning.launched_ways import Way
from musadata.teacher.reasoning.sentences import say
from musadata.teacher.reasoning.task_analysis import join, unique

_MOST_GUARDS, _MOST_ROUNDS = 3, 2
_ONE_EACH = (
    "one thread per element",
    "grid-stride loop",
    "one thread per output",
    "one thread per output, grid-stride loop",
)
_SMALLEST_TILE, _LARGEST_TILE = 4, 128


def bound_kernel(facts: KernelFacts) -> str:
    """The idle threads and the guards of a kernel, with figures of both sets of shapes; empty for a single point."""
    if facts.kernel.attends:
        return _attention(facts)
    if can_tile(facts.kernel) and not facts.is_partial:
        sentences = [_tiles(facts)]
    else:
        sentences = ["" if facts.is_partial else bound_results(facts), *_rounds(facts)]
    return " ".join(sentence for sentence in (*sentences, *_guards(facts)) if sentence)


def bound_results(facts: KernelFacts) -> str:
    """Whether the points of a kernel fill whole blocks in the schedules of the answers; empty for a single one."""
    total, other = facts.points_of_sets
    if total == other == 1:
        return ""
    ways = {way.schedule: way for way in facts.ways}
    alone = [way for name, way in ways.items() if name in _ONE_EACH]
    out = facts.name_of(facts.writes[0].buffer) if facts.is_flat else ""
    texts = [bound_points(total, other, out, alone[0].block)] if alone else []
    if not facts.ways:
        texts = [bound_points(total, other, out)]
    if "float4 vectorised" in ways:
        texts.append(_fours(ways["float4 vectorised"], total, other))
    if "two-dimensional grid" in ways:
        texts.append(_rows(facts, ways["two-dimensional grid"]))
    if "blocks along rows" in ways:
        texts.append(_along_rows(facts, ways["blocks along rows"]))
    if "float4 vectorised, grid-stride loop" in ways and not alone:
        texts.append(say("end_of_loop", total=total, other=f", {other} with the second set" if other != total else ""))
    return " ".join(filter(None, texts))


def _fours(way: Way, total: int, other: int) -> str:
    """The threads that have no float4 in each set of shapes."""
    told: dict[str, str] = {}
    for number, points in enumerate((total, other)):
        fours = -(-points // 4)
        rest, spare, key = points % 4, -fours % way.block, "2" if number else ""
        told["second" if number else "first"] = f"{points} / 4 = {fours}" if not rest else f"⌈{points} / 4⌉ = {fours}"
        told[f"tail{key}"] = say("float4_tail", number=f"{points} % 4 = {rest}", s="s" * (rest > 1)) if rest else ""
        idle = f"{way.block} − {fours} % {way.block} = {spare}"
        told[f"spare{key}"] = say("float4_spare", idle=idle) if spare else ""
    return say("float4_of_both_sets" if total == other else "float4_threads", **told)


def _rows(facts: KernelFacts, way: Way) -> str:
    """What sticks out of the blocks of a grid of rows and columns, in either set of shapes."""
    *outer, last = way.emitted.kernel.axes
    across, down = way.threads[:2]
    rests: list[str] = []
    for number, sizes in enumerate((facts.sizes, facts.other)):
        sides = ((last.extent.evaluate(sizes), across, "columns"), (prod(facts.extents(outer, sizes)), down, "rows"))
        idle = [
            f"{block} − {side} % {block} = {block - side % block} {name}" for side, block, name in sides if side % block
        ]
        if idle:
            rests.append(f"{'with the second set of shapes ' if number else ''}{join(idle)}")
    return say("grid_of_rows", across=across, down=down, rests=", ".join(rests)) if rests else ""


def _along_rows(facts: KernelFacts, way: Way) -> str:
    """The threads of a row's last block that have no column, in either set of shapes."""
    last, block = way.emitted.kernel.axes[-1], way.block
    rests = []
    for number, sizes in enumerate((facts.sizes, facts.other)):
        cols = last.extent.evaluate(sizes)
        if cols % block:
            which = "with the second set of shapes " if number else ""
            rests.append(f"{which}{block} − {cols % block} = {block - cols % block}")
    return say("grid_of_blocks", block=block, rests=join(unique(rests))) if rests else ""


def bound_points(total: int, other: int, out: str, block: int = THREADS) -> str:
    """Whether points fill whole blocks in one set of shapes, in both or in none. They are elements of `out`, or have
    inner loops where that is empty."""
    rest, last = total % block, other % block
    told = {"total": total, "other": other, "block": block, "rest": rest, "last": last}
    told |= {"idle": block - rest, "spare": block - last}
    words = {
        "grid": "in a grid with one element per thread" if out else "in a grid with a thread for each point",
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


def _rounds(facts: KernelFacts) -> list[str]:
    """Which threads of a warp or a block that shares the steps have none in the last round, and what they keep."""
    kept: list[str] = []
    texts: list[str] = []
    for stage in facts.kernel.reductions:
        if stage.kind.startswith("arg") or any(axis.extent.variables for axis in stage.axes):
            continue
        if facts.pieces is None and any(axis.name in PARTS_AXIS for axis in stage.axes):
            continue
        sides = (facts.sizes, facts.other)
        first, other = (prod(facts.extents(stage.axes, sizes)) for sizes in sides)
        if facts.pieces is not None:
            first = other = facts.pieces % first or first
        found = [text for way in facts.ways if way.team > 1 and (text := _spare(way, first, other))]
        texts += found
        kept += [f"`{identity(stage.kind, stage.dtype)}` in `{stage.local}`"] if found else []
    told = unique(texts)[:_MOST_ROUNDS]
    return [f"{'. '.join(told)}{say('what_is_kept', holds=join(unique(kept)))}."] if told else []


def _spare(way: Way, first: int, other: int) -> str:
    """Who has no step in the last round, in either set of shapes; empty if all have one."""
    team, name = way.team, "a warp" if "warp per" in way.schedule else f"a block of {way.team}"
    what = "lanes" if name == "a warp" else "threads"
    rests = []
    for number, steps in enumerate((first, other)):
        shares = -(-steps // 4) if way.held else steps
        if shares % team == 0 or (number and other == first):
            continue
        idle = team - shares % team
        spare = f"{team} − {shares} = {idle}" if shares < team else f"{team} − {shares} % {team} = {idle}"
        text = f"{spare} {what} have none{'' if shares < team else ' in the last round'}"
        if way.held:
            busy = f"{steps} / 4 = {shares}" if steps % 4 == 0 else f"⌈{steps} / 4⌉ = {shares}"
            text = f"{busy} {what} have one, {spare} none" if shares < team else f"of {busy} fours {text}"
        rests.append(f"{'with the second set of shapes ' if number else ''}{text}")
    if not rests:
        return ""
    held = f"{name} holds the row in fours" if way.held else f"{name} shares the steps"
    return say("spare_threads", who=held, rests="; ".join(rests))


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
