"""Step 4: how work is dealt to threads and why so, which element one computes, and which elements it reads for that."""

from musadata.teacher.reasoning.coordinates import coordinates
from musadata.teacher.reasoning.emitted_indices import describe_sizes, map_kernels
from musadata.teacher.reasoning.kernel_facts import KernelFacts
from musadata.teacher.reasoning.schedule_choice import write_choice
from musadata.teacher.reasoning.task_analysis import TaskAnalysis, join, named, unique
from musadata.tracing.layout import is_contiguous

_MOST_VIEWS = 5


def write_index_mapping(analysis: TaskAnalysis) -> str:
    if analysis.told:
        texts = map_kernels(analysis.told, {step for fact in analysis.trace.tensors for step in fact.stride})
        parts = list(texts.values())
        if len(analysis.facts) > 1:
            parts = [
                " ".join([f"**{_title(facts, analysis)}.** {texts[facts.name]}", *_apart(facts, analysis)])
                for facts in analysis.told
            ]
        return "\n\n".join(filter(None, [write_choice(analysis), describe_sizes(analysis.told), *parts]))
    return "\n\n".join([*_flat(analysis), *_turned(analysis)])


def _title(told: KernelFacts, analysis: TaskAnalysis) -> str:
    """The names of a kernel and of those that are like it."""
    others = [f"`{facts.name}`" for facts in _alike(told, analysis)]
    return f"`{told.name}`, and {join(unique(others))} in the same way" if others else f"`{told.name}`"


def _alike(told: KernelFacts, analysis: TaskAnalysis) -> list[KernelFacts]:
    return [facts for facts in analysis.facts if facts.kind == told.kind and facts.name != told.name]


def _apart(told: KernelFacts, analysis: TaskAnalysis) -> list[str]:
    """What kernels like this one read at other places of the same tensor, such as the rows of a joined weight."""
    launches: dict[str, list[str]] = {}
    for facts in _alike(told, analysis):
        pairs = zip(facts.reads, told.reads, strict=False)
        moved = [f"`{one.text}`" for one, usual in pairs if one.buffer == usual.buffer and one.text != usual.text]
        if moved:
            launches.setdefault(facts.name, []).append(join(unique(moved)))
    return [f"`{name}` reads {', in another launch '.join(unique(reads))}." for name, reads in launches.items()]


def _flat(analysis: TaskAnalysis) -> list[str]:
    """The coordinates of what each kernel of a plan stores."""
    stored = {stage.output.shape: stage.output for stage, _ in analysis.distinct} or {
        fact.shape: fact for fact in analysis.outputs
    }
    return unique([f"`i` counts the elements of {named(out)}. {coordinates(out.shape)}" for out in stored.values()])


def _turned(analysis: TaskAnalysis) -> list[str]:
    """The strides of views that are read in another order than that of memory."""
    read = {fact.name: fact for stage, _ in analysis.distinct for call in stage.calls for fact in call.operands}
    turned = [fact for fact in read.values() if not is_contiguous(fact)][:_MOST_VIEWS]
    if not turned:
        return []
    told = join([f"`{fact.name}` by stride {fact.stride}" for fact in turned])
    claims = (f'stride("{fact.name}") == {fact.stride}' for fact in turned)
    return [analysis.state(f"Not in the order of memory: {told}.", claims)]
