"""The six reasoning steps, written from the facts of a trace: what the compiler teacher answers when asked to reason.

Every figure comes from the traces or from arithmetic that is shown. Expressions that say what sentences claim are made
from the same values.
"""

from collections.abc import Sequence

from musadata.compiler.emission.candidate import Candidate
from musadata.records import ReasoningStep, Task, Trace
from musadata.teacher.reasoning.boundaries import write_boundaries
from musadata.teacher.reasoning.decomposition import write_decomposition
from musadata.teacher.reasoning.index_mapping import write_index_mapping
from musadata.teacher.reasoning.mathematics import write_mathematics
from musadata.teacher.reasoning.pitfalls import write_pitfalls
from musadata.teacher.reasoning.schedule_choice import write_choice
from musadata.teacher.reasoning.sizes import write_sizes
from musadata.teacher.reasoning.task_analysis import TaskAnalysis

__all__ = ["write_analysis", "write_plan", "write_reasoning"]

_WRITERS = {
    "semantic decomposition": write_decomposition,
    "scalar mathematics": write_mathematics,
    "shape calculation": write_sizes,
    "index mapping": write_index_mapping,
    "boundary handling": write_boundaries,
    "error pre-analysis": write_pitfalls,
}


def write_reasoning(
    task: Task, traces: Sequence[Trace], candidate: Candidate | None = None
) -> tuple[ReasoningStep, ...]:
    """The six steps for a task and the kernels of an answer; without one, for a plan made from the trace.

    The same arguments give the same text.
    """
    return write_analysis(task, traces, candidate)[0]


def write_plan(task: Task, traces: Sequence[Trace], candidate: Candidate) -> str:
    """What decides the design of an answer: its kernels, where there are several, and the choice of a schedule, where
    it is the best that is known; where it is neither, how threads are mapped to elements."""
    analysis = TaskAnalysis(task, tuple(traces), candidate)
    kernels = [write_decomposition(analysis)] if len(analysis.facts) > 1 else []
    told = "\n\n".join(filter(None, [*kernels, write_choice(analysis, defended=True)]))
    return told or write_index_mapping(analysis)


def write_analysis(
    task: Task, traces: Sequence[Trace], candidate: Candidate | None = None
) -> tuple[tuple[ReasoningStep, ...], dict[str, str]]:
    """The six steps, and what their sentences claim as expressions over the facts."""
    analysis = TaskAnalysis(task, tuple(traces), candidate)
    return tuple(ReasoningStep(step, write(analysis)) for step, write in _WRITERS.items()), analysis.claims
