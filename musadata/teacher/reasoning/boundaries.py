"""Step 5: what ends inside of a block or a tile at these sizes, and which guards follow, as a table."""

from collections.abc import Iterator, Sequence
from math import prod

from musadata.compiler.emission.pointwise import THREADS
from musadata.compiler.emission.tiled import partition
from musadata.compiler.ir.index_formulas import Variable
from musadata.compiler.ir.schedule import Bind
from musadata.compiler.lowering.shared_axes import dealt
from musadata.teacher.reasoning.calls import count
from musadata.teacher.reasoning.kernel_facts import KernelFacts
from musadata.teacher.reasoning.task_analysis import TaskAnalysis, table

_MOST_GUARDS = 3
_EVEN = "Nothing is left over at the declared size and in set 2; the code guards for others."


def write_boundaries(analysis: TaskAnalysis) -> str:
    rows = {
        f"{facts.kind} {row[1:]}": [f"`{facts.name}`", *row]
        for facts in reversed(analysis.told)  # of kernels that are alike, the first
        for row in (*_rests(facts), *_guards(facts))
    }
    twins = {fact.name: fact for fact in analysis.other.tensors}
    for fact in analysis.outputs if not analysis.candidate else ():
        both = (count(fact), count(twins.get(fact.name, fact)))
        rests = (f"{number} % {THREADS} = {number % THREADS}" for number in both)
        rows[fact.name] = [f"`{fact.name}`", f"elements by {THREADS}", *rests]
    shown = table(["of", "what", "declared", "set 2"], list(reversed(rows.values()))) if rows else ""
    return shown or _EVEN


def _rests(facts: KernelFacts) -> Iterator[list[str]]:
    """What is left for the last blocks or tiles, where something is; steps that a team has too few of."""
    for what, axes, side in _dealt(facts):
        first, other = (prod(facts.extents(axes, sizes)) for sizes in (facts.sizes, facts.other))
        if (first % side or other % side) and max(first, other) > 1:
            yield [f"{what} by {side}", *(f"{number} % {side} = {number % side}" for number in (first, other))]
    way, stages = facts.way, facts.kernel.reductions
    steps = [[prod(facts.extents(stage.axes, sizes)) for stage in stages] for sizes in (facts.sizes, facts.other)]
    if way.team > 1 and steps[0] and not facts.is_partial and not way.schedule.tile:
        shares = [max(-(-number // way.vector) for number in some) for some in steps]
        if min(shares) < way.team:
            yield ["threads of a point without a step", *(_less(way.team, share) for share in shares)]


def _less(team: int, shares: int) -> str:
    return f"{team} − {shares} = {team - shares}" if shares < team else "0"


def _dealt(facts: KernelFacts) -> list[tuple[str, Sequence[Variable], int]]:
    """Which axes are cut into pieces of which size."""
    way, kernel = facts.way, facts.kernel
    if facts.is_partial or (way.team == way.block > 1 and not way.schedule.tile):
        return []
    if way.schedule.tile or facts.kernel.attends:
        kernel = kernel if kernel.attends else dealt(kernel)
        parts, stage = partition(kernel), kernel.reductions[0]
        if parts is None or way.schedule.tile is None:
            return []
        axes = [*zip(("rows", "columns"), parts[1:3], strict=True), ("depth", stage.axes)]
        cut = zip(axes, way.schedule.tile, strict=False)
        return [(name, some, side) for (name, some), side in cut if not any(axis.extent.variables for axis in some)]
    if not kernel.axes:
        return []
    if way.schedule.find(Bind, "rows") and way.schedule.find(Bind, "columns"):
        return [("columns", kernel.axes[-1:], way.threads[0])]
    each = way.threads[0] if way.schedule.by_columns else way.block // way.team
    return [("points", kernel.axes, way.vector * each if facts.is_flat else each)]


def _guards(facts: KernelFacts) -> Iterator[list[str]]:
    if facts.kernel.attends:
        yield ["keys past the end", "score `-INFINITY`", ""]
    for guard in facts.guards()[:_MOST_GUARDS]:
        yield [f"`{guard.condition}`", f"else `{guard.other}`", ""]
    for access in facts.loaded_indices()[:1]:
        yield [f"`{access.text}` from memory is an index", "unchecked", ""]
