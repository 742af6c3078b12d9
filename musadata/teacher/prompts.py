"""What teachers and models are asked, rendered from versioned text templates. The same facts give the same text."""

import re
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from string import Template
from zlib import crc32

from musadata.records import InputSpec, ReasoningStep, Task, TensorFact, Trace
from musadata.teacher.claims.steps import STEPS, heading, render_steps
from musadata.tracing.roofline import H100, Device, device_named, time_text, unit_of
from musadata.training_rows import ChatMessage

TEMPLATES_VERSION = "v1"

# Rows of the table of tensors; a recurrent module has thousands of intermediates.
_MOST_ROWS = 48
_MOST_CLAIMS = 40  # that a correction names


class PromptForm(StrEnum):
    """How much of what is known a request for a program shows."""

    PROBLEM = "problem"  # the module alone, as benchmarks give it
    FACTS = "facts"  # with the facts of its trace
    PLAN = "plan"  # with an analysis, too


def form_of(task_id: str) -> PromptForm:
    """The form of a task's prompts, each of a third of the tasks. All samples share it, so that they compare."""
    forms = tuple(PromptForm)
    return forms[crc32(task_id.encode()) % len(forms)]


def render_reasoning(task: Task, traces: Sequence[Trace], *, ask_claims: bool = False) -> tuple[ChatMessage, ...]:
    """The request for the six steps, and for the claims of their sentences."""
    headings = "\n".join(f"    {heading(step)}" for step in STEPS)
    claims = _fill("stated_claims", language=claim_language()) if ask_claims else ""
    return _render_question("reasoning", task, traces, headings=headings, claims=claims)


def render_generation(
    task: Task, traces: Sequence[Trace] = (), reasoning: Sequence[ReasoningStep] = ()
) -> tuple[ChatMessage, ...]:
    """The request for a candidate; facts and analysis are part of it where they are given."""
    facts = f"\n\n## Facts\n\n{_render_facts(traces)}" if traces else ""
    analysis = _fill("analysis", steps=render_steps(reasoning)) if reasoning else ""
    question = _fill(
        "generation",
        reference=task.reference.strip(),
        fence=_fence(task.reference),
        facts=facts,
        analysis=analysis,
        device=_render_device(),
        example=_load("example", "txt").template,
        explain="" if reasoning else "; say before it what decides its design",
    )
    return ChatMessage("system", _fill("system")), ChatMessage("user", question)


def _render_device(device: Device = H100) -> str:
    plain = {name: f"{getattr(device, name):,}" for name in ("multiprocessors", "threads", "registers")}
    sizes = {"shared": device.shared >> 10, "block_shared": device.block_shared >> 10, "cache": device.cache >> 20}
    rates = {"bandwidth": device.bytes_per_second, "fp32": device.fp32, "tensor": device.tensor}
    told = plain | {name: f"{rate / 1e12:g}" for name, rate in rates.items()}
    return _fill("device", name=device.name, **told, **{name: str(size) for name, size in sizes.items()})


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


def render_optimisation(
    task: Task, traces: Sequence[Trace], program: str, measured: str, device: str
) -> tuple[ChatMessage, ...]:
    """The request for a faster program than one that is right, which was measured on `device`."""
    known = device_named(device)
    told = _render_device(known) if known else f"{device}:"
    return _render_reading("optimisation", task, traces, program, measured=measured, device=told)


def _render_reading(
    template: str, task: Task, traces: Sequence[Trace], program: str, **more: str
) -> tuple[ChatMessage, ...]:
    question = _fill(
        template,
        reference=task.reference.strip(),
        fence=_fence(task.reference),
        calls="\n".join(f"- {', '.join(map(_describe_input, trace.inputs)) or 'no arguments'}" for trace in traces),
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
        facts=_render_facts(traces),
        **more,
    )
    return ChatMessage("system", _fill("system")), ChatMessage("user", question)


def render_profile(
    code: str, launch: str, inputs: Sequence[InputSpec], device: str, table: str
) -> tuple[ChatMessage, ...]:
    """The request for a diagnosis of one launch from its counters."""
    arguments = ", ".join(map(_describe_input, inputs)) or "no arguments"
    facts = {"launch": launch, "arguments": arguments, "device": device, "table": table}
    question = _fill("profile", code=code.strip(), fence=_fence(code), **facts)
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


def lists_all(traces: Sequence[Trace]) -> bool:
    """Whether prompts list every tensor of the traces."""
    listed = {fact.name for trace in traces[:1] if len(trace.tensors) <= _MOST_ROWS for fact in trace.tensors}
    return all(fact.name in listed for trace in traces for fact in trace.tensors)


def _render_facts(traces: Sequence[Trace]) -> str:
    """The facts of the first trace, and the inputs of the others."""
    trace, unit = traces[0], unit_of(traces[0].tensors)
    seconds = trace.bytes / H100.bytes_per_second, trace.flops / H100.rate(unit)
    return _fill(
        "facts",
        arguments=", ".join(_describe_input(spec) for spec in trace.inputs),
        rows=_render_rows(trace.tensors),
        operators="" if lists_all(traces) else f"Aten operators: {_render_operators(trace.operators)}.\n",
        flops=str(trace.flops),
        bytes=str(trace.bytes),
        intensity=f"{trace.intensity:.4g}",
        device=H100.name,
        moving=time_text(seconds[0]),
        computing=time_text(seconds[1]),
        unit=unit,
        bound={"memory": "memory traffic", "compute": "arithmetic"}[trace.bound.value],
        others="\n".join(_render_other(number, other, trace) for number, other in enumerate(traces[1:], 2)),
    )


def _render_operators(operators: Sequence[str]) -> str:
    """Each operator once, with how often it is dispatched."""
    counts = Counter(operators)
    return ", ".join(f"`{name}`{f' {times} times' if times > 1 else ''}" for name, times in counts.items())


def _render_other(number: int, trace: Trace, first: Trace) -> str:
    """The inputs of another size, and its operators where they are other ones."""
    inputs = ", ".join(_describe_input(spec) for spec in trace.inputs)
    same = trace.operators == first.operators
    return f"- Set {number}: {inputs}{'' if same else f', with other operators: {_render_operators(trace.operators)}'}"


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
def _load(template: str, ending: str = "md") -> Template:
    path = Path(__file__).parent / "templates" / TEMPLATES_VERSION / f"{template}.{ending}"
    return Template(path.read_text(encoding="utf-8").rstrip("\n"))
