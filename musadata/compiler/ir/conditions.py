"""What must hold for the sizes that a graph is executed with."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from musadata.compiler.ir.index_formulas import Index, not_negative
from musadata.compiler.ir.lowering_errors import Unsupported


@dataclass(frozen=True)
class Condition:
    """What must hold between two formulas of sizes. `relation`: <, <=, >, >=, == or !=."""

    relation: str
    left: Index
    right: Index

    @property
    def is_proven(self) -> bool:
        """Whether it holds for all sizes."""
        more, less = self.left - self.right, self.right - self.left
        least = {">=": more, ">": more - 1, "<=": less, "<": less - 1}.get(self.relation)
        return not_negative(least) if least is not None else more.constant == 0

    def holds(self, sizes: Mapping[str, int]) -> bool:
        return bool(_RELATIONS[self.relation](self.left.evaluate(sizes), self.right.evaluate(sizes)))


_RELATIONS = {"<": lt, "<=": le, ">": gt, ">=": ge, "==": eq, "!=": ne}


def conditions_of(
    captured: Sequence[Any], formula: Callable[[Any], Index], hints: Sequence[Mapping[str, int]]
) -> tuple[Condition, ...]:
    """Those that cannot be proven. Quotients are of non-negative numbers, or C++ would round them up.

    Raises:
        Unsupported: one does not hold for a set of shapes.
    """
    wanted: list[tuple[str, Any, Any]] = []
    for sign, *sides in captured:
        wanted += [(">=", numerator, 0) for side in sides for numerator in _numerators(side)]
        wanted.append((sign, *sides))
    found = dict.fromkeys(Condition(sign, formula(one), formula(two)) for sign, one, two in wanted)
    if not all(condition.holds(sizes) for condition in found for sizes in hints):
        raise Unsupported("the graph depends on the input's sizes")
    return tuple(condition for condition in found if not condition.is_proven)


def _numerators(size: Any) -> Iterator[Any]:
    """What is divided in a captured size."""
    if isinstance(size, list):
        yield from (size[1:2] if size[0] in ("//", "%") else ())
        for part in size[1:]:
            yield from _numerators(part)
