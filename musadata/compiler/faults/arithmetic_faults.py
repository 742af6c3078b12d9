"""Faults of what is computed: identities, scales, casts, conditions, constants."""

import re
from collections.abc import Callable

from musadata.compiler.faults.catalogue import WORDS, fault
from musadata.compiler.faults.fault_context import FaultContext, first

_MOST_FOR_CORRECTION = 200  # elements: with more, dividing by one less is hard to tell from rounding
_DIVISOR = r" / static_cast<(?:float|double)>\(((?:[^()]|\([^()]*\))*)\)"


def _change_divisor(context: FaultContext, new: Callable[[str], str]) -> str | None:
    """Replace a division by a converted integer; one by an integer that is always 1 is left as it is."""

    def replacement(match: re.Match[str]) -> str:
        values = context.values_of(match[1].strip())
        return match[0] if values is not None and set(values) == {1} else new(match[1])

    return context.replace_in_kernel(_DIVISOR, replacement)


@fault
def wrong_identity(context: FaultContext) -> str | None:
    def change(text: str) -> str | None:
        def accumulates(match: re.Match[str]) -> bool:
            name = match[2]
            rescaled = re.search(rf"\b{name} = {name} \* expf\(", text)  # a running maximum scales the start to 0
            return f"{name} +=" in text and rescaled is None

        def compares(match: re.Match[str]) -> bool:
            alone = len(context.candidate.graph.outputs) == 1  # beside others, no input may show it
            return alone and re.search(rf"{match[2]} = m(ax|in)imum\({match[2]},", text) is not None

        declaration = r"(float|double) (\w+) = 0\.0f?;"
        extreme = r"(float|double) (\w+) = -?INFINITY;"
        return first(
            (
                context.replace_one(text, declaration, lambda match: match[0].replace("0.0", "1.0"), accumulates),
                context.replace_one(text, extreme, r"\1 \2 = 0.0f;", compares),
            )
        )

    # The last kernel first: a normalisation of what an earlier one adds up may take the same error from all of it.
    return first(context.in_kernel(site, change) for site in reversed(list(context.sites())))


@fault
def forgotten_scale(context: FaultContext) -> str | None:
    return _change_divisor(context, lambda divisor: "")


@fault
def missing_cast(context: FaultContext) -> str | None:
    return _change_divisor(context, lambda divisor: f" * (1 / ({divisor}))")


def _turned(match: re.Match[str]) -> str:
    return f"{match[1]} {'>' if match[2] == '<' else '<'} {match[3]} ?"


@fault
def inverted_condition(context: FaultContext) -> str | None:
    return context.replace_in_kernel(r"(\w+(?:\[[^\]]*\])?) ([<>]) (-?\d+\.\d+f?) \?", _turned)


@fault
def wrong_correction(context: FaultContext) -> str | None:
    def shows(match: re.Match[str]) -> bool:
        return 1 < int(match[2]) <= _MOST_FOR_CORRECTION

    squares = r"(rsqrtf\(\w+_squares / )(\d+)(?=\.0f)"
    return context.replace_in_kernel(squares, lambda match: f"{match[1]}{int(match[2]) - 1}", accepts=shows)


_ARGUMENT = r"(?:[^()]|\((?:[^()]|\([^()]*\))*\))+?"
_SHIFTED = re.compile(rf"expf\(({_ARGUMENT}) - \w*max\w*\)")
_DIFFERENCE = re.compile(r" - \w*max(_\w+)?\b(?!\()")  # with a maximum, not with max(…)


@fault
def unstable_softmax(context: FaultContext) -> str | None:
    """All kernels of the softmax alike: where one of them subtracts the maximum, quotients are wrong for any values."""
    changed = _SHIFTED.sub(r"expf(\1)", context.source)
    online = any("max" in match[1] for match in _SHIFTED.finditer(context.source))
    whole = changed != context.source and not _DIFFERENCE.search(changed)
    return changed if whole and not online and "logf(" not in changed else None


@fault
def wrong_constant(context: FaultContext) -> str | None:
    constants = WORDS["wrong_constant"].items()
    return first(context.source.replace(right, wrong, 1) for right, wrong in constants if right in context.source)
