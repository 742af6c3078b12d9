"""Integer formulas of loop variables and sizes: exact, normalised, and simplified where that is provably correct.

An `Index` is a polynomial with integer coefficients over atoms: loop variables, sizes, and quotients, remainders,
minima and maxima of other formulas. Proofs use that loop variables lie in [0, extent) and that sizes are 1 or more,
attributes 0 or 1: a formula is non-negative if it is so with every variable at its worst end and every size replaced by
its least value + a non-negative number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from operator import floordiv, mod, mul
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Variable:
    """A loop variable: 0 <= name < extent."""

    name: str
    extent: Index


@dataclass(frozen=True)
class Size:
    """A symbolic size or attribute of the model, `least` or more."""

    name: str
    least: int = 1


@dataclass(frozen=True)
class Operation:
    """`//`, `%`, `min` or `max` of two formulas. `//` and `%` are of a non-negative formula by a positive one."""

    kind: str
    left: Index
    right: Index


@dataclass(frozen=True)
class Opaque:
    """An integer that a kernel computes, for example an index that it has loaded. `scalar` is compared by identity."""

    scalar: Any
    variables: frozenset[Variable]


Atom = Variable | Size | Operation | Opaque
Monomial = tuple[Atom, ...]


@dataclass(frozen=True)
class Index:
    """A polynomial: pairs of a monomial and its coefficient, in a fixed order. Build it with `+ - * // %`."""

    terms: tuple[tuple[Monomial, int], ...]

    @cached_property
    def _hash(self) -> int:
        return hash(self.terms)

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: Index | int) -> Index:
        return _collect((*self.terms, *as_index(other).terms))

    __radd__ = __add__

    def __neg__(self) -> Index:
        return self * -1

    def __sub__(self, other: Index | int) -> Index:
        return self + -as_index(other)

    def __rsub__(self, other: int) -> Index:
        return as_index(other) - self

    def __mul__(self, other: Index | int) -> Index:
        right = as_index(other)
        return _collect(
            (tuple(sorted((*one, *two), key=_atom_key)), a * b) for one, a in self.terms for two, b in right.terms
        )

    __rmul__ = __mul__

    def __floordiv__(self, other: Index | int) -> Index:
        return divide(self, as_index(other))[0]

    def __mod__(self, other: Index | int) -> Index:
        return divide(self, as_index(other))[1]

    @property
    def constant(self) -> int | None:
        """The number that this formula is, or None."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    @property
    def variable(self) -> Variable | None:
        """The loop variable that this formula is, or None."""
        atom = self.atom
        return atom if isinstance(atom, Variable) else None

    @property
    def atom(self) -> Atom | None:
        """The one atom that this formula is, or None."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1:
            return self.terms[0][0][0]
        return None

    def atoms(self) -> Iterator[Atom]:
        """Every atom, those inside quotients and the like included, in a fixed order, with repetitions."""
        for monomial, _ in self.terms:
            for atom in monomial:
                yield atom
                if isinstance(atom, Operation):
                    yield from atom.left.atoms()
                    yield from atom.right.atoms()

    @cached_property
    def variables(self) -> frozenset[Variable]:
        """The loop variables that this formula depends on."""
        atoms = list(self.atoms())
        inside = [atom.variables for atom in atoms if isinstance(atom, Opaque)]
        return frozenset(atom for atom in atoms if isinstance(atom, Variable)).union(*inside)

    def evaluate(self, sizes: Mapping[str, int], at: Mapping[Variable, int] = MappingProxyType({})) -> int:
        """The value of a formula for the given sizes and loop variables; others count as the middle of their range."""
        return sum(
            coefficient * math.prod(_evaluate_atom(atom, sizes, at) for atom in monomial)
            for monomial, coefficient in self.terms
        )


def as_index(value: Index | int) -> Index:
    return value if isinstance(value, Index) else number(value)


@lru_cache(maxsize=4096)
def number(value: int) -> Index:
    return Index((((), value),) if value else ())


def of(atom: Atom) -> Index:
    """The formula that is just this atom."""
    return Index((((atom,), 1),))


ZERO, ONE, TWO = number(0), number(1), number(2)


def product(factors: Iterable[Index]) -> Index:
    return reduce(mul, factors, ONE)


def minimum(left: Index, right: Index) -> Index:
    return operate("min", left, right)


def maximum(left: Index, right: Index) -> Index:
    return operate("max", left, right)


def operate(kind: str, left: Index, right: Index) -> Index:
    """The simplified `//`, `%`, `min` or `max` of two formulas."""
    if kind in ("//", "%"):
        return divide(left, right)[0 if kind == "//" else 1]
    if not_negative(right - left):
        return left if kind == "min" else right
    if not_negative(left - right):
        return right if kind == "min" else left
    return of(Operation(kind, left, right))


def divide(numerator: Index, denominator: Index) -> tuple[Index, Index]:
    """Quotient and remainder of a non-negative formula by a positive one."""
    if denominator == ONE:
        return numerator, ZERO
    if numerator.constant is not None and denominator.constant is not None:
        return number(numerator.constant // denominator.constant), number(numerator.constant % denominator.constant)
    whole, rest = exact_part(numerator, denominator)
    if rest == ZERO:
        return whole, ZERO
    if rest != numerator and not not_negative(rest):
        whole, rest = ZERO, numerator
    if not_negative(rest) and not_negative(denominator - rest - 1):
        return whole, rest
    nested = rest.atom
    if isinstance(nested, Operation) and nested.kind == "//":
        quotient = of(Operation("//", nested.left, nested.right * denominator))
        return whole + quotient, of(Operation("%", rest, denominator))
    return whole + of(Operation("//", rest, denominator)), of(Operation("%", rest, denominator))


def exact_part(numerator: Index, denominator: Index) -> tuple[Index, Index]:
    """Polynomial division by the leading monomial: numerator = whole * denominator + rest."""
    lead, coefficient = denominator.terms[0]
    whole, rest = ZERO, ZERO
    left = numerator
    for _ in range(64):
        if not left.terms:
            break
        monomial, factor = left.terms[0]
        quotient = _divide_monomial(monomial, lead)
        if quotient is not None and factor % coefficient == 0:
            step = Index(((quotient, factor // coefficient),))
            whole, left = whole + step, left - step * denominator
        else:
            head = Index((left.terms[0],))
            rest, left = rest + head, left - head
    return whole, rest + left


def _divide_monomial(monomial: Monomial, by: Monomial) -> Monomial | None:
    left = list(monomial)
    for atom in by:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


@lru_cache(maxsize=65536)
def not_negative(formula: Index) -> bool:
    """True if the formula is proven to be 0 or more; False says nothing."""
    worst = _worst_case(formula)
    if worst is None:
        return False
    shifted = _substitute(worst, lambda atom: of(atom) + atom.least if isinstance(atom, Size) else of(atom))
    return all(coefficient >= 0 for _, coefficient in shifted.terms)


def _worst_case(formula: Index) -> Index | None:
    """The least value over all loop variables, as a formula of sizes and non-negative quotients; None if unknown."""
    for _ in range(16):
        atom = next((a for m, _ in formula.terms for a in m if _bounds(a) is not None), None)
        if atom is None:
            break
        bounds = _bounds(atom)
        assert bounds is not None
        holding = [(m, c) for m, c in formula.terms if atom in m]
        if any(m.count(atom) > 1 for m, _ in holding) or len({c > 0 for _, c in holding}) > 1:
            return None
        end = bounds[0] if holding[0][1] > 0 else bounds[1]
        if end is None:
            return None
        formula = _substitute(formula, _replacing(atom, end))
    bare = all(isinstance(a, Size) or _is_size_quotient(a) for m, _ in formula.terms for a in m)
    return formula if bare else None


def _replacing(atom: Atom, value: Index) -> Callable[[Atom], Index]:
    return lambda other: value if other == atom else of(other)


def _bounds(atom: Atom) -> tuple[Index, Index | None] | None:
    if isinstance(atom, Variable):
        return ZERO, atom.extent - 1
    if isinstance(atom, Operation) and atom.kind == "%":
        return ZERO, atom.right - 1
    if isinstance(atom, Operation) and atom.kind == "//" and atom.left.variables:
        return ZERO, _greatest_quotient(atom)
    return None


def _greatest_quotient(atom: Operation) -> Index | None:
    least = _worst_case(-atom.left)
    if least is None:
        return None
    top = -least
    whole, rest = exact_part(top, atom.right)
    if not_negative(-rest - 1) and not_negative(rest + atom.right):
        return whole - 1
    return divide(top, atom.right)[0]


def _is_size_quotient(atom: Atom) -> bool:
    return isinstance(atom, Operation) and atom.kind == "//" and not atom.left.variables


def _substitute(formula: Index, change: Callable[[Atom], Index]) -> Index:
    terms = [product(change(atom) for atom in monomial) * coefficient for monomial, coefficient in formula.terms]
    return sum(terms, ZERO)


def without_opaque(formula: Index, opaque: Opaque, value: Index) -> Index:
    """The formula with another one in place of what a kernel computes."""

    def change(atom: Atom) -> Index:
        if isinstance(atom, Operation):
            sides = (without_opaque(side, opaque, value) for side in (atom.left, atom.right))
            return operate(atom.kind, *sides)
        return value if atom == opaque else of(atom)

    return _substitute(formula, change)


def _collect(terms: Iterable[tuple[Monomial, int]]) -> Index:
    sums: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        sums[monomial] = sums.get(monomial, 0) + coefficient
    kept = {monomial: coefficient for monomial, coefficient in sums.items() if coefficient}
    _rejoin(kept)
    return Index(tuple(sorted(kept.items(), key=lambda term: (-len(term[0]), tuple(map(_atom_key, term[0]))))))


def _rejoin(sums: dict[Monomial, int]) -> None:
    """x // m * m + x % m is x again."""
    for monomial in list(sums):
        for position, atom in enumerate(monomial):
            if not (isinstance(atom, Operation) and atom.kind == "%"):
                continue
            others = monomial[:position] + monomial[position + 1 :]
            coefficient = sums.get(monomial, 0)
            quotient = divide(atom.left, atom.right)[0]
            partner = quotient * atom.right * Index(((others, coefficient),))
            if coefficient and len(partner.terms) == 1 and sums.get(partner.terms[0][0]) == partner.terms[0][1]:
                del sums[monomial], sums[partner.terms[0][0]]
                for restored, amount in (atom.left * Index(((others, coefficient),))).terms:
                    sums[restored] = sums.get(restored, 0) + amount
                for key in [key for key, amount in sums.items() if not amount]:
                    del sums[key]
                return _rejoin(sums)
    return None


def join_halves(formula: Index) -> Index:
    """The formula with x // 2 + (x + 1) // 2 as x, which is what padding on both sides adds to a length."""
    halves = [
        (atom, coefficient)
        for monomial, coefficient in formula.terms
        if len(monomial) == 1 and isinstance(atom := monomial[0], Operation) and (atom.kind, atom.right) == ("//", TWO)
    ]
    for one, coefficient in halves:
        for other, times in halves:
            if times == coefficient and other.left - one.left == ONE:
                return join_halves(formula + (one.left - of(one) - of(other)) * coefficient)
    return formula


@lru_cache(maxsize=65536)
def _atom_key(atom: Atom) -> tuple[int, str]:
    order = {Variable: 0, Operation: 1, Opaque: 2, Size: 3}[type(atom)]
    return order, _text(atom)


def _text(atom: Atom) -> str:
    if isinstance(atom, Operation):
        return f"{atom.kind}({_index_text(atom.left)},{_index_text(atom.right)})"
    return atom.name if isinstance(atom, (Variable, Size)) else "opaque"


def _index_text(formula: Index) -> str:
    return "+".join(f"{c}*{'*'.join(_text(a) for a in m)}" for m, c in formula.terms)


_EVALUATED: dict[str, Callable[[int, int], int]] = {"//": floordiv, "%": mod, "min": min, "max": max}


def _evaluate_atom(atom: Atom, sizes: Mapping[str, int], at: Mapping[Variable, int]) -> int:
    if isinstance(atom, Size):
        return sizes[atom.name]
    if isinstance(atom, Variable):
        return at[atom] if atom in at else atom.extent.evaluate(sizes) // 2
    if isinstance(atom, Operation):
        left, right = atom.left.evaluate(sizes, at), atom.right.evaluate(sizes, at)
        return _EVALUATED[atom.kind](left, right)
    raise ValueError(f"{atom} has no value outside a kernel")
