"""Step 1: what the module computes, operator by operator, and which operators share a kernel."""

from collections import Counter
from collections.abc import Sequence

from musadata.records import Bound, TensorFact
from musadata.teacher.compiler.emission.candidate import Candidate
from musadata.teacher.reasoning.crossings import crossing
from musadata.teacher.reasoning.kernel_plan import KNOWLEDGE, Call, CallKind, Stage, count, words
from musadata.teacher.reasoning.task_analysis import TaskAnalysis, join, named, unique

_MOST_BULLETS = 10
SMALL_BYTES, SMALL_FLOPS = 1 << 22, 1 << 27  # what a data-centre GPU does in about the time of a launch
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
            f"What comes in is {inputs}, what goes out {outputs}.",
        )
    ]
    if weights:
        lines[0] += f" It has learned parameters: {join(weights[:8])}{' and more' if len(weights) > 8 else ''}."
    if analysis.candidate is not None:
        return "\n\n".join([lines[0], _kernels(analysis, analysis.candidate), _limit(analysis)])
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
        return f"{_one_kernel(analysis, stages[0])} {_limit(analysis)}"
    loops = Counter(_loop_name(stage) for stage in stages)
    parts = [name if times == 1 else f"{words(times)} times {name}" for name, times in loops.items()]
    return f"One kernel per loop nest makes {words(len(stages))}: {join(parts[:6])}. {_limit(analysis)}"


def _kernels(analysis: TaskAnalysis, candidate: Candidate) -> str:
    """The kernels of the answers, what each fuses, and why what lies between them goes through memory."""
    kernels = [emitted.kernel for emitted in candidate.kernels]
    stages = {stage.kernel: stage for stage in analysis.stages}
    if len(kernels) == 1:
        stage = stages[kernels[0].name]
        text = analysis.say("one_kernel", kernel=kernels[0].name, does=_covers(stage))
        return f"{text}{_spared(analysis, [stage])}"
    lines = []
    for kernel in kernels:
        does = f" {_covers(stages[kernel.name])}" if kernel.name in stages else ""
        lines.append(f"- `{kernel.name}`{does}{crossing(kernel, kernels)}.")
    return "\n".join([f"{words(len(kernels)).capitalize()} kernels:", "", *lines])


def _covers(stage: Stage) -> str:
    """What a kernel does from what to what, and which values stay in its registers."""
    names = list(stage.operators) or [call.operator for call in stage.calls]
    shown = [f"`{name}`" for name in names[:8]]
    reads = unique([named(fact) for fact in _read(stage)])
    source = join([*reads[:4], "others"] if len(reads) > 4 else reads) if reads else "nothing"
    text = f"does {join([*shown, 'others'] if len(names) > 8 else shown)}: {source} → {named(stage.output)}"
    inner = [f"`{fact.name}`" for fact in _held(stage)]
    if not inner:
        return text
    verb = "stays in a register" if len(inner) == 1 else "stay in registers"
    return f"{text}; {join([*inner[:5], 'others'] if len(inner) > 5 else inner)} {verb}"


def _read(stage: Stage) -> list[TensorFact]:
    """What a stage's calls read and none of them makes."""
    made = {fact.name for call in stage.calls for fact in call.outputs}
    return [fact for call in stage.calls for fact in call.operands if fact.name not in made]


def _held(stage: Stage) -> list[TensorFact]:
    """What a stage makes and only its own calls read."""
    working = [call for call in stage.calls if call.kind not in (CallKind.VIEW, CallKind.FILL)]
    made = [fact for call in working for fact in call.outputs[:1] if call.output is not stage.output]
    return [fact for fact in made if fact.role == "intermediate"]


def _spared(analysis: TaskAnalysis, stages: Sequence[Stage]) -> str:
    held = [fact for stage in stages for fact in _held(stage) if count(fact) > 1]
    if not held:
        return ""
    kept = max(held, key=count)
    facts = {"kept": kept, "total": count(kept), "accesses": 2 * count(kept)}
    return f" {analysis.say('saved_traffic', **facts)}"


def _one_kernel(analysis: TaskAnalysis, stage: Stage) -> str:
    working = [call for call in stage.calls if call.kind is not CallKind.VIEW]
    inner = [call.output for call in working[:-1] if call.output.role == "intermediate"]
    if not inner:
        return f"One kernel is enough: {_loop_name(stage)}."
    names = join([f"`{fact.name}`" for fact in inner[:6]])
    return f"One kernel can do it all: {names} need not be stored.{_spared(analysis, [stage])}"


def _loop_name(stage: Stage) -> str:
    if stage.anchor is None:
        return f"an elementwise pass for {join([f'`{name}`' for name in stage.operators[:4]])}"
    extra = [name for name in stage.operators if name != stage.anchor.operator]
    kind = "loop" if stage.anchor.kind is CallKind.OTHER else f"{stage.anchor.kind.value} loop"
    with_extra = f" with {join([f'`{name}`' for name in extra[:4]])} fused" if extra else ""
    return f"a {kind} for `{stage.anchor.operator}`{with_extra}"


def _limit(analysis: TaskAnalysis) -> str:
    """What bounds the task by its trace; at small sizes that is the launch, whatever the ratio says."""
    trace = analysis.trace
    facts = {"flops": trace.flops, "bytes": trace.bytes, "ratio": f"{trace.intensity:.4g}"}
    small = trace.bytes < SMALL_BYTES and trace.flops < SMALL_FLOPS
    kind = "memory" if trace.bound is Bound.MEMORY else "arithmetic"
    return analysis.say(f"{kind}_limit_small" if small else f"{kind}_limit", **facts)
