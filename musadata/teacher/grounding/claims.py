"""Claims of a text and what became of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    CONFIRMED = "confirmed"
    CONTRADICTED = "contradicted"
    UNCHECKED = "not checkable"


class ClaimKind(StrEnum):
    SHAPE = "shape"
    STRIDE = "stride"
    COUNT = "count"
    FLOPS = "flops"
    BYTES = "bytes"
    INTENSITY = "intensity"
    BOUND = "bound"
    INDEX_RANGE = "index range"
    INDEX_FORMULA = "index formula"
    GEOMETRY = "launch geometry"
    DTYPE = "dtype"
    DIMENSION = "dimension"
    OPERATOR = "operator"
    ARITHMETIC = "arithmetic"
    ARGUMENT = "argument"
    STATED = "stated"  # by the writer, as an expression over the facts
    NUMBER = "number"  # one whose words do not say what it counts


@dataclass(frozen=True)
class Claim:
    """One claim: its words, and what contradicts it where something does."""

    kind: ClaimKind
    text: str
    outcome: Outcome
    wrong: str = ""


def judged(kind: ClaimKind, text: str, holds: bool, wrong: str) -> Claim:
    """A claim that could be checked."""
    if holds:
        return Claim(kind, text, Outcome.CONFIRMED)
    return Claim(kind, text, Outcome.CONTRADICTED, wrong)


def unchecked(kind: ClaimKind, text: str) -> Claim:
    return Claim(kind, text, Outcome.UNCHECKED)


def is_checked(claims: Iterable[Claim]) -> bool:
    """Whether facts decide any of a sentence's claims; that a figure stands in the trace decides nothing."""
    return any(claim.outcome is not Outcome.UNCHECKED and claim.kind is not ClaimKind.NUMBER for claim in claims)
