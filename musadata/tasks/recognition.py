"""Operator families that are recognized by the flow of values, since PyTorch decomposes them into other families.

On a CPU `nn.GRU` is decomposed into matrix products and sigmoids, `nn.RMSNorm` into a mean and products.
"""

from musadata.records import OperatorFamily
from musadata.tasks.family import family_of
from musadata.tasks.operator_graph import Key, ValueGraph

_PRODUCTS = frozenset({OperatorFamily.MATMUL, OperatorFamily.CONVOLUTION})
_NORMS = frozenset({"linalg_vector_norm", "norm", "var", "std", "var_mean", "std_mean"})
_MEANS = frozenset({"mean", "sum"})
_MAGNITUDES = frozenset({"pow", "abs", "square"})
_SCALING = frozenset({"mul", "div"})


def recognize(graph: ValueGraph, scalar_outputs: bool) -> list[OperatorFamily]:
    """The families that the graph as a whole belongs to. `scalar_outputs`: everything returned is a single number."""
    found = []
    if _is_recurrent(graph):
        found.append(OperatorFamily.RECURRENT)
    if _normalizes(graph):
        found.append(OperatorFamily.NORMALIZATION)
    if scalar_outputs and _inputs_used(graph) >= 2:
        found.append(OperatorFamily.LOSS)
    return found


def _is_recurrent(graph: ValueGraph) -> bool:
    """Whether a product with a weight needs an earlier product with that weight: the same step, one after the other."""
    products: list[frozenset[int]] = []  # per value, the weights of the products that it needs
    learned: list[bool] = []  # per value, whether it is made of parameters alone
    for operator, _, operands in graph.keys:
        needed = frozenset[int]().union(*(products[operand] for operand in operands))
        learned.append(operator == "state" or (bool(operands) and all(learned[operand] for operand in operands)))
        if not learned[-1] and family_of(f"aten.{operator}") in _PRODUCTS:
            weights = {operand for operand in operands if learned[operand]}
            if weights & needed:
                return True
            needed |= weights
        products.append(needed)
    return False


def _normalizes(graph: ValueGraph) -> bool:
    """Whether a value is scaled by its own norm, deviation or root mean square, about its mean or about zero."""
    measured: list[int | None] = []  # per value, what it is a norm of
    for number, (operator, _, operands) in enumerate(graph.keys):
        if operator in _SCALING and len(set(operands)) == 2:
            if any(_is_about(graph.keys, value, measured[scale]) for value, scale in (operands[:2], operands[1::-1])):
                return True
            measured.append(None)
        elif operator in _NORMS:
            measured.append(operands[0])
        elif operator in _MEANS:
            measured.append(_magnitude_of(graph.keys, operands[0]))
        else:  # a root, an epsilon, a change of shape
            measured.append(measured[operands[0]] if len(operands) == 1 and operands[0] < number else None)
    return False


def _is_about(keys: list[Key], value: int, measured: int | None) -> bool:
    """Whether the value is what was measured, or its difference from something."""
    if measured is None:
        return False
    operator, _, operands = keys[value]
    return value == measured or (operator == "sub" and operands[0] == measured)


def _magnitude_of(keys: list[Key], value: int) -> int | None:
    operator, _, operands = keys[value]
    if (operator in _MAGNITUDES and len(operands) == 1) or (operator == "mul" and len(set(operands)) == 1):
        return int(operands[0])
    return None


def _inputs_used(graph: ValueGraph) -> int:
    """How many inputs lead to an output."""
    needed = set(graph.outputs)
    for number in reversed(range(len(graph.keys))):
        if number in needed:
            needed.update(graph.keys[number][2])
    return sum(graph.keys[number][0] == "input" for number in needed)
