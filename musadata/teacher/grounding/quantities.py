"""Figures, with what their notation leaves open."""

import re
from dataclasses import dataclass
from fractions import Fraction

from musadata.teacher.grounding.normalise import NOTATION

_PREFIXES = "|".join(sorted(NOTATION["prefixes"], key=len, reverse=True))
UNIT = re.compile(rf"(?P<prefix>{_PREFIXES})?(?P<unit>(?i:bytes?|flops?|elements?|bits?|b))?(?<=\w)")


@dataclass(frozen=True)
class Quantity:
    """A figure, with what its notation leaves open.

    Attributes:
        options: the values that it may stand for (1 KB is 1000 or 1024 bytes), each with half of its last digit.
        sides: the sides of the equation that derives it; one side if it only stands there.
        unit: "bytes", "flops", "elements", "bits", "percent" or "".
    """

    options: tuple[tuple[Fraction, Fraction], ...]
    sides: tuple[str, ...]
    unit: str = ""

    @property
    def value(self) -> Fraction:
        return self.options[0][0]

    @property
    def factors(self) -> tuple[int, ...]:
        """Of `8 * 33` the factors; empty for anything else."""
        side = self.sides[0].removeprefix("( ").removesuffix(" )")
        parts = side.split("*")
        return tuple(int(part) for part in parts) if len(parts) > 1 and all(p.strip().isdigit() for p in parts) else ()

    def is_near(self, value: float | Fraction, tolerance: float = 0.0) -> bool:
        """Whether it is `value`, rounded as written, or up to a relative `tolerance`."""
        if not tolerance and not any(half for _, half in self.options):  # most figures are whole numbers
            return any(value == v for v, _ in self.options)
        exact = Fraction(value)
        return any(abs(exact - v) <= max(half, Fraction(tolerance) * abs(v)) for v, half in self.options)


def with_unit(quantity: Quantity, word: str) -> Quantity:
    if word == "%":
        options = tuple((value / 100, half / 100) for value, half in quantity.options)
        return Quantity(options, quantity.sides, "percent")
    match = UNIT.fullmatch(word)
    if match is None:
        return quantity
    factors = NOTATION["prefixes"].get(match["prefix"], [1])
    options = tuple((value * factor, half * factor) for value, half in quantity.options for factor in factors)
    if match["prefix"]:  # whole digits before a prefix are rounded as well
        options = tuple((value, half or Fraction(factors[0], 2)) for value, half in options)
    return Quantity(options, quantity.sides, unit_word(word))


def unit_word(word: str) -> str:
    if word == "%":
        return "percent"
    match = UNIT.fullmatch(word)
    return NOTATION["units"].get((match["unit"] or "").lower(), "") if match else ""


def half_digit(literal: str) -> Fraction:
    match = re.fullmatch(r"-?\s?\d*\.?(\d*)(?:[eE]([+-]?\d+))?", literal)
    if match is None or ("." not in literal and not match[2]):
        return Fraction(0)
    return Fraction(1, 2) * Fraction(10) ** (int(match[2] or 0) - len(match[1] or ""))
