"""Whether a condition of a kernel can fail at the sizes that are told."""

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

from musadata.compiler.ir.index_formulas import Atom, Index, Size, Variable
from musadata.compiler.ir.scalar import Compare, Scalar


def holds_everywhere(condition: Scalar, sets: Sequence[Mapping[str, int]]) -> bool:
    """Whether all comparisons of a condition hold at the ends of their axes, and so at every place, in all sets of
    sizes: the compiler tests what it cannot prove, not knowing how sizes are related."""
    parts = [part for part in condition.walk() if isinstance(part, Compare)]
    sides = [side for part in parts for side in (part.left, part.right)]
    axes = {axis for side in sides for axis in side.variables}
    straight = all(isinstance(atom, (Variable, Size)) for side in sides for atom in side.atoms())
    if not straight or any(axis.extent.variables for axis in axes):
        return False
    return all(
        _holds(part, dict(zip(axes, ends, strict=True)), sizes)
        for sizes in sets
        for ends in product(*((0, axis.extent.evaluate(sizes) - 1) for axis in axes))
        for part in parts
    )


def _holds(part: Compare, places: Mapping[Variable, int], sizes: Mapping[str, int]) -> bool:
    left, right = (_value(side, places, sizes) for side in (part.left, part.right))
    return {"<": left < right, "<=": left <= right, ">=": left >= right, "==": left == right}[part.relation]


def _value(index: Index, places: Mapping[Variable, int], sizes: Mapping[str, int]) -> int:
    def value(atom: Atom) -> int:
        assert isinstance(atom, (Variable, Size))
        return places[atom] if isinstance(atom, Variable) else sizes[atom.name]

    return sum(coefficient * prod(map(value, monomial)) for monomial, coefficient in index.terms)
