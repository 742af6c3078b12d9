"""Rewriting what a kernel computes: loads, choices and places replaced by others."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from musadata.teacher.compiler.ir.index_formulas import (
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
from musadata.teacher.compiler.ir.scalar import Choose, Compare, Load, Scalar, plain, same

_MOST_PIECES = 5  # that a row is cut into
Change = Callable[[Scalar], Scalar | None]


def replace_loads(value: Scalar, change: Callable[[Load], Scalar | None], done: dict[int, Scalar]) -> Scalar:
    """The same computation with some loads replaced; shared nodes stay shared."""
    return rewrite(value, lambda node: change(node) if isinstance(node, Load) else None, done)


def rewrite(value: Scalar, change: Change, done: dict[int, Scalar]) -> Scalar:
    """The same computation with some nodes replaced; shared nodes stay shared."""
    if id(value) in done:
        return done[id(value)]
    new = change(value)
    if new is None:
        new = _with_parts(value, change, done)
    done[id(value)] = new
    return new


def _with_parts(value: Scalar, change: Change, done: dict[int, Scalar]) -> Scalar:
    fields = {name: _part(getattr(value, name), change, done) for name in value.__dataclass_fields__}
    if all(_same(getattr(value, name), part) for name, part in fields.items()):
        return value
    return replace(value, **fields)


def _part(part: Any, change: Change, done: dict[int, Scalar]) -> Any:
    if isinstance(part, Scalar):
        return rewrite(part, change, done)
    if isinstance(part, tuple):
        return tuple(_part(item, change, done) for item in part)
    return _replace_in_index(part, change, done) if isinstance(part, Index) else part


def _same(one: object, other: object) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return all(_same(a, b) for a, b in zip(one, other, strict=True))
    return one is other or (isinstance(one, Index) and one == other)


def _replace_in_index(index: Index, change: Change, done: dict[int, Scalar]) -> Index:
    if not any(isinstance(atom, Opaque) for atom in index.atoms()):
        return index

    def new(atom: object) -> Index | None:
        if not isinstance(atom, Opaque):
            return None
        scalar = rewrite(atom.scalar, change, done)
        return of(atom) if scalar is atom.scalar else of(Opaque(scalar, scalar.variables))

    return map_atoms(index, new)


def substitute(index: Index, change: Mapping[Variable, Index]) -> Index:
    return map_atoms(index, lambda atom: change.get(atom) if isinstance(atom, Variable) else None)


def substitute_in(value: Scalar, change: Mapping[Variable, Index], done: dict[int, Scalar]) -> Scalar:
    """The same computation at another place; shared nodes stay shared."""

    def moved(part: Any) -> Any:
        if isinstance(part, Scalar):
            return substitute_in(part, change, done)
        if isinstance(part, tuple):
            return tuple(map(moved, part))
        return map_atoms(part, at) if isinstance(part, Index) else part

    def at(atom: object) -> Index | None:
        if not isinstance(atom, Opaque):
            return change.get(atom) if isinstance(atom, Variable) else None
        scalar = substitute_in(atom.scalar, change, done)
        return of(Opaque(scalar, scalar.variables))

    if id(value) not in done:
        done[id(value)] = replace(value, **{name: moved(getattr(value, name)) for name in value.__dataclass_fields__})
    return done[id(value)]


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
    done: dict[int, Scalar] = {}
    test = plain(condition)

    def chosen(node: Scalar) -> Scalar | None:
        if isinstance(node, Choose) and same(node.condition, test):
            return rewrite(node.yes, chosen, done)
        return None

    return rewrite(value, chosen, done)


def decided(value: Scalar) -> Scalar:
    """A value without the choices whose places are known to lie on one side."""
    done: dict[int, Scalar] = {}

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
