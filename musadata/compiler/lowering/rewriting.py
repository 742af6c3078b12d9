"""Rewriting what a kernel computes: loads, choices and places replaced by others."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from musadata.compiler.ir.index_formulas import (
    ZERO,
    Index,
    Opaque,
    Operation,
    Variable,
    not_negative,
    of,
    operate,
    product,
)
from musadata.compiler.ir.scalar import Choose, Compare, Load, Scalar, plain, same

_MOST_PIECES = 5  # that a row is cut into
Change = Callable[[Scalar], Scalar | None]
ChangeAtom = Callable[[object], Index | None]


class Rewriting:
    """A computation with some of its parts replaced; shared nodes stay shared, and what does not change stays itself.

    `change` gives another node for one, or None for the same of its rewritten parts; `atom` does so for an atom of an
    index formula. `done` holds what is known already, by the node.
    """

    def __init__(self, change: Change, atom: ChangeAtom, done: dict[Scalar, Scalar]):
        self._change, self._atom, self._done = change, atom, done

    def value(self, node: Scalar) -> Scalar:
        """The rewritten node."""
        if node not in self._done:
            new = self._change(node)
            self._done[node] = self.with_parts(node) if new is None else new
        return self._done[node]

    def with_parts(self, node: Scalar) -> Scalar:
        """The node, of rewritten parts."""
        fields = {name: self.part(getattr(node, name)) for name in node.__dataclass_fields__}
        return (
            node if all(_same(getattr(node, name), part) for name, part in fields.items()) else replace(node, **fields)
        )

    def part(self, part: Any) -> Any:
        """What a field of a node holds, rewritten."""
        if isinstance(part, Scalar):
            return self.value(part)
        if isinstance(part, tuple):
            return tuple(self.part(item) for item in part)
        return map_atoms(part, self._new_atom) if isinstance(part, Index) else part

    def _new_atom(self, atom: object) -> Index | None:
        if not isinstance(atom, Opaque):
            return self._atom(atom)
        scalar = self.value(atom.scalar)
        return of(atom) if scalar is atom.scalar else of(Opaque(scalar, scalar.variables))


def replace_loads(value: Scalar, change: Callable[[Load], Scalar | None], done: dict[Scalar, Scalar]) -> Scalar:
    """The same computation with some loads replaced."""
    return rewrite(value, lambda node: change(node) if isinstance(node, Load) else None, done)


def rewrite(value: Scalar, change: Change, done: dict[Scalar, Scalar]) -> Scalar:
    """The same computation with some nodes replaced."""
    return Rewriting(change, lambda _: None, done).value(value)


def _same(one: object, other: object) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return all(_same(a, b) for a, b in zip(one, other, strict=True))
    return one is other or (isinstance(one, Index) and one == other)


def substitute(index: Index, change: Mapping[Variable, Index]) -> Index:
    return map_atoms(index, lambda atom: change.get(atom) if isinstance(atom, Variable) else None)


def substitute_in(value: Scalar, change: Mapping[Variable, Index]) -> Scalar:
    """The same computation at another place."""
    at = Rewriting(lambda _: None, lambda atom: change.get(atom) if isinstance(atom, Variable) else None, {})
    return at.value(value)


def map_atoms(index: Index, change: Callable[[object], Index | None]) -> Index:
    """The formula with atoms replaced, inside of quotients too."""
    total = ZERO
    for monomial, coefficient in index.terms:
        factors = []
        for atom in monomial:
            new = change(atom)
            if new is None and isinstance(atom, Operation):
                left, right = map_atoms(atom.left, change), map_atoms(atom.right, change)
                new = operate(atom.kind, left, right)
            factors.append(of(atom) if new is None else new)
        total = total + product(factors) * coefficient
    return total


def assuming(condition: Scalar, value: Scalar) -> Scalar:
    """A value where a condition holds: choices by the same condition are made."""
    done: dict[Scalar, Scalar] = {}
    test = plain(condition)

    def chosen(node: Scalar) -> Scalar | None:
        if isinstance(node, Choose) and same(node.condition, test):
            return rewrite(node.yes, chosen, done)
        return None

    return rewrite(value, chosen, done)


def decided(value: Scalar) -> Scalar:
    """A value without the choices whose places are known to lie on one side."""
    done: dict[Scalar, Scalar] = {}

    def chosen(node: Scalar) -> Scalar | None:
        if not isinstance(node, Choose) or not isinstance(node.condition, Compare) or node.condition.relation != "<":
            return None
        left, right = node.condition.left, node.condition.right
        if not_negative(right - left - 1):
            return rewrite(node.yes, chosen, done)
        return rewrite(node.no, chosen, done) if not_negative(left - right) else None

    return rewrite(value, chosen, done)


def cuts(value: Scalar, axis: Variable) -> list[Index]:
    """Where a value changes its formula along an axis, from the first place to the last: the ends of what was put
    together. None if they are many, or their order is not known."""
    choices = (node.condition for node in value.walk() if isinstance(node, Choose))
    tests = [test for test in choices if isinstance(test, Compare) and test.relation == "<"]
    ends = list(dict.fromkeys(test.right for test in tests if test.left == of(axis) and not test.right.variables))
    ends.sort(key=lambda end: sum(not_negative(end - other) for other in ends))
    return ends if len(ends) < _MOST_PIECES and all(not_negative(b - a) for a, b in pairwise(ends)) else []
