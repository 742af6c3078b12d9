"""Faults of what is computed: identities, scales, casts, conditions, constants."""

from __future__ import annotations

import re

from musadata.teacher.compiler.faults.catalogue import fault
from musadata.teacher.compiler.faults.fault_context import FaultContext

_DIVISOR = r" / static_cast<(?:float|double)>\(((?:[^()]|\([^()]*\))*)\)"


def _is_one(context: FaultContext, text: str) -> bool:
    values = context.values_of(text.strip())
    return values is not None and all(value == 1 for value in values)


@fault(
    "wrong_identity",
    cause="the accumulator did not start from the identity of the reduction",
    mend="a sum starts from 0, a product from 1, a maximum from minus infinity",
)
def wrong_identity(context: FaultContext) -> str | None:
    def change(text: str) -> str | None:
        sums = [m for m in re.finditer(r"(float|double) (\w+) = 0\.0f?;", text) if f"{m.group(2)} +=" in text]
        match = context.pick(sums)
        if match is None:
            return None
        return text[: match.start()] + match.group(0).replace("0.0", "1.0") + text[match.end() :]

    return context.in_some_kernel(change)


@fault(
    "forgotten_scale",
    cause="the sum was used as the mean, without dividing by the number of elements",
    mend="the sum is divided by the number of elements",
)
def forgotten_scale(context: FaultContext) -> str | None:
    return context.replace_in_some_kernel(_DIVISOR, lambda m: m.group(0) if _is_one(context, m.group(1)) else "")


@fault(
    "missing_cast",
    cause="the factor was an integer division, and 1 divided by a larger integer is 0",
    mend="the count is converted to floating point before it divides",
)
def missing_cast(context: FaultContext) -> str | None:
    def integer(match: re.Match[str]) -> str:
        return match.group(0) if _is_one(context, match.group(1)) else f" * (1 / ({match.group(1)}))"

    return context.replace_in_some_kernel(_DIVISOR, integer)


@fault(
    "inverted_condition",
    cause="a comparison pointed the wrong way, so the other branch was taken",
    mend="the comparison has the direction that the operator asks for",
)
def inverted_condition(context: FaultContext) -> str | None:
    def turn(match: re.Match[str]) -> str:
        return f"{match.group(1)} {'>' if match.group(2) == '<' else '<'} {match.group(3)} ?"

    return context.replace_in_some_kernel(r"(\w+(?:\[[^\]]*\])?) ([<>]) (-?\d+\.\d+f?) \?", turn)


_CONSTANTS = (
    ("x * 0.70710677f", "x * 0.7978846f"),
    ("0.044715f", "0.44715f"),
    ("1.0f / (1.0f + expf(-x))", "1.0f / (1.0f - expf(-x))"),
    ("x / (1.0f + expf(-x))", "x / (1.0f + expf(x))"),
)


@fault(
    "wrong_constant",
    cause="a constant or sign of the formula was wrong",
    mend="the formula has the constants of its definition",
)
def wrong_constant(context: FaultContext) -> str | None:
    for right, wrong in _CONSTANTS:
        if right in context.source:
            return context.source.replace(right, wrong, 1)
    return None


@fault(
    "dropped_operand",
    cause="the bias or offset was left out",
    mend="it is added, as the reference does",
)
def dropped_operand(context: FaultContext) -> str | None:
    return context.replace_in_some_kernel(r" \+ (?:\w*bias\w*)(?:\[[^\]]*\])?(?=;)", "")
