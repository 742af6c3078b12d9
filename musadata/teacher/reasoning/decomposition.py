"""Step 1: what the module computes, operator by operator, and which operators share a kernel."""

from collections.abc import Sequence

from musadata.compiler.emission.candidate import Candidate
from musadata.records import TensorFact
from musadata.teacher.reasoning.explanation import repeated_launches
from musadata.teacher.reasoning.kernel_facts import KernelFacts
from musadata.teacher.reasoning.kernel_plan import CallKind, Stage, count, words
from musadata.teacher.reasoning.kernel_roles import MOST_NAMES, describe_kernels
from musadata.teacher.reasoning.task_analysis import TaskAnalysis, claims_of, join, named, unique

_MOST_WEIGHTS, _MOST_OPERATORS, _MOST_RESULTS = 8, 6, 4


def write_decomposition(analysis: TaskAnalysis) -> str:
    if analysis.candidate is not None:  # its kernels read and make all that there is
        return _kernels(analysis, analysis.candidate)
    given = [fact for fact in analysis.trace.tensors if fact.role in ("input", "parameter")][:_MOST_WEIGHTS]
    inputs, outputs = (join([named(fact) for fact in facts]) for facts in (given, analysis.outputs))
    text = f"From {inputs} the module makes {outputs}."
    claims = (claim for fact in (*given, *analysis.outputs) for claim in claims_of(fact)[:1])
    return "\n\n".join([analysis.state(text, claims), _plan(analysis)])


def _plan(analysis: TaskAnalysis) -> str:
    """One kernel for each loop nest, where no lowering says which kernels there are."""
    stages = [stage for stage in analysis.stages if stage.operators]
    if not stages:
        return "Nothing is computed: a kernel has to copy the elements to where the output's strides expect them."
    if len(stages) == 1:
        return _one_kernel(stages[0])
    lines = [f"A plan of {words(len(stages))} kernels:", ""]
    for operators, alike in _by_operators(stages).items():
        names = join([f"`{name}`" for name in operators[:_MOST_OPERATORS]])
        more = f" and {len(operators) - _MOST_OPERATORS} more" if len(operators) > _MOST_OPERATORS else ""
        made = join([named(stage.output) for stage in alike[:_MOST_RESULTS]])
        rest = f", and {len(alike) - _MOST_RESULTS} more" if len(alike) > _MOST_RESULTS else ""
        lines.append(f"- {names}{more} → {made}{rest}.")
    views = unique([f"`{call.operator}`" for call in analysis.calls if call.kind is CallKind.VIEW])
    if views:
        lines.append(f"- {join(views)} only rename{'s' if len(views) == 1 else ''} strides: no data moves.")
    return "\n".join(lines)


def _by_operators(stages: Sequence[Stage]) -> dict[tuple[str, ...], list[Stage]]:
    found: dict[tuple[str, ...], list[Stage]] = {}
    for stage in stages:
        found.setdefault(stage.operators, []).append(stage)
    return found


def _kernels(analysis: TaskAnalysis, candidate: Candidate) -> str:
    """The kernels of the answers, what each fuses, and why what lies between them goes through memory."""
    texts = describe_kernels(analysis, candidate)
    if len(texts) == 1:
        does = f"{texts[0]}{_spared(analysis.stages)}"
        text = analysis.say("one_kernel", kernel=candidate.kernels[0].kernel.name, does=does)
        return analysis.state(text, _shapes(analysis.facts[0]))
    again = {name: f" (launched {text}; here the first)" for name, text in repeated_launches(candidate.kernels).items()}
    told = zip(reversed(analysis.facts), reversed(texts), strict=True)
    lines = {
        facts.name: analysis.state(f"- `{facts.name}`{again.get(facts.name, '')} {text}.", _shapes(facts))
        for facts, text in told
    }
    opening = f"{words(len(lines)).capitalize()} kernel{'s' * (len(lines) > 1)}:"
    return "\n".join([opening, "", *reversed(lines.values())])


def _shapes(facts: KernelFacts) -> list[str]:
    """What is claimed where the tensors are told that a kernel reads and makes."""
    read = [buffer for buffer in facts.kernel.inputs if buffer not in facts.kernel.outputs][:MOST_NAMES]
    told = [facts.known[buffer] for buffer in (*read, *facts.kernel.outputs) if buffer in facts.known]
    return [claims_of(fact)[0] for fact in told]


def _held(stage: Stage) -> list[TensorFact]:
    """What a stage makes and only its own calls read."""
    working = [call for call in stage.calls if call.kind not in (CallKind.VIEW, CallKind.FILL)]
    made = [fact for call in working for fact in call.outputs[:1] if call.output is not stage.output]
    return [fact for fact in made if fact.role == "intermediate"]


def _spared(stages: Sequence[Stage]) -> str:
    """The largest tensor that is never stored, and the accesses that this saves."""
    held = [fact for stage in stages for fact in _held(stage) if count(fact) > 1 and _is_read_whole(fact, stage)]
    if not held:
        return ""
    kept = max(held, key=count)
    return f", which for {named(kept)} alone spares 2 × {count(kept)} = {2 * count(kept)} element accesses"


def _is_read_whole(fact: TensorFact, stage: Stage) -> bool:
    readers = [call.kind for call in stage.calls if fact.name in call.names]
    return any(kind is not CallKind.LOOKUP for kind in readers)


def _one_kernel(stage: Stage) -> str:
    working = [call for call in stage.calls if call.kind is not CallKind.VIEW]
    inner = [call.output for call in working[:-1] if call.output.role == "intermediate"]
    operators = join([f"`{name}`" for name in stage.operators])
    if not inner:
        return f"One kernel is enough: {operators} → `{stage.output.name}`."
    names = join([f"`{fact.name}`" for fact in inner[:6]])
    return f"One kernel can do {operators}: {names} need not be stored{_spared([stage])}."
