"""Operator families: what kind of work an aten operator is, and what kind dominates a task."""

import re
from collections.abc import Sequence
from functools import cache

from musadata.operators import FAMILIES, column
from musadata.records import OperatorFamily

_F = OperatorFamily
_HEAVIEST_FIRST = tuple(map(OperatorFamily, FAMILIES))
_BY_NAME = {name: OperatorFamily(family) for name, family in column("family").items()}
_LOSS = re.compile(r"loss|_ctc|cross_entropy|kl_div")


@cache
def family_of(operator: str) -> OperatorFamily:
    """The family of one dispatched operator, such as "aten.mul.Tensor". What is not listed acts on elements."""
    parts = operator.split(".")
    if parts[0] != "aten":
        return _F.OTHER
    name = parts[1] if parts[1].endswith("__") else parts[1].rstrip("_")
    if _LOSS.search(name):
        return _F.LOSS
    return _BY_NAME.get(name, _F.ELEMENTWISE)


def operator_family(
    operators: Sequence[str], broadcasts: bool = False, recognized: Sequence[OperatorFamily] = ()
) -> OperatorFamily:
    """The family of the work that dominates a task: the heaviest that occurs.

    A softmax between two matrix products is attention, however it is spelled. `broadcasts` says that operands of
    different shapes met, which makes elementwise work broadcast work; `recognized` is what `recognize` saw in the
    graph as a whole.
    """
    present = [family_of(operator) for operator in operators]
    if _is_attention(present):
        return _F.ATTENTION
    found = {*present, *recognized}
    if broadcasts and _F.ELEMENTWISE in found:
        found.add(_F.BROADCAST)
    return next((family for family in _HEAVIEST_FIRST if family in found), _F.OTHER)


def _is_attention(families: Sequence[OperatorFamily]) -> bool:
    if _F.SOFTMAX not in families:
        return False
    first = families.index(_F.SOFTMAX)
    last = len(families) - 1 - families[::-1].index(_F.SOFTMAX)
    return _F.MATMUL in families[:first] and _F.MATMUL in families[last:]


def level(operators: Sequence[str]) -> int:
    """KernelBench's scale, by how many operators compute something: 1 one, 2 up to eight, 3 more."""
    computing = sum(family_of(operator) is not _F.LAYOUT for operator in operators)
    return 1 if computing <= 1 else 2 if computing <= 8 else 3
