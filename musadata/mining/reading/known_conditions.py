"""Conditions whose value is known for a reference, which runs eagerly, with PyTorch alone, on any device."""

import ast
import re
from collections.abc import Mapping, Sequence
from typing import TypeGuard

from musadata.mining.reading.decorators import NAMES
from musadata.mining.reading.dotted_names import dotted_name, last_name

NEVER_TRUE = frozenset(NAMES["never_true"])  # of a reference
YIELDS = (ast.Yield, ast.YieldFrom)  # even where it never runs, it makes a function a generator
AVAILABLE = "torch.cuda.is_available"
OF_PACKAGE = re.compile(r"(?:\w+\.)*is_(?!(?:cuda|gpu)_)(\w+)_available")  # `is_apex_available()`
PRESENT = frozenset({"torch", "numpy"})


def known_answer(test: ast.expr, flags: Mapping[str, bool], *, on_device: bool = False) -> bool | None:
    """The value of a condition, None if it is not known.

    A reference uses the branch for the CPU on any device: it is written in PyTorch, while the other one calls a custom
    kernel.

    Args:
        flags: names of the module that tell whether an optional package is installed; it never is.
        on_device: answer as for a candidate, which uses the branch with the kernel.
    """
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = known_answer(test.operand, flags, on_device=on_device)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        answers = [known_answer(value, flags, on_device=on_device) for value in test.values]
        decisive = isinstance(test.op, ast.Or)
        if decisive in answers:
            return decisive
        return None if None in answers else not decisive
    if isinstance(test, ast.Name):
        return False if test.id == "TYPE_CHECKING" else flags.get(test.id)
    if isinstance(test, ast.Call):
        name = dotted_name(test.func)
        if name in NEVER_TRUE:
            return on_device and name == AVAILABLE
        package = OF_PACKAGE.fullmatch(name)
        return None if package is None or test.args else package[1] in PRESENT
    if isinstance(test, ast.Attribute):
        return on_device if test.attr == "is_cuda" else None
    if _names_other_device(test):
        return isinstance(test.ops[0], ast.NotEq)
    answer = _device_answer(test)
    return None if answer is None else answer is not on_device


def live_statements(body: Sequence[ast.stmt], flags: Mapping[str, bool]) -> list[ast.stmt]:
    """The statements of a block without those behind a `return` or `raise`, also one in a branch that is known."""
    for place, node in enumerate(body):
        if _ends(node, flags) and not any(isinstance(item, YIELDS) for rest in body[place:] for item in ast.walk(rest)):
            return list(body[: place + 1])
    return list(body)


def _ends(node: ast.stmt, flags: Mapping[str, bool]) -> bool:
    if isinstance(node, ast.If):
        answer = known_answer(node.test, flags)
        taken = {True: node.body, False: node.orelse, None: []}[answer]
        return any(_ends(item, flags) for item in taken)
    return isinstance(node, (ast.Return, ast.Raise))


def _names_other_device(test: ast.expr) -> TypeGuard[ast.Compare]:
    """`x.device.type == "xla"`: a device that is none of those on which references run."""
    match test:
        case ast.Compare(
            left=ast.Attribute(owner, "type"),
            ops=[ast.Eq() | ast.NotEq()],
            comparators=[ast.Constant("xla" | "mps" | "hpu" | "npu" | "xpu" | "ipu")],
        ):
            return last_name(owner).endswith("device")
    return False


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
