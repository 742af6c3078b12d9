"""`get_inputs` as text, from specs: what a reader sees, and what KernelBench's harness calls."""

import ast
import math
from collections.abc import Sequence

from musadata.records import InputSpec
from musadata.tasks.normal_values import moments

_LINE = 110
_DRAWN = frozenset({"float32", "float64", "float16", "bfloat16", "complex64", "complex128"})  # `torch.randn` draws them


def replace_inputs(source: str, specs: Sequence[InputSpec]) -> str:
    """The reference with a `get_inputs` that draws what `specs` say.

    Raises:
        ValueError: it has no function of that name on top level, or more than one.
    """
    found = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == "get_inputs"]
    if len(found) != 1 or found[0].end_lineno is None:
        raise ValueError("the reference does not define get_inputs once")
    lines = source.split("\n")
    return "\n".join([*lines[: found[0].lineno - 1], write_inputs(specs), *lines[found[0].end_lineno :]])


def write_inputs(specs: Sequence[InputSpec]) -> str:
    """The function `get_inputs`, which draws what `specs` say."""
    items = [write_value(spec) for spec in specs]
    line = f"    return [{', '.join(items)}]"
    if len(line) <= _LINE:
        return f"def get_inputs():\n{line}"
    rows = "".join(f"        {item},\n" for item in items)
    return f"def get_inputs():\n    return [\n{rows}    ]"


def write_value(spec: InputSpec) -> str:
    """One argument as an expression."""
    if spec.kind == "literal":
        infinite = spec.literal.strip("-+") in ("inf", "nan")
        return f'float("{spec.literal}")' if infinite else spec.literal
    shape = f"({', '.join(map(str, spec.shape))}{',' if len(spec.shape) == 1 else ''})"
    if spec.kind == "bool":
        return f"torch.rand({_sizes(spec)}) < 0.5"
    low, high = math.ceil(spec.low), math.ceil(spec.high)
    if spec.kind == "integers":
        return f"torch.randint({low}, {high}, {shape}{_dtype(spec, 'int64')})"
    if spec.kind == "choice":
        count = len(ast.literal_eval(spec.literal))
        return f"torch.tensor({spec.literal}{_dtype(spec, '')})[torch.randint({count}, {shape})]"
    if spec.kind in ("normal", "uniform"):
        return _structured(spec, _cast(spec, _real_values(spec)))
    return _cast(spec, _ordered_values(spec, math.prod(spec.shape), low, high), natural="int64")


def _real_values(spec: InputSpec) -> str:
    shape = _sizes(spec)
    dtype = _dtype(spec, "float32") if spec.dtype in _DRAWN else ""
    if spec.kind == "normal":
        mean, deviation = moments(spec)
        scaled = f"torch.randn({shape}{dtype})" + (f" * {deviation!r}" if deviation != 1.0 else "")
        return f"({scaled} + {mean!r})" if mean else f"({scaled})" if deviation != 1.0 else scaled
    if (spec.low, spec.high) == (0.0, 1.0):
        return f"torch.rand({shape}{dtype})"
    return f"torch.empty({shape}{dtype}).uniform_({spec.low!r}, {spec.high!r})"


def _ordered_values(spec: InputSpec, count: int, low: int, high: int) -> str:
    """A permutation, or integers that rise from `low` to `high` - 1."""
    if spec.kind == "permutation":
        return f"torch.randperm({count})" + (f" + {low}" if low else "")
    if spec.kind == "segments":
        return f"torch.randint({low}, {high}, ({count},)).sort().values"
    rising = f"torch.arange({count}) * {max(high - 1 - low, 0)} // {max(count - 1, 1)}"
    return f"{rising} + {low}" if low else rising


def _structured(spec: InputSpec, values: str) -> str:
    """Matrices with the structure that the spec promises: see `matrix_structure.with_structure`."""
    if spec.literal in ("upper", "lower"):
        return f"{values}.{'triu' if spec.literal == 'upper' else 'tril'}()"
    if spec.literal == "diagonal":
        return f"{values}.triu().tril()"
    if spec.literal == "symmetric" and spec.shape[-1] == spec.shape[-2]:
        return f"(matrices := {values}).triu() + matrices.triu(1).mT"
    return values


def _cast(spec: InputSpec, values: str, natural: str = "") -> str:
    """`values` in the spec's dtype, where they were not drawn in it."""
    if spec.dtype == natural or (not natural and spec.dtype in _DRAWN):
        return values
    return f"{values}.to(torch.{spec.dtype})" if values.endswith(")") else f"({values}).to(torch.{spec.dtype})"


def _sizes(spec: InputSpec) -> str:
    return ", ".join(map(str, spec.shape)) or "()"


def _dtype(spec: InputSpec, default: str) -> str:
    return "" if spec.dtype == default else f", dtype=torch.{spec.dtype}"
