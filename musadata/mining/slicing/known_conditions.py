"""Conditions whose value is known for a reference, which runs eagerly, with PyTorch alone, on any device."""

import ast
from collections.abc import Mapping

from musadata.mining.slicing.dotted_names import dotted_name

# Calls that always return False.
NEVER = frozenset({
    "torch.jit.is_scripting", "torch.jit.is_tracing", "torch._jit_internal.is_scripting", "torch.compiler.is_compiling",
    "torch.onnx.is_in_onnx_export", "torch.overrides.has_torch_function", "torch.cuda.is_available",
    "is_scripting", "is_tracing",
})  # fmt: skip


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
        return False if dotted_name(test.func) in NEVER else None
    if isinstance(test, ast.Attribute):
        return False if test.attr == "is_cuda" else None
    return _device_answer(test)


def _device_answer(test: ast.expr) -> bool | None:
    """`x.device.type == "cpu"` and similar comparisons."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.comparators[0], ast.Constant):
        return None
    value, left = test.comparators[0].value, test.left
    if not isinstance(left, ast.Attribute) or left.attr != "type" or value not in ("cpu", "cuda"):
        return None
    owner = left.value.attr if isinstance(left.value, ast.Attribute) else getattr(left.value, "id", "")
    if not owner.endswith("device"):
        return None
    if isinstance(test.ops[0], ast.Eq):
        return value == "cpu"
    return value != "cpu" if isinstance(test.ops[0], ast.NotEq) else None
