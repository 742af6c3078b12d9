"""Step 4 for kernels that are known: how many threads the answer launches, how each finds its element or its steps."""

from math import prod

from musadata.compiler.ir.code import has_brackets, walk
from musadata.compiler.lowering.fusion import Reduce
from musadata.teacher.reasoning.kernel_facts import LONGEST_PLACE, KernelFacts
from musadata.teacher.reasoning.launched_ways import Way
from musadata.teacher.reasoning.sentences import say
from musadata.teacher.reasoning.task_analysis import join, product_text

_MOST_PLACES = 14  # a padding of three axes has eleven


def deal_threads(facts: KernelFacts) -> list[str]:
    """What a thread takes: sentences after that about a kernel's points."""
    return [_launched(facts), *([] if facts.is_flat else _steps(facts))]


def _launched(facts: KernelFacts) -> str:
    """How many blocks there are, and the lines by which a thread finds its place. What the accesses say is not among
    them."""
    way = facts.way
    read = [part for access in facts.reads if len(access.text) <= LONGEST_PLACE for part in walk(access.element)]
    new = [one for one in way.places if not (has_brackets(one.value) and one.value in read)]
    found = [one for one in new if not one.name.endswith("_offset")]
    places = [f"`{one.text}`" for one in found[:_MOST_PLACES]]
    if way.schedule.strides:
        loop = say("grid_loop", head=places[0]) if places else ""
        rest = f", with {join(places[1:])}" if places[1:] else ""
        return f"{say('launched_loop', threads=product_text(way.threads))}{loop}{rest}"
    if way.grids is None:
        launched = say("launched_in_blocks", threads=_sides(way.threads))
    else:
        first, second = (f"`<<<{_sides(grid)}, {_sides(way.threads)}>>>`" for grid in way.grids)
        launched = say("launched", launch=first, other=f" ({second} in set 2)" * (first != second))
    fours = say("four_each") if way.fours and not way.schedule.strides else ""
    return f"{launched}{say('found_places', places=join(places)) if places else ''}{fours}"


def _sides(sizes: tuple[int, ...]) -> str:
    """The sizes of a grid or a block as a launch has them."""
    return str(sizes[0]) if len(sizes) == 1 else f"dim3({', '.join(map(str, sizes))})"


def _steps(facts: KernelFacts) -> list[str]:
    """Who takes which steps of a point."""
    stage, way = facts.kernel.reductions[0] if facts.kernel.reductions else None, facts.way
    if stage is None or not stage.axes or way.schedule.tile or steps_of(facts, stage)[0] <= 1:
        return []
    if way.schedule.by_columns:
        loop = "".join(f" by `{head}`" for head in way.steps()[:1])
        return [say("steps_of_columns", members=way.threads[1], loop=loop)]
    if way.team == 1:
        return []
    return [_share(facts, way, stage)]


def _share(facts: KernelFacts, way: Way, stage: Reduce) -> str:
    """Which steps each thread of a team has."""
    team = "lanes of a warp" if way.schedule.team == "warp" else "threads of a block"
    if way.held:
        return say("held_fours", team=team, fours=way.held // 4)
    loop = "".join(f" by `{head}`" for head in way.steps()[:1])
    once = steps_of(facts, stage)[0] <= way.team
    return say("shared_steps", team=team, loop=loop, once=say("one_step") if once else "")


def steps_of(facts: KernelFacts, stage: Reduce) -> tuple[int, int]:
    """How many steps a point has, in the first and in set 2."""
    first, other = (prod(facts.extents(stage.axes, sizes)) for sizes in (facts.sizes, facts.other))
    return first, other
