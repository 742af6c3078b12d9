"""Claims that an operator, a function or a mechanism of CUDA is used, or is not: the trace or the program shows it."""

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from musadata.teacher.grounding.claims import Claim, ClaimKind, judged
from musadata.teacher.grounding.context import WARP, View
from musadata.teacher.grounding.facts import base_name
from musadata.teacher.grounding.launches import Launch
from musadata.teacher.grounding.lexicon import LEXICON, WORDS

_ORDINALS: dict[str, int] = LEXICON["ordinals"]
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
    if WORDS.hypothetical.search(text) or WORDS.of_errors.search(text) or WORDS.compared.search(text):
        return
    for mechanism in _mechanisms():
        if (mechanism.trace is None and not program) or not (match := mechanism.says.search(text)):
            continue
        is_used = bool(mechanism.trace and mechanism.trace.search(_names(view)))
        is_used = is_used or bool(program and mechanism.program and mechanism.program.search(program))
        is_denied = WORDS.mechanism_denied.search(text[: match.start()][-60:]) is not None
        if mechanism.trace is None or not is_denied:
            wrong = "the program uses it" if is_used else "neither the trace nor the program uses it"
            yield judged(ClaimKind.OPERATOR, match[0], is_used != is_denied, wrong)
    if program:
        yield from _counted(view, program)
        yield from _launched(view)


def _counted(view: View, program: str) -> Iterator[Claim]:
    """ "Three kernels", "two launches", and calls of functions in the text's own code."""
    known = {program.count("<<<"), len(_KERNEL.findall(program))}
    for match in WORDS.launches.finditer(view.skeleton):
        at = int(match["count"])
        view.taken.add(at)
        holds = any(view.quantity(at).is_near(count) for count in known)
        yield judged(ClaimKind.COUNT, view.words(at), holds, f"the program has {max(known)}")
    for match in WORDS.called.finditer(view.skeleton):
        name = match["name"]
        yield judged(ClaimKind.OPERATOR, name, re.search(rf"\b{name}\b", program) is not None, "not in the program")


def _launched(view: View) -> Iterator[Claim]:
    """ "sum_kernel is launched with 12 blocks of 256 threads": of the kernels that are named, else of any."""
    launches = view.stated.launches
    if not launches or len(launches) < view.stated.program.count("<<<"):
        return
    for match in WORDS.started.finditer(view.skeleton):
        clause = view.skeleton[: match.end()].rpartition(" , ")[2] + match[0]
        chosen = _chosen(launches, clause, view.skeleton)
        sizes = {one.block_size for one in chosen} | {n for one in chosen for n in one.threads}
        allowed = {
            "blocks": {one.block_count for one in chosen} | {n for one in chosen for n in one.blocks},
            "size": sizes,
            "warps": {-(-one.block_size // WARP) * n for one in chosen for n in (1, one.block_count)},
            "threads": sizes | {one.block_size * one.block_count for one in chosen},
        }
        for kind, at in match.groupdict().items():
            if at and int(at) not in view.taken:
                view.taken.add(int(at))
                holds = view.holds(int(at), allowed[kind.rstrip("0123456789")])
                yield judged(ClaimKind.GEOMETRY, view.words(int(at)), holds, "not what the program starts")


def _chosen(launches: Sequence[Launch], clause: str, sentence: str) -> Sequence[Launch]:
    """The launches of the kernels that a sentence names, or of the one that a clause counts; else all."""
    named = [one for one in launches if one.kernel.lower() in sentence]
    place = WORDS.which_kernel.search(clause)
    at = _ORDINALS[place["place"]] if place and not named else len(launches)
    return named or (launches[at : at + 1 or None] if at < len(launches) else launches)


def _names(view: View) -> str:
    facts = view.facts
    return " ".join([*map(base_name, facts.trace.operators), *(fact.name for fact in facts.tensors)])


@lru_cache(maxsize=8)
def _without_comments(program: str) -> str:
    return _COMMENT.sub("", program)
