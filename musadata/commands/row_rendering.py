"""Renders any kind of row for the terminal: conversations as panels, code highlighted, verdicts in colour."""

import dataclasses
from collections.abc import Iterator
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

from musadata.corpus.datasets import DATASETS
from musadata.records import Finding, InputSpec, NativeSource, ReasoningStep, Trace, Turn
from musadata.training_rows import ChatMessage

_COLOURS = {"system": "magenta", "user": "cyan", "assistant": "green"}
_THEME = "ansi_dark"
_CODE = ("reference", "source", "candidate", "wrapper_source", "binding_source")
_SKIPPED = ("schema_version", "text_signature", "logprobs", "conversation", "messages")  # others say the same
_NOTES = {"completion": "trained on"}  # what a column's messages are, if not what its name says
_LONG = 400  # characters of a fact


def draw_row(row: Any) -> RenderableType:
    """A row as something that rich prints: short columns as a table, then code, texts and messages."""
    key = next(one.key for one in DATASETS.values() if one.kind is type(row))
    columns = {name: value for name, value in vars(row).items() if name not in (key, *_SKIPPED)}
    facts = {name: text for name, value in columns.items() if (text := _fact(name, value))}
    parts = [part for name, value in columns.items() if name not in facts for part in _draw(name, value, row)]
    title = Text.assemble((getattr(row, key), "bold"), "  ", (getattr(row, "name", ""), "bold cyan"))
    verdict = getattr(row, "accepted", getattr(row, "success", None))
    badge = [] if verdict is None else [_badge(verdict, getattr(row, "error_class", None) or "")]
    return Group(Rule(style="dim"), title, *badge, _facts(facts), *parts)


def _fact(name: str, value: Any) -> str:
    """A short column in one line; "" for others."""
    if name in _CODE or (isinstance(value, str) and "\n" in value):
        return ""
    if isinstance(value, tuple):
        several = [_fact(name, one) for one in value]
        return _shorten((" → " if name == "outcomes" else "  ").join(several)) if all(several) else ""
    if isinstance(value, InputSpec):
        return describe_input(value)
    if dataclasses.is_dataclass(value):
        known = type(value) in draw_part.registry
        return "" if known else _shorten(", ".join(f"{name} {part}" for name, part in vars(value).items() if part))
    return f"{value:.4g}" if isinstance(value, float) else _shorten(str("" if value is None else value))


def _shorten(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[:_LONG]} … ({len(text):,} characters)"


def _draw(name: str, value: Any, row: Any) -> Iterator[RenderableType]:
    """What a long column holds; nothing for an empty one."""
    if name in _CODE and value:
        yield _code(value)
    elif isinstance(value, str) and value:
        yield Panel(Text(value), title=name, title_align="left", border_style="yellow")
    elif isinstance(value, tuple):
        outcomes = dict(enumerate(getattr(row, "outcomes", ())))
        for number, part in enumerate(value):
            yield draw_part(part, outcomes.get(number, "") if name == "turns" else _NOTES.get(name, name))


@singledispatch
def draw_part(part: Any, note: str) -> RenderableType:
    """One of several parts of a row's column; `note` says which column, or what came of it."""
    return Text(f"{note}: {part}")


@draw_part.register
def draw_trace(trace: Trace, note: str) -> RenderableType:
    """The facts of one set of input shapes."""
    title = (
        f"{note}: {'  '.join(describe_input(spec) for spec in trace.inputs)}\n"
        f"{trace.flops:,} FLOPs, {trace.bytes:,} bytes, {trace.intensity:.3g} FLOP/byte: bound by {trace.bound}"
    )
    table = Table(title=Text(title, style="default"), title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("tensor", "role", "operator", "shape", "stride", "dtype"):
        table.add_column(heading, overflow="fold")
    for fact in trace.tensors:
        cells = (fact.name, fact.role, fact.operator, str(fact.shape), str(fact.stride), fact.dtype)
        table.add_row(*map(Text, cells))
    return table


@draw_part.register
def _step(part: ReasoningStep, note: str) -> RenderableType:
    return Group(Text(f"\n{part.step}", style="bold cyan"), Markdown(part.text, code_theme=_THEME))


@draw_part.register
def _finding(part: Finding, note: str) -> RenderableType:
    at = f" (line {part.line})" if part.line else ""
    evidence = f" at {part.index}: expected {part.expected}, got {part.got}" if part.index else ""
    return Text.assemble(("✗ ", "red"), (part.rule, "bold"), at, ": ", part.message, evidence)


@draw_part.register
def _native(part: NativeSource, note: str) -> RenderableType:
    return Panel(Syntax(part.text, "cuda", theme=_THEME), title=part.path, title_align="left", border_style="dim")


@draw_part.register
def _turn(part: Turn, note: str) -> RenderableType:
    return Group(_say("user", part.question, ""), _say("assistant", part.answer, note))


@draw_part.register
def _message(part: ChatMessage, note: str) -> RenderableType:
    return _say(part.role, part.content, note)


def describe_input(spec: InputSpec) -> str:
    """`x: float32 (2, 3)`, or `dim=1` for an argument that is not a tensor."""
    return f"{spec.name}={spec.literal}" if spec.kind == "literal" else f"{spec.name}: {spec.dtype} {tuple(spec.shape)}"


def _badge(accepted: bool, error: str) -> Text:
    text = "accepted" if accepted else error or "not accepted"
    return Text(f" {text} ", style=f"bold white on {'green' if accepted else 'red'}")


def _facts(facts: dict[str, str]) -> RenderableType:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, Text(value))
    return table


def _code(source: str) -> RenderableType:
    return Panel(Syntax(source, "python", theme=_THEME, line_numbers=True, word_wrap=True), border_style="dim")


def _say(role: str, content: str, note: str) -> RenderableType:
    title = Text.assemble((role, "bold"), f" · {note}" if note else "")
    failed = note not in ("", "accepted", "prompt", "trained on", "chosen")
    style = "red" if failed else _COLOURS.get(role, "white")
    return Panel(Markdown(content, code_theme=_THEME), title=title, title_align="left", border_style=style)
