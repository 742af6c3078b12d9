"""Step 4: which element a thread computes, and which elements it reads for that."""

import re
from collections.abc import Sequence

from musadata.records import TensorFact
from musadata.teacher.reasoning.coordinates import axis_names, example, offset_of
from musadata.teacher.reasoning.element_origins import element_of, origin_of
from musadata.teacher.reasoning.emitted_indices import describe_sizes, map_kernels
from musadata.teacher.reasoning.kernel_plan import Call, CallKind, Stage, count
from musadata.teacher.reasoning.sentences import say
from musadata.teacher.reasoning.task_analysis import TaskAnalysis, join, titled, unique
from musadata.teacher.reasoning.thread_mapping import describe_mapping

_NUMBER = re.compile(r"[0-9]+")


def write_index_mapping(analysis: TaskAnalysis) -> str:
    if analysis.told:
        texts = map_kernels(analysis.told, {step for fact in analysis.trace.tensors for step in fact.stride})
        parts = titled(texts) if len(analysis.facts) > 1 else list(texts.values())
        return "\n\n".join(filter(None, [describe_sizes(analysis.told), *parts, *_alike(analysis)]))
    parts = [_on_both_sets(stage, twin) for stage, twin in analysis.distinct]
    if not parts:
        out = analysis.outputs[0]
        parts = [f"Thread `i` copies element `i` of `{out.name}`. {example(out.shape, out.name)}"]
    if len(parts) > 1:
        parts = [f"**`{stage.title}`.** {text}" for (stage, _), text in zip(analysis.distinct, parts, strict=True)]
    return "\n\n".join(parts)


def _alike(analysis: TaskAnalysis) -> list[str]:
    """Which kernels are like one of those that are written about."""
    texts = []
    for facts in analysis.told:
        others = [f"`{other.name}`" for other in analysis.facts if other is not facts and other.kind == facts.kind]
        if others:
            texts.append(f"{join(others)} {'works' if len(others) == 1 else 'work'} like `{facts.name}`.")
    return [" ".join(texts)] if texts else []


def _on_both_sets(stage: Stage, twin: Stage | None) -> str:
    """The second set is mentioned only where more than sizes differ: an axis of 1 has no coordinate and no stride."""
    text = _map_stage(stage)
    other = _map_stage(twin) if twin else text
    if _NUMBER.sub("", text) == _NUMBER.sub("", other):
        return text
    return f"{text} With the second set of shapes it reads differently, and a kernel has to serve both. {other}"


def _map_stage(stage: Stage) -> str:
    lead = stage.lead
    text = describe_mapping(lead)
    fused = [call for call in stage.calls if call is not lead and call.kind is CallKind.ELEMENTWISE]
    if stage.anchor is None:
        reads = [_read(fact, call, stage) for call in [*fused, lead] for fact in _foreign(call, stage)]
    else:
        made = _made(stage)
        before = stage.calls[: stage.calls.index(stage.anchor)]
        later = [call for call in fused if call not in before]
        reads = [_prologue(stage.anchor, [call for call in fused if call in before], made)]
        reads += [_beside(fact) for call in later for fact in call.operands if fact.name not in made]
    moved = [_moved(call) for call in stage.calls if call is not lead]
    return " ".join([text, *unique([part for part in [*reads, *moved] if part])]) + _epilogue(stage)


def _moved(call: Call) -> str:
    """The origin of an element that is moved before it is used, and so never stored."""
    origin = origin_of(call) if call.kind is CallKind.PLACEMENT else ""
    return f"`{call.output.name}` is not stored: `{element_of(call)}` is `{origin}`." if origin else ""


def _made(stage: Stage) -> set[str]:
    """Names of what a stage's own threads make, seen through views as well."""
    made: set[str] = set()
    for call in stage.calls:
        if call.kind is not CallKind.VIEW or any(fact.name in made for fact in call.operands):
            made.update(fact.name for fact in call.outputs)
    return made


def _prologue(anchor: Call, calls: Sequence[Call], made: set[str]) -> str:
    """Elementwise work on what a reduction reads."""
    inputs = unique([f"`{fact.name}`" for call in calls for fact in call.operands if fact.name not in made])
    if not inputs or anchor.source.name not in made:
        return ""
    verb = "is" if len(inputs) == 1 else "are"
    return (
        f"`{anchor.source.name}` is never stored: {join(inputs)} {verb} loaded there and the value computed on the way."
    )


def _read(fact: TensorFact, call: Call, stage: Stage) -> str:
    """How an elementwise call reads an operand: at the thread's own index, or in coordinates of its own result."""
    later = stage.calls[stage.calls.index(call) + 1 :]
    if all(other.kind in (CallKind.ELEMENTWISE, CallKind.VIEW) for other in later) and (
        call.output.shape == stage.output.shape and call.output.stride == stage.output.stride
    ):
        return _operand(fact, call.output)
    names = axis_names(len(call.output.shape))
    offset = offset_of(fact, names[len(names) - len(fact.shape) :]) if len(fact.shape) <= len(names) else "its strides"
    element = f"({', '.join(names)}) of `{call.output.name}`"
    return say("read_at", seed=fact.name + call.output.name, element=element, fact=fact, offset=offset)


def _beside(fact: TensorFact) -> str:
    """An operand of elementwise work that is fused into another loop."""
    if count(fact) == 1:
        return f"`{fact.name}` is one value for all threads."
    if len(fact.shape) == 1:
        return f"`{fact.name}` {fact.shape} is read at the last coordinate of the element."
    return f"`{fact.name}` {fact.shape} is read at the place of the element, strides {fact.stride}."


def _epilogue(stage: Stage) -> str:
    if stage.anchor is None or stage.calls[-1] is stage.anchor:
        return ""
    later = [call for call in stage.calls[stage.calls.index(stage.anchor) + 1 :] if call.kind is CallKind.ELEMENTWISE]
    names = unique([f"`{call.operator}`" for call in later])
    if not names:
        return ""
    verb = "is" if len(names) == 1 else "are"
    if count(stage.output) > count(stage.anchor.output):
        return f" {say('second_pass', names=join(names[:4]))}"
    return f" {join(names[:4])} {verb} applied to the finished value in its register, before the one store."


def _foreign(call: Call, stage: Stage) -> list[TensorFact]:
    """Operands of an elementwise call that come from outside of the stage."""
    if call.kind is not CallKind.ELEMENTWISE:
        return []
    made = {fact.name for member in stage.calls if member.kind is not CallKind.VIEW for fact in member.outputs}
    return [fact for fact in call.operands if fact.name not in made]


def _operand(fact: TensorFact, out: TensorFact) -> str:
    if fact.shape == out.shape and fact.stride == out.stride:
        return say("read_at_i", fact=fact)
    if count(fact) == 1:
        return f"`{fact.name}` is one value for all threads."
    if len(fact.shape) > len(out.shape):
        return f"`{fact.name}` {fact.shape} is read through its strides {fact.stride}."
    names = axis_names(len(out.shape))[len(out.shape) - len(fact.shape) :]
    offset = offset_of(fact, names)
    if count(fact) == count(out):
        return f"`{fact.name}` is not contiguous, stride {fact.stride}: it is read at `{offset}`."
    fixed = [name for name, size in zip(names, fact.shape, strict=True) if size == 1]
    axes = unique([*axis_names(len(out.shape))[: len(out.shape) - len(fact.shape)], *fixed])
    along = f", the same for every {join([f'`{name}`' for name in axes])}" if axes else ""
    return f"`{fact.name}` {fact.shape} is broadcast: read at `{offset}`{along}."
