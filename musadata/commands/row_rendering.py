"""Renders each kind of row for the terminal: conversations as panels, code highlighted, verdicts in colour."""

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.markdown import Markdown
from rich.panel import Panel
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from musadata.records import Annotation, Candidate, Finding, InputSpec, Reject, Task, Trace, Trajectory
from musadata.rows import plain
from musadata.training_rows import ChatMessage, PreferenceRow, RftRow, RlRow, SftRow

_COLOURS = {"system": "magenta", "user": "cyan", "assistant": "green", "accepted": "green"}
_THEME = "ansi_dark"


@singledispatch
def draw_row(row: Any) -> RenderableType:
    """A row as something that rich prints; a table of its columns for kinds without a renderer of their own."""
    return _facts({name: str(value) for name, value in plain(row).items()})


@draw_row.register
def _task(row: Task) -> RenderableType:
    where = row.provenance
    facts = {
        "from": f"{where.origin} {where.revision}".strip(),
        "place": f"{where.path}:{where.lines}" if where.path else where.origin,
        "license": where.license,
        "family": f"{row.operator_family}, level {row.level}",
        "inputs": "  ".join(describe_input(spec) for spec in row.inputs),
        "measured at": "  ".join(describe_input(spec) for spec in row.measure) or row.measure_note,
        "operators": ", ".join(row.operators),
        "split": row.split,
    }
    return Group(_title(row.task_id, row.name, str(row.source_kind)), _facts(facts), _code(row.reference))


@draw_row.register
def _annotation(row: Annotation) -> RenderableType:
    parts: list[RenderableType] = [_title(row.annotation_id, row.task_id, f"teacher {row.teacher}")]
    parts += [draw_trace(number, trace) for number, trace in enumerate(row.told, 1)]
    for step in row.reasoning:
        parts += [Text(f"\n{step.step}", style="bold cyan"), Markdown(step.text, code_theme=_THEME)]
    if row.grounded:
        return Group(*parts, Text("\nthe traces support every claim", style="green"))
    return Group(*parts, Text("\nnot supported by the traces: " + "; ".join(row.ungrounded), style="red"))


def draw_trace(number: int, trace: Trace) -> RenderableType:
    """The facts of one set of input shapes."""
    title = (
        f"shapes {number}: {'  '.join(describe_input(spec) for spec in trace.inputs)}\n"
        f"{trace.flops:,} FLOPs, {trace.bytes:,} bytes, {trace.intensity:.3g} FLOP/byte: bound by {trace.bound}"
    )
    table = Table(title=Text(title, style="default"), title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("tensor", "role", "operator", "shape", "stride", "dtype"):
        table.add_column(heading, overflow="fold")
    for fact in trace.tensors:
        cells = (fact.name, fact.role, fact.operator, shape(fact.shape), shape(fact.stride), fact.dtype)
        table.add_row(*map(Text, cells))
    return table


@draw_row.register
def _candidate(row: Candidate) -> RenderableType:
    speedup = "not timed" if row.speedup is None else f"{row.speedup:.2f}x"
    facts = {
        "task": row.task_id,
        "teacher": f"{row.teacher}, sample {row.sample}, turn {row.turn}",
        "schedule": row.schedule,
        "seeded fault": row.fault,
        "structure": row.structure,
        "verdict": f"stage {row.stage} on {row.backend}; {row.test_share:.0%} of tests; speedup {speedup}",
        "reward": f"{row.reward:+.2f}" + (", kept" if row.kept else ""),
    }
    parts = [_title(row.candidate_id), _badge(row.accepted, row.error_class or ""), _facts(facts), _code(row.source)]
    parts += [_finding(finding) for finding in row.findings]
    if row.feedback:
        parts.append(Panel(Text(row.feedback), title="feedback", title_align="left", border_style="yellow"))
    return Group(*parts)


@draw_row.register
def _trajectory(row: Trajectory) -> RenderableType:
    facts = {
        "task": row.task_id,
        "teacher": row.teacher,
        "seeded fault": row.fault,
        "outcomes": " → ".join(row.outcomes),
        "rewards": ", ".join(f"{reward:+.2f}" for reward in row.rewards) + f"; return {row.trajectory_return:+.2f}",
    }
    said = [_say(one.role, one.content, "") for one in row.messages if one.role == "system"]
    for turn, outcome in zip(row.turns, row.outcomes, strict=False):
        said += [_say("user", turn.question, ""), _say("assistant", turn.answer, outcome)]
    return Group(_title(row.trajectory_id), _badge(row.success, ""), _facts(facts), *said)


@draw_row.register
def _sft(row: SftRow) -> RenderableType:
    facts = {"task": row.task_id, "family": f"{row.family}, {row.operator_family}", "license": row.license}
    facts |= {"teacher": row.teacher, "split": row.split, "program": row.candidate_id, "evidence": row.evidence}
    return Group(_title(row.sft_id), _facts(facts), *_chat(row.prompt), *_chat(row.completion, "trained on"))


@draw_row.register
def _rft(row: RftRow) -> RenderableType:
    facts = {"task": row.task_id, "candidate": row.candidate_id, "structure": row.structure}
    facts |= {"reward": f"{row.reward:+.2f}", "license": row.license, "teacher": row.teacher, "split": row.split}
    return Group(_title(row.rft_id), _facts(facts), *_chat(row.prompt), *_chat(row.completion, "trained on"))


@draw_row.register
def _preference(row: PreferenceRow) -> RenderableType:
    facts = {"task": row.task_id, "family": str(row.operator_family), "license": row.license, "split": row.split}
    facts |= {"pair": f"{row.kind}, {row.decisions} difference{'s' if row.decisions != 1 else ''}"}
    chosen = _chat(row.chosen, f"chosen, reward {row.chosen_reward:+.2f}")
    rejected = _chat(row.rejected, f"rejected ({row.rejected_error or 'slower'}), reward {row.rejected_reward:+.2f}")
    return Group(_title(row.preference_id), _facts(facts), *_chat(row.prompt), *chosen, *rejected)


@draw_row.register
def _rl(row: RlRow) -> RenderableType:
    truth = row.reward_model.ground_truth
    facts = {"task": row.task_id, "data source": row.data_source, "ability": row.ability, "license": row.license}
    facts |= {"reward": f"{row.reward_model.style}: {truth[:200]} … ({len(truth):,} characters)", "split": row.split}
    return Group(_title(row.rl_id), _facts(facts), *_chat(row.prompt))


@draw_row.register
def _reject(row: Reject) -> RenderableType:
    facts = {"dropped from": row.dataset, "by": row.step, "because": row.reason, "detail": row.detail}
    return Group(_title(row.origin), _facts(facts))


def describe_input(spec: InputSpec) -> str:
    """`x: float32 (2, 3)`, or `dim=1` for an argument that is not a tensor."""
    return f"{spec.name}={spec.literal}" if spec.kind == "literal" else f"{spec.name}: {spec.dtype} {shape(spec.shape)}"


def shape(numbers: Sequence[int]) -> str:
    """As Python writes a tuple."""
    return str(tuple(numbers))


def _title(identity: str, name: str = "", kind: str = "") -> RenderableType:
    title = Text.assemble((identity, "bold"), "  " if name else "", (name, "bold cyan"), "  " if kind else "", kind)
    return Group(Rule(style="dim"), title)


def _badge(accepted: bool, error: str) -> Text:
    text = "accepted" if accepted else error or "not accepted"
    return Text(f" {text} ", style=f"bold white on {'green' if accepted else 'red'}")


def _facts(facts: dict[str, str]) -> RenderableType:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in facts.items():
        if value:
            table.add_row(name, Text(value))
    return table


def _code(source: str) -> RenderableType:
    return Panel(Syntax(source, "python", theme=_THEME, line_numbers=True, word_wrap=True), border_style="dim")


def _finding(finding: Finding) -> RenderableType:
    at = f" (line {finding.line})" if finding.line else ""
    evidence = f" at {finding.index}: expected {finding.expected}, got {finding.got}" if finding.index else ""
    return Text.assemble(("✗ ", "red"), (finding.rule, "bold"), at, ": ", finding.message, evidence)


def _chat(messages: Sequence[ChatMessage], note: str = "") -> list[RenderableType]:
    return [_say(message.role, message.content, note) for message in messages]


def _say(role: str, content: str, note: str) -> RenderableType:
    title = Text.assemble((role, "bold"), f" · {note}" if note else "")
    failed = bool(note) and not note.startswith(("accepted", "trained on", "chosen"))
    style = "red" if failed else _COLOURS.get(role, "white")
    return Panel(Markdown(content, code_theme=_THEME), title=title, title_align="left", border_style=style)
