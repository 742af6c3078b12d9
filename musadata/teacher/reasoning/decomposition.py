"""Step 1: what the module computes, operator by operator, and which operators share a kernel."""

from collections import Counter

from musadata.records import Bound
from musadata.teacher.reasoning.kernel_plan import KNOWLEDGE, Call, CallKind, Stage, count, words
from musadata.teacher.reasoning.sentences import say
from musadata.teacher.reasoning.task_analysis import TaskAnalysis, join, named, unique

_MOST_BULLETS = 10
_DOES: dict[str, str] = KNOWLEDGE["does"]
_DOES_BY_NAME: dict[str, str] = KNOWLEDGE["does_by_name"]


def write_decomposition(analysis: TaskAnalysis) -> str:
    working = [call for call in analysis.calls if call.kind is not CallKind.VIEW]
    inputs = join([named(fact) for fact in analysis.trace.tensors if fact.role == "input"])
    outputs = join([named(fact) for fact in analysis.outputs])
    weights = [named(fact) for fact in analysis.trace.tensors if fact.role == "parameter"]
    lines = [
        analysis.choose(
            "opening",
            f"`{analysis.task.name}` turns {inputs} into {outputs}.",
            f"From {inputs} the module makes {outputs}.",
            f"Input: {inputs}. Output: {outputs}.",
        )
    ]
    if weights:
        lines[0] += f" It has learned parameters: {join(weights[:8])}{' and more' if len(weights) > 8 else ''}."
    lines += ["", "In the order of dispatch:", ""]
    lines += [_bullet(call) for call in working[:_MOST_BULLETS]]
    if len(working) > _MOST_BULLETS:
        rest = unique([f"`{call.operator}`" for call in working[_MOST_BULLETS:]])
        lines.append(f"- and so on, with {join(rest[:8])}{' and others' if len(rest) > 8 else ''}.")
    views = unique([f"`{call.operator}`" for call in analysis.calls if call.kind is CallKind.VIEW])
    if views:
        lines.append(f"- {join(views)} only rename{'s' if len(views) == 1 else ''} strides: no data moves.")
    lines += ["", _plan(analysis)]
    return "\n".join(lines)


def _bullet(call: Call) -> str:
    reads = join(unique([named(fact) for fact in call.operands])) if call.operands else "nothing"
    makes = join([named(fact) for fact in call.outputs])
    detail = f", {call.arguments}" if call.arguments and len(call.arguments) < 90 else ""
    does = _DOES_BY_NAME.get(call.packet, _DOES[call.kind])
    return f"- `{call.operator}` {does}: {reads} → {makes}{detail}."


def _plan(analysis: TaskAnalysis) -> str:
    stages = [stage for stage in analysis.stages if not stage.moves_nothing]
    if not stages:
        return "Nothing is computed: a kernel has to copy the elements to where the output's strides expect them."
    if len(stages) == 1:
        return f"{_one_kernel(stages[0])} {_limit(analysis)}"
    loops = Counter(_loop_name(stage) for stage in stages)
    parts = [name if times == 1 else f"{words(times)} times {name}" for name, times in loops.items()]
    text = analysis.choose(
        "plan",
        f"One kernel per loop nest makes {words(len(stages))}: {join(parts[:6])}.",
        f"A plan of {words(len(stages))} kernels follows from the loop nests: {join(parts[:6])}.",
    )
    made = stages[0].output
    why = ": whoever reads it needs values that other threads have made"
    if stages[0].anchor is None:
        why = ", unless whoever reads it computes its values again"
    crossing = f" {named(made)} then goes through memory{why}."
    return f"{text}{crossing if made.role == 'intermediate' else ''} {_limit(analysis)}"


def _one_kernel(stage: Stage) -> str:
    working = [call for call in stage.calls if call.kind is not CallKind.VIEW]
    inner = [call.output for call in working[:-1] if call.output.role == "intermediate"]
    if not inner:
        return f"One kernel is enough: {_loop_name(stage)}."
    kept = [fact for fact in inner if count(fact) > 1]
    names = join([f"`{fact.name}`" for fact in inner[:6]])
    facts = {"total": count(kept[0]), "accesses": 2 * count(kept[0])} if kept else {}
    saved = f" {say('saved_traffic', kept=kept[0], **facts)}" if kept else ""
    return f"One kernel can do it all: {names} need not be stored.{saved}"


def _loop_name(stage: Stage) -> str:
    if stage.anchor is None:
        return f"an elementwise pass for {join([f'`{name}`' for name in stage.operators[:4]])}"
    extra = [name for name in stage.operators if name != stage.anchor.operator]
    kind = "loop" if stage.anchor.kind is CallKind.OTHER else f"{stage.anchor.kind.value} loop"
    with_extra = f" with {join([f'`{name}`' for name in extra[:4]])} fused" if extra else ""
    return f"a {kind} for `{stage.anchor.operator}`{with_extra}"


def _limit(analysis: TaskAnalysis) -> str:
    trace = analysis.trace
    ratio = f"{trace.flops} FLOPs over {trace.bytes} bytes of least traffic, {trace.intensity:.4g} FLOPs per byte"
    if trace.bound is Bound.MEMORY:
        return f"With {ratio}, memory bounds it: what counts is to touch every byte once and to coalesce."
    return f"With {ratio}, arithmetic bounds it: what counts is to reuse each loaded value many times."
