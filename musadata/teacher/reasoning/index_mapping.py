"""Step 4: why work is dealt to threads so, and which elements a kernel reads and writes at each point of its loops."""

from collections.abc import Sequence

from musadata.compiler.ir.index_formulas import Variable
from musadata.teacher.reasoning.kernel_facts import Access, KernelFacts
from musadata.teacher.reasoning.schedule_choice import name_of, write_choice
from musadata.teacher.reasoning.task_analysis import TaskAnalysis, join, table
from musadata.tracing.layout import is_contiguous

_MOST_VIEWS = 5
_MOST_ACCESSES = 8
_LONGEST_PLACE = 110  # characters


def write_index_mapping(analysis: TaskAnalysis) -> str:
    if not analysis.told:
        return _strides(analysis)
    return "\n\n".join(filter(None, [write_choice(analysis), *map(_kernel, analysis.told)]))


def _kernel(facts: KernelFacts) -> str:
    """How a kernel is launched, its loops, and its accesses with how far they move along each of these."""
    inner = [axis for stage in facts.kernel.stages for axis in stage.axes]
    axes = list({axis.name: axis for axis in (*facts.kernel.axes, *inner)}.values())
    loops = [f"`{axis.name}` < {extent}" for axis, extent in zip(axes, facts.extents(axes, facts.sizes), strict=True)]
    head = ", ".join([f"`{facts.name}`", name_of(facts.way.emitted), facts.way.text, *facts.coordinates()])
    reads = [access for access in facts.reads if access.buffer not in facts.kernel.outputs]
    rows = [
        *(_row("reads", access, axes, facts) for access in reads[:_MOST_ACCESSES]),
        *(_row("writes", access, axes, facts) for access in facts.writes[:_MOST_ACCESSES]),
    ]
    return table([f"{head}; elements apart along", *loops], rows)


def _row(does: str, access: Access, axes: Sequence[Variable], facts: KernelFacts) -> list[str]:
    text = access.text if len(access.text) <= _LONGEST_PLACE else facts.name_of(access.buffer)
    steps = [facts.step(access, axis) for axis in axes]
    return [f"{does} `{text}`", *("varies" if step is None else str(step) for step in steps)]


def _strides(analysis: TaskAnalysis) -> str:
    """How outputs lie in memory, and what is read in another order than that of its shape."""
    read = {fact.name: fact for call in analysis.calls for fact in call.operands}
    told = [*analysis.outputs, *(fact for fact in read.values() if not is_contiguous(fact))][:_MOST_VIEWS]
    strides = join([f"`{fact.name}` {f'by stride {fact.stride}' if fact.shape else 'is one element'}" for fact in told])
    claims = (f'stride("{fact.name}") == {fact.stride}' for fact in told)
    return analysis.state(f"{strides}; all else in the order of its shape.", claims)
