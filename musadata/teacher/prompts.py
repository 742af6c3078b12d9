"""What teachers and models are asked, rendered from versioned text templates. The same facts give the same text."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from string import Template

from musadata.records import InputSpec, ReasoningStep, Task, TensorFact, Trace
from musadata.teacher.claims.steps import STEPS, heading, render_steps
from musadata.training_rows import ChatMessage

TEMPLATES_VERSION = "v1"

# Rows of the table of tensors per set of shapes; a recurrent module has thousands of intermediates.
_MOST_ROWS = 48
_MOST_OPERATORS = 80
_TRACES_IN_FULL = 2
_MOST_CLAIMS = 40  # that a correction names


def render_reasoning(task: Task, traces: Sequence[Trace], *, ask_claims: bool = False) -> tuple[ChatMessage, ...]:
    """The request for the six steps, and for the claims of their sentences."""
    headings = "\n".join(f"    {heading(step)}" for step in STEPS)
    claims = _fill("stated_claims", language=claim_language()) if ask_claims else ""
    return _render_question("reasoning", task, traces, headings=headings, claims=claims)


def render_generation(
    task: Task, traces: Sequence[Trace], reasoning: Sequence[ReasoningStep] = ()
) -> tuple[ChatMessage, ...]:
    """The request for a candidate; the analysis is part of it where there is one."""
    analysis = _fill("analysis", steps=render_steps(reasoning)) if reasoning else ""
    return _render_question("generation", task, traces, analysis=analysis)


def render_unit_test(task: Task, traces: Sequence[Trace]) -> tuple[ChatMessage, ...]:
    """The request for a unit test."""
    return _render_question("unit_test", task, traces)


def render_questions(
    task: Task, traces: Sequence[Trace], kernel: str, topics: Sequence[str], count: int
) -> tuple[ChatMessage, ...]:
    """The request for questions with answers, about the task and, where there is one, a kernel for it."""
    shown = _fill("kernel", kernel=kernel.strip(), fence=_fence(kernel)) if kernel else ""
    listed = "\n".join(f"- {topic}" for topic in topics)
    asked = {"kernel": shown, "topics": listed, "count": str(count), "language": claim_language()}
    return _render_question("questions", task, traces, **asked)


def render_knowledge(facts: str, question: str) -> tuple[ChatMessage, ...]:
    """A question, after the facts that it can be answered from."""
    asked = _fill("knowledge", facts=facts.strip(), question=question.strip())
    return ChatMessage("system", _fill("system")), ChatMessage("user", asked)


def render_review(task: Task, traces: Sequence[Trace], program: str) -> tuple[ChatMessage, ...]:
    """The question whether a program is right, and where it is not."""
    return _render_reading("review", task, traces, program)


def render_diagnosis(task: Task, traces: Sequence[Trace], program: str, report: str) -> tuple[ChatMessage, ...]:
    """The question for the cause of what tools said about a program."""
    return _render_reading("diagnosis", task, traces, program, report=report.strip())


def render_optimisation(task: Task, traces: Sequence[Trace], program: str, measured: str) -> tuple[ChatMessage, ...]:
    """The request for a faster program than one that is right."""
    return _render_reading("optimisation", task, traces, program, measured=measured)


def _render_reading(
    template: str, task: Task, traces: Sequence[Trace], program: str, **more: str
) -> tuple[ChatMessage, ...]:
    question = _fill(
        template,
        reference=task.reference.strip(),
        fence=_fence(task.reference),
        calls="\n".join(
            f"- shapes {number}: {', '.join(map(_describe_input, trace.inputs)) or 'no arguments'}"
            for number, trace in enumerate(traces, 1)
        ),
        program=program.strip("\n"),
        program_fence=_fence(program),
        **more,
    )
    return ChatMessage("system", _fill("system")), ChatMessage("user", question)


def _render_question(template: str, task: Task, traces: Sequence[Trace], **more: str) -> tuple[ChatMessage, ...]:
    question = _fill(
        template,
        reference=task.reference.strip(),
        fence=_fence(task.reference),
        sets=str(len(traces)),
        facts="\n\n".join(_render_traces(traces)),
        **more,
    )
    return ChatMessage("system", _fill("system")), ChatMessage("user", question)


def render_profile(
    code: str, launch: str, inputs: Sequence[InputSpec], device: str, origin: str, table: str
) -> tuple[ChatMessage, ...]:
    """The request for a diagnosis of one launch from its counters; `origin` says how they were counted."""
    arguments = ", ".join(map(_describe_input, inputs)) or "no arguments"
    facts = {"launch": launch, "arguments": arguments, "device": device, "origin": origin, "table": table}
    question = _fill("profile", code=code.strip(), fence=_fence(code), **facts)
    return ChatMessage("system", _fill("system")), ChatMessage("user", question)


def render_port(program: str) -> tuple[ChatMessage, ...]:
    """The request for a program's port to MUSA."""
    question = _fill("port", program=program.strip(), fence=_fence(program))
    return ChatMessage("system", _fill("system")), ChatMessage("user", question)


def render_port_of_files(files: str) -> tuple[ChatMessage, ...]:
    """The request for the port of some files, each with its path."""
    return ChatMessage("system", _fill("system")), ChatMessage("user", _fill("port_files", files=files))


def render_repair(feedback: str) -> tuple[ChatMessage, ...]:
    """The next question of a conversation whose last answer was not accepted."""
    return (ChatMessage("user", _fill("repair", feedback=feedback.strip())),)


def quote_answers(messages: Sequence[ChatMessage]) -> tuple[ChatMessage, ...]:
    """A conversation as one question: every answer that was commented on stands inside it, word for word.

    An answer at the end stays a message of its own.
    """
    system, (first, *rest) = messages[:1], messages[1:]
    pairs = list(zip(rest[::2], rest[1::2], strict=False))
    quoted = [
        _fill("quoted_answer", number=str(number), answer=answer.content.strip(), comment=comment.content.strip())
        for number, (answer, comment) in enumerate(pairs, 1)
    ]
    question = ChatMessage(first.role, "".join([first.content, *quoted]))
    return (*system, question, *rest[2 * len(pairs) :])


def render_correction(claims: Sequence[str]) -> tuple[ChatMessage, ...]:
    """The request to write the six steps again, without these claims; of many, the first ones."""
    listed = [f"- {claim}" for claim in claims[:_MOST_CLAIMS]]
    if len(claims) > _MOST_CLAIMS:
        listed.append(f"- and {len(claims) - _MOST_CLAIMS} more")
    return (ChatMessage("user", _fill("correction", claims="\n".join(listed))),)


def render_claims(sentences: Sequence[str]) -> tuple[ChatMessage, ...]:
    """The request to write sentences of an analysis as expressions over the facts."""
    listed = "\n".join(f"{number}. {sentence}" for number, sentence in enumerate(sentences, 1))
    return (ChatMessage("user", _fill("claims", sentences=listed, language=claim_language())),)


def claim_language() -> str:
    """How an expression is written, for those who write one."""
    return _load("claim_language").template


def _fence(source: str) -> str:
    """Backticks that enclose a source, even one whose docstrings hold fences of their own."""
    longest = max((len(run) for run in re.findall(r"`+", source)), default=0)
    return "`" * max(3, longest + 1)


def _render_traces(traces: Sequence[Trace]) -> Iterator[str]:
    """Whole, but for those after the second that say nothing new: the same operators on other shapes."""
    for number, trace in enumerate(traces, 1):
        if number <= _TRACES_IN_FULL or trace.operators != traces[0].operators:
            yield _render_trace(number, trace)
        else:
            arguments = ", ".join(_describe_input(spec) for spec in trace.inputs)
            yield f"### Shapes {number}\n\n`forward` is called with {arguments}. The operators are the same."


def lists_all(traces: Sequence[Trace]) -> bool:
    """Whether prompts list every tensor of the traces."""
    whole = [trace for trace in traces[:_TRACES_IN_FULL] if len(trace.tensors) <= _MOST_ROWS]
    listed = {fact.name for trace in whole for fact in trace.tensors}
    return all(fact.name in listed for trace in traces for fact in trace.tensors)


def _render_trace(number: int, trace: Trace) -> str:
    operators = [f"`{operator}`" for operator in trace.operators]
    if len(operators) > _MOST_OPERATORS:
        operators = [*operators[:_MOST_OPERATORS], f"and {len(operators) - _MOST_OPERATORS} more"]
    return _fill(
        "facts",
        number=str(number),
        arguments=", ".join(_describe_input(spec) for spec in trace.inputs),
        rows=_render_rows(trace.tensors),
        operators=", ".join(operators),
        flops=str(trace.flops),
        bytes=str(trace.bytes),
        intensity=f"{trace.intensity:.4g}",
        bound={"memory": "memory traffic", "compute": "arithmetic"}[trace.bound.value],
    )


def _describe_input(spec: InputSpec) -> str:
    if spec.kind == "literal":
        return f"`{spec.name}={spec.literal}`"
    return f"`{spec.name}`: {spec.dtype} {spec.shape}{_describe_values(spec)}"


def _describe_values(spec: InputSpec) -> str:
    match spec.kind:
        case "integers":
            return f", integers from {spec.low:g} to below {spec.high:g}"
        case "offsets":
            return f", integers rising from {spec.low:g} to below {spec.high:g}"
        case "segments":
            return f", integers rising from {spec.low:g} to below {spec.high:g}, some of them equal"
        case "permutation":
            return f", the integers from {spec.low:g} on, each once"
        case "choice":
            return f", each value one of {spec.literal}"
        case "normal" | "uniform" if spec.literal:
            return f", {spec.literal} triangular" if spec.literal in ("upper", "lower") else f", {spec.literal}"
    return ""


def _render_rows(tensors: Sequence[TensorFact]) -> str:
    shown = set(range(len(tensors)))
    inner = [index for index, fact in enumerate(tensors) if fact.role == "intermediate"]
    if len(tensors) > _MOST_ROWS:
        shown -= set(inner[max(0, _MOST_ROWS - (len(tensors) - len(inner))) :])
    rows = [_render_row(fact) for index, fact in enumerate(tensors) if index in shown]
    if len(shown) < len(tensors):
        rows.append(f"| {len(tensors) - len(shown)} more intermediates | | | | | |")
    return "\n".join(rows)


def _render_row(fact: TensorFact) -> str:
    made = ""
    if fact.operator:
        made = f"`{fact.operator}`({', '.join([*fact.operands, *([fact.arguments] if fact.arguments else [])])})"
    cells = [f"`{fact.name}`", fact.role, str(fact.shape), str(fact.stride), fact.dtype, made]
    return f"| {' | '.join(cells)} |"


def _fill(template: str, **values: str) -> str:
    return _load(template).substitute(values)


@cache
def _load(template: str) -> Template:
    path = Path(__file__).parent / "templates" / TEMPLATES_VERSION / f"{template}.md"
    return Template(path.read_text(encoding="utf-8").rstrip("\n"))
