"""Step 4 for kernels that are known: their points and steps, and which elements they read and write there."""

from collections.abc import Sequence, Set

from musadata.compiler.ir.index_formulas import Variable
from musadata.compiler.lowering.fusion import Reduce, Scan
from musadata.teacher.reasoning.emitted_threads import deal_threads
from musadata.teacher.reasoning.kernel_facts import FLAT, LONGEST_PLACE, Access, KernelFacts, pair_of
from musadata.teacher.reasoning.sentences import say
from musadata.teacher.reasoning.task_analysis import VARYING, join, product_text, unique

_MOST = 6  # accesses in a sentence
_SMALL = {0, 1}  # strides that need no tensor
_MOST_MOVES = 2  # accesses whose movement is told


def map_kernels(kernels: Sequence[KernelFacts], strides: Set[int]) -> dict[str, str]:
    """Where threads of each kernel read and write, with figures of the first set of shapes. `strides` are those of the
    trace's tensors."""
    texts: dict[str, str] = {}
    said: set[str] = set()
    for facts in kernels:
        movement = _movement(facts, strides)
        kind = VARYING.sub("", movement)
        moves = f"; {movement}" if movement and kind not in said else ""
        dealt = [text for text in deal_threads(facts) if text not in said]
        launched = f"{dealt[0][:1].upper()}{'; '.join(dealt)[1:]}." if dealt else ""
        if len(dealt) == 1 and ": " not in dealt[0]:  # no line says where a thread is
            moves, launched = f"{moves}; {dealt[0]}", ""
        parts = [f"{_points(facts)}: {_accesses(facts)}{moves}.", launched]
        said |= {kind, *dealt}
        texts[facts.name] = " ".join(part for part in parts if part)
    return texts


def describe_sizes(kernels: Sequence[KernelFacts]) -> str:
    """The named sizes that the formulas use, in both sets of shapes."""
    texts = [access.text for facts in kernels for access in (*facts.reads, *facts.writes)]
    lines = [part for facts in kernels for part in _lines(facts)]
    text = " ".join([*texts, *lines])
    words = set("".join(sign if sign.isalnum() or sign == "_" else " " for sign in text).split())
    first, other = kernels[0].sizes, kernels[0].other
    used = [name for name in first if name in words]
    changed = [f"`{name}` is {other[name]}" for name in used if other[name] != first[name]]
    if not used:
        return ""
    sizes, others = join([f"`{name}` is {first[name]}" for name in used]), join(changed) if changed else ""
    return say("named_sizes" if changed else "fixed_sizes", sizes=sizes, others=others)


def _lines(facts: KernelFacts) -> list[str]:
    return [*facts.coordinates(), *(place.text for place in facts.way.places), *facts.way.steps()]


def _points(facts: KernelFacts) -> str:
    axes, extents = facts.kernel.axes, facts.extents(facts.kernel.axes, facts.sizes)
    total = product_text(extents)
    steps = unique([_steps(stage.axes, facts) for stage in facts.kernel.stages if stage.axes])
    if facts.is_flat:
        apart = facts.way.fours or facts.way.turns  # else the kernel's own lines tell them
        coordinates = facts.coordinates() if apart else []
        return f"`{FLAT}` counts {total} elements{f', with {join(coordinates)}' if coordinates else ''}"
    along = f" runs along {join(steps)}" if steps else ""
    if not axes:
        return f"One result{along}"
    if product_text(extents) == "1":
        return f"One point ({', '.join(f'`{axis.name}`' for axis in axes)}){along}"
    number = "the" if facts.is_partial else total  # the trace knows no number of parts
    return f"Each of {number} points ({', '.join(f'`{axis.name}`' for axis in axes)}){along}"


def _steps(axes: tuple[Variable, ...], facts: KernelFacts) -> str:
    extents = facts.extents(axes, facts.sizes)
    about = "about " if any(axis.extent.variables for axis in axes) else ""
    count = product_text(extents)
    return f"{join([f'`{axis.name}`' for axis in axes])}, {about}{count} {'step' if count == '1' else 'steps'}"


def _accesses(facts: KernelFacts) -> str:
    reads = [f"`{access.text}`" for access in facts.reads if access.buffer not in facts.kernel.outputs]
    written = join([f"`{access.text}`" for access in facts.writes[:_MOST]])
    if not reads:
        return f"it stores {written} without a load"
    pairs = [pair for access in (*facts.reads, *facts.writes) for index in access.index if (pair := pair_of(index))]
    known = {
        f"`({outer.name}, {inner.name})` is place `{inner.name}` of group `{outer.name}`" for outer, inner in pairs
    }
    where = f", where {join(sorted(known))}" if known else ""
    long = unique([access.buffer.name for access in facts.reads if len(access.text) > LONGEST_PLACE])
    loads, lines = facts.way.loads(long[0]) if long else ([], [])
    if loads and "%" not in "".join(loads):  # as the kernel has them, which names their parts
        short = [f"`{access.text}`" for access in facts.reads if access.buffer.name not in long]
        reads = [*short, *(f"`{text}`" for text in loads)]
        where = f", where {join([f'`{line}`' for line in lines[:_MOST]])}" if lines else where
    more = len(reads) - _MOST
    shown = join([*reads[:_MOST], f"{more} more"] if more > 1 else reads)
    return f"{shown} {'goes' if len(reads) == 1 else 'go'} into {written}{where}"


def _movement(facts: KernelFacts, strides: Set[int]) -> str:
    """How accesses move from step to step and from point to point: which threads read side by side."""
    stages = [stage for stage in facts.kernel.stages if isinstance(stage, (Reduce, Scan)) and stage.axes]
    if not stages or not facts.kernel.axes or facts.pieces is not None:
        return ""
    step, point = stages[0].axes[-1], facts.kernel.axes[-1]
    names: dict[str, list[str]] = {}
    for access in facts.reads_of(stages[0]):
        if text := _moves(facts, access, step, point, strides):
            names.setdefault(text, []).append(f"`{facts.name_of(access.buffer)}`")
    texts = [
        text.format(names=join(unique(some)), are="is" if len(some) == 1 else "are", each="s" * (len(some) == 1))
        for text, some in names.items()
    ]
    return "; ".join(texts[:_MOST_MOVES])


def _moves(facts: KernelFacts, access: Access, step: Variable, point: Variable, strides: Set[int]) -> str:
    """How an access moves; `{names}` stands for the tensors of which that is so."""
    along, beside = facts.step(access, step), facts.step(access, point)
    if along is None or beside is None or not (along or beside) or not {along, beside} <= strides | _SMALL:
        return ""
    if along == 1 == beside:
        return f"{{names}} {{are}} read side by side by threads along `{step.name}` and along `{point.name}`"
    if not beside:
        return f"neighbours along `{point.name}` read the same of {{names}}, moving by {along} along `{step.name}`"
    if along == 1:
        return f"{{names}} lie{{each}} side by side along `{step.name}`, moving by {beside} along `{point.name}`"
    if beside == 1:
        far = f"moving by {along} along `{step.name}`" if along else f"and `{step.name}` does not move the place"
        return f"{{names}} lie{{each}} side by side along `{point.name}`, {far}"
    return (
        f"{{names}} move{{each}} by {along} along `{step.name}` and by {beside} along `{point.name}`: no loads coalesce"
    )
