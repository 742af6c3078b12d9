"""Claims that an operator, a function or a mechanism of CUDA is used, or is not: the trace or the program shows it."""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from musadata.teacher.grounding.claims import Claim, ClaimKind, judged
from musadata.teacher.grounding.context import View
from musadata.teacher.grounding.facts import base_name
from musadata.teacher.grounding.lexicon import LEXICON, pattern

_HYPOTHETICAL, _OF_ERRORS, _DENIED, _COMPARED = (
    pattern(name) for name in ("hypothetical", "of_errors", "mechanism_denied", "compared")
)
_LAUNCHES, _CALLED = pattern("launches"), pattern("called")
_KERNEL = re.compile(r"\b__global__\b")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


class Mechanism(NamedTuple):
    """Words for a mechanism, and what a trace (operators and names) or a program has that uses it."""

    says: re.Pattern[str]
    trace: re.Pattern[str] | None
    program: re.Pattern[str] | None


@cache
def _mechanisms() -> tuple[Mechanism, ...]:
    def compiled(words: str | None) -> re.Pattern[str] | None:
        return re.compile(words) if words else None

    return tuple(
        Mechanism(re.compile(rf"\b(?:{says})"), compiled(row.get("trace")), compiled(row.get("program")))
        for says, row in LEXICON["mechanisms"].items()
    )


def judge_mechanisms(view: View) -> Iterator[Claim]:
    text, program = view.skeleton, _without_comments(view.stated.program)
    if _HYPOTHETICAL.search(text) or _OF_ERRORS.search(text) or _COMPARED.search(text):
        return
    for mechanism in _mechanisms():
        if (mechanism.trace is None and not program) or not (match := mechanism.says.search(text)):
            continue
        is_used = bool(mechanism.trace and mechanism.trace.search(_names(view)))
        is_used = is_used or bool(program and mechanism.program and mechanism.program.search(program))
        is_denied = _DENIED.search(text[: match.start()][-40:]) is not None
        if mechanism.trace is None or not is_denied:
            wrong = "the program uses it" if is_used else "neither the trace nor the program uses it"
            yield judged(ClaimKind.OPERATOR, match[0], is_used != is_denied, wrong)
    if program:
        yield from _counted(view, program)


def _counted(view: View, program: str) -> Iterator[Claim]:
    """ "Three kernels", "two launches", and calls of functions in the text's own code."""
    known = {program.count("<<<"), len(_KERNEL.findall(program))}
    for match in _LAUNCHES.finditer(view.skeleton):
        at = int(match["count"])
        view.taken.add(at)
        holds = any(view.quantity(at).is_near(count) for count in known)
        yield judged(ClaimKind.COUNT, view.words(at), holds, f"the program has {max(known)}")
    for match in _CALLED.finditer(view.skeleton):
        name = match["name"]
        yield judged(ClaimKind.OPERATOR, name, re.search(rf"\b{name}\b", program) is not None, "not in the program")


def _names(view: View) -> str:
    facts = view.facts
    return " ".join([*map(base_name, facts.trace.operators), *(fact.name for fact in facts.tensors)])


@lru_cache(maxsize=8)
def _without_comments(program: str) -> str:
    return _COMMENT.sub("", program)
