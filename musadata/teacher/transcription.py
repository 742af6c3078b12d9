"""A teacher's own account of what its sentences claim, as expressions that are evaluated on the facts.

Words that no rule knows are beyond `grounding`. Who wrote a sentence can say what it claims; we evaluate that, and
believe none of it: an expression has to name a fact and to hold every figure of its sentence. A sentence without such
an expression stays unchecked.
"""

import ast
import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from musadata.records import Trace
from musadata.syntax import parse_expression
from musadata.teacher.claim_expressions import CannotEvaluate, evaluate_claim
from musadata.teacher.grounding.check import SentenceCheck
from musadata.teacher.grounding.claims import Claim, ClaimKind, judged
from musadata.teacher.grounding.expressions import numbers_in
from musadata.teacher.grounding.facts import Facts
from musadata.teacher.grounding.quantities import Quantity
from musadata.teacher.grounding.reading import read_sentence

_SMALL = 2  # "the two operands", "one block"


def judge_reply(checks: Sequence[SentenceCheck], reply: str, traces: Sequence[Trace]) -> list[SentenceCheck]:
    """The sentences with what their expressions say; `reply` is a list of `{"sentence": 1, "claim": "…"}`."""
    facts = [Facts(trace) for trace in traces]
    claimed: dict[int, str] = {}
    for item in read_objects(reply):
        number, text = item.get("sentence"), item.get("claim")
        if isinstance(number, int) and isinstance(text, str):
            claimed.setdefault(number, text)
    return [_judge(check, claimed.get(number, ""), facts) for number, check in enumerate(checks, 1)]


def _judge(check: SentenceCheck, text: str, facts: Sequence[Facts]) -> SentenceCheck:
    claim = _evaluate(check, text, facts) if text and _holds_figures(check.text, text) else None
    return dataclasses.replace(check, claims=(*check.claims, claim)) if claim else check


def _evaluate(check: SentenceCheck, text: str, facts: Sequence[Facts]) -> Claim | None:
    try:
        holds = evaluate_claim(text, facts)
    except CannotEvaluate:
        return None
    return judged(ClaimKind.STATED, check.text, holds, f"`{text}` is false")


def _holds_figures(sentence: str, text: str) -> bool:
    """Whether an expression holds every figure of its sentence: the value, or what it is derived from."""
    try:
        tree = parse_expression(text.strip())
    except (SyntaxError, ValueError):
        return False
    literals = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    known = {abs(value) for value in literals if isinstance(value, int | float)}
    for item in read_sentence(sentence, frozenset()).items:
        if isinstance(item.value, tuple) and not {abs(number) for number in item.value} <= known:
            return False
        if isinstance(item.value, Quantity) and abs(item.value.value) > _SMALL and not _is_held(item.value, known):
            return False
    return True


def _is_held(quantity: Quantity, known: set[int | float]) -> bool:
    terms = {abs(number) for side in quantity.sides for number in numbers_in(side.removeprefix("~ "))}
    return any(quantity.is_near(value) for value in known) or bool(terms and terms <= known)


def read_objects(reply: str) -> list[dict[str, Any]]:
    """The list of objects in a reply, in a fence or not; empty if there is none."""
    start, end = reply.find("["), reply.rfind("]")
    try:
        value = json.loads(reply[start : end + 1], strict=False) if start >= 0 else []
    except (ValueError, RecursionError):
        return []
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
