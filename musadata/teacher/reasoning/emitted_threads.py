"""Step 4 for kernels that are known: which thread takes which elements or steps, in each schedule of the answers.

The answers to a task have the same kernels in different schedules. Each is told with its condition, so that what is
said holds for all of them.
"""

from math import prod

from musadata.teacher.compiler.emission.rowwise import WARP
from musadata.teacher.compiler.lowering.fusion import Reduce
from musadata.teacher.reasoning.kernel_facts import KernelFacts
from musadata.teacher.reasoning.launched_ways import Way
from musadata.teacher.reasoning.sentences import say
from musadata.teacher.reasoning.task_analysis import join, unique

_OF_ELEMENTS = (
    "one thread per element",
    "grid-stride loop",
    "float4 vectorised",
    "float4 vectorised, grid-stride loop",
    "blocks along rows",
    "two-dimensional grid",
)
_BYTES = {"float32": 4, "float64": 8, "int64": 8, "int32": 4, "float16": 2, "bfloat16": 2}


def deal_threads(facts: KernelFacts) -> list[str]:
    """What a thread takes and reads, in the schedules of the answers; parts of the sentence about a kernel's points."""
    return [*_elements(facts), *_neighbours(facts)] if facts.is_flat else _steps(facts)


def _elements(facts: KernelFacts) -> list[str]:
    """Which elements a thread takes, where each is on its own."""
    ways = {way.schedule: way for way in facts.ways}
    if not ways or any(name not in _OF_ELEMENTS for name in ways):
        return []
    order = sorted(ways, key=_OF_ELEMENTS.index)
    if order[0] == "grid-stride loop":
        order[0] = "lone grid-stride loop"
        ways[order[0]] = ways["grid-stride loop"]
    return [say(f"takes {name}", block=ways[name].block, threads=ways[name].threads) for name in order]


def _neighbours(facts: KernelFacts) -> list[str]:
    """What the threads of a warp read together."""
    dtypes = unique([access.buffer.dtype for access in facts.reads])
    if all(facts.printer.is_flat(access.buffer, access.index) for access in facts.reads):
        size = _BYTES.get(dtypes[0], 0) if len(dtypes) == 1 else 0
        fours = any(way.schedule == "float4 vectorised" for way in facts.ways)
        vector = say("one_piece_of_fours", total=WARP * 16) if fours else ""
        return [say("one_piece", size=size, warp=WARP, total=WARP * size, vector=vector)] if size else []
    if len(facts.kernel.axes) < 2:
        return []
    last = facts.kernel.axes[-1]
    apart: dict[int, list[str]] = {}
    for access in facts.reads:
        step = facts.step(access, last)
        if step in (0, 1):
            apart.setdefault(step, []).append(f"`{facts.name_of(access.buffer)}`")
    words = {1: "neighbours of {}", 0: "one and the same element of {}"}
    texts = [words[step].format(join(unique(names))) for step, names in sorted(apart.items(), reverse=True)]
    return [say("neighbours", axis=last.name, what=join(texts))] if texts else []


def _steps(facts: KernelFacts) -> list[str]:
    """Who takes which steps of a point, and how partial results are joined."""
    stage = facts.kernel.reductions[0] if facts.kernel.reductions else None
    if stage is None or not stage.axes or steps_of(facts, stage)[0] <= 1:
        return []
    texts = []
    alone = [way for way in facts.ways if way.schedule.startswith("one thread per output")]
    if alone and len(alone) < len(facts.ways):
        texts.append(say("steps_of_thread"))
    for name in ("warp", "block"):
        ways = [way for way in facts.ways if f"{name} per" in way.schedule]
        texts += [_team(name, ways, facts, stage)] if ways else []
    columns = [way for way in facts.ways if way.schedule.startswith("neighbouring columns")]
    texts += [say("steps_of_columns", members=way.threads[1], across=way.threads[0]) for way in columns[:1]]
    return texts


def _team(name: str, ways: list[Way], facts: KernelFacts, stage: Reduce) -> str:
    """The steps of the threads of a warp or a block, and how they join what they have."""
    team, in_fours = ways[0].team, [way for way in ways if way.held]
    share = "fours" if len(in_fours) == len(ways) else "steps_or_fours" if in_fours else "steps"
    if share == "steps" and steps_of(facts, stage)[0] <= team:
        share = "one_step"
    if name == "warp":
        joins = say("join_lanes")
    else:
        shuffles = any("warp shuffles" in way.schedule for way in ways)
        tree = any("shared-memory reduction" in way.schedule for way in ways)
        how = "join_either" if shuffles and tree else "join_warps" if shuffles else "join_tree"
        joins = say(how, team=team, warp=WARP, warps=team // WARP)
    lone = all(not store.axes for store in facts.kernel.stores)
    after = say("one_stores" if lone else "all_go_on", what="lane" if name == "warp" else "thread")
    return f"{say(f'{share}_of_{name}', team=team)}; {joins}, {after}"


def steps_of(facts: KernelFacts, stage: Reduce) -> tuple[int, int]:
    """How many steps a point has, in the first and in the second set of shapes."""
    first, other = (prod(facts.extents(stage.axes, sizes)) for sizes in (facts.sizes, facts.other))
    return first, other
