"""Conditions whose value is known for a reference, which runs eagerly, with PyTorch alone, on any device."""

import ast
from collections.abc import Mapping

from musadata.mining.slicing.decorators import NAMES
from musadata.mining.slicing.dotted_names import dotted_name, last_name

NEVER_TRUE = frozenset(NAMES["never_true"])


def known_answer(test: ast.expr, flags: Mapping[str, bool]) -> bool | None:
    """The value of a condition, None if it is not known.

    `flags`: names of the module that tell whether an optional package is installed; it never is.

    The branch for the CPU is used on any device: it is written in PyTorch, while the other one calls a custom kernel.
    """
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = known_answer(test.operand, flags)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        answers = [known_answer(value, flags) for value in test.values]
        decisive = isinstance(test.op, ast.Or)
        if decisive in answers:
            return decisive
        return None if None in answers else not decisive
    if isinstance(test, ast.Name):
        return flags.get(test.id)
    if isinstance(test, ast.Call):
        return False if dotted_name(test.func) in NEVER_TRUE else None
    if isinstance(test, ast.Attribute):
        return False if test.attr == "is_cuda" else None
    return _device_answer(test)


def _device_answer(test: ast.expr) -> bool | None:
    """`x.device.type == "cpu"` and similar comparisons."""
    match test:
        case ast.Compare(
            left=ast.Attribute(owner, "type"),
            ops=[ast.Eq() | ast.NotEq() as operator],
            comparators=[ast.Constant("cpu" | "cuda" as kind)],
        ) if last_name(owner).endswith("device"):
            return (kind == "cpu") is isinstance(operator, ast.Eq)
    return None
