"""Unit tests for kernels of a task: what the compiler teacher writes from the traces, and what a reply holds."""

import ast
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from string import Template

from musadata.records import InputSpec, Task, Trace
from musadata.syntax import parse
from musadata.tasks.sizing.inputs_text import write_inputs
from musadata.teacher.prompts import TEMPLATES_VERSION

_MOST_LONG = 2  # sets of input shapes with a long axis that a test draws beside two others
_MOVES = re.compile(
    r"_?(t|view|_unsafe_view|unsafe_view|reshape|transpose|permute|squeeze|unsqueeze|expand|flip|roll|tril|triu|slice|select|"
    r"constant_pad_nd|(reflection|replication)_pad\dd|split(_with_sizes)?|unbind|stack|cat|clone|contiguous|detach|alias|"
    r"chunk|narrow|pixel_(un)?shuffle|channel_shuffle|gather|index_select|embedding|repeat|diagonal|unfold|as_strided|"
    r"movedim|swapaxes|rot90|broadcast_to|where|masked_fill|copy|lift_fresh_copy|new_empty|empty|new_zeros|zeros)_?"
)
_TOLERANCES = {"float16": 1e-2, "bfloat16": 5e-2, "float64": 1e-6}
_TOLERANCE = 1e-4  # a quarter of what an operand in TF32 differs by
_ELEMENTWISE_TOLERANCE = 1e-5  # where nothing long is added up: roundings of a few functions in a row
# Operators of whose result a wrong start, such as 0 for a maximum, shows with values on one side of zero alone.
_SIGNED = re.compile(
    r"max|min|relu|sigmoid|softmax|elu|gelu|silu|abs|sign|clamp|where|hardtanh|softplus|norm|logsumexp"
)
# Operators that have formulas which are right for small values alone; and those, with them, beside which values a
# hundred times as large are as exact. Sums of products and functions that turn quickly are not.
_OVERFLOWS = re.compile(r"log_?softmax|softmax|logsumexp|.*with_logits|softplus|gelu|pow")
_EXPONENTIALS = re.compile(r"softmax|logsumexp|with_logits|softplus|sigmoid|tanh|elu|gelu|exp")
_EXACT = re.compile(
    r"_?(sigmoid|tanh|relu|elu|leaky_relu|hardtanh|clamp|clamp_min|neg|abs|where|rms_norm|add|sub|mul|div|mean|sum|a?max|"
    r"a?min|(avg|max)_pool\dd(_with_indices)?|t|view|unsafe_view|reshape|transpose|permute|squeeze|unsqueeze|expand|flip|"
    r"roll|tril|triu|slice|select|constant_pad_nd|split(_with_sizes)?|unbind|stack|cat|clone|detach|alias)_?"
)
# What gives finite and exact results far from 0 as well: of these the maximum, or a part of it, is taken away.
_MAY_LIE_FAR = re.compile(r"log_?softmax|softmax|safe_softmax|logsumexp")
_FINITE = re.compile(r"exp|sqrt|rsqrt|log|log1p|reciprocal|rsub|gelu|silu|maximum|minimum|cos|sin|erf|mul|sub")
_ATTENTION = re.compile(r"scaled_dot_product_\w+")
_SUMS = re.compile(
    r".*(mm|conv|linear|mv|bilinear|trilinear|attention|sum|mean|norm|loss|pool|var|std|prod|dot|cdist|pdist|fft|rnn|"
    r"einsum|bag|scatter|index_add|index_put|col2im|entropy|lstm|gru|matmul|det|inv|pow).*"
)
_LARGE = 100.0
# Operators that take another branch at 0, at 0 and 1, or for a row of zeros, and those whose choice among equal values
# is not part of what a module promises.
_BRANCHES = re.compile(r"relu|abs|sign|sgn|elu|clamp|hard|shrink|threshold|maximum|minimum|norm|xlogy|log_sigmoid")
_LOGARITHMS = re.compile(r"binary_cross_entropy(?!_with)|xlogy|logit")
_CHOOSES = re.compile(r"arg|topk|sort|indices|median|mode|cummax|cummin|(^|\.)(max|min)\.dim")
_BLOCK = re.compile(r"^[ \t]*```[^`\n]*\n(.*?)^[ \t]*```[ \t]*$", re.MULTILINE | re.DOTALL)


def write_unit_test(task: Task, traces: Sequence[Trace]) -> str:
    """A test on every set of input shapes, on values below zero and large ones where they matter, and on inputs with
    other strides."""
    sets = _choose_sets(list(dict.fromkeys(trace.inputs for trace in traces)) or [task.inputs])
    draws = [write_inputs(specs).replace("get_inputs", f"draw_inputs_{number}") for number, specs in enumerate(sets, 1)]
    tests = [_compare(number, specs) for number, specs in enumerate(sets, 1)]
    normal = [index for index, spec in enumerate(sets[-1]) if spec.kind == "normal" and "complex" not in spec.dtype]
    if normal and any(_SIGNED.search(operator) for operator in task.operators):
        tests.append(_below_zero(len(sets), normal))
    if changes := _branch_values(task.operators, sets[-1], normal):
        tests.append(_at_branches(len(sets), changes))
    wide = [index for index in normal if sets[-1][index].dtype in ("float32", "float64")]
    if wide and wide == normal and _tells_overflow(task.operators):
        tests.append(_large(len(sets), wide, task.operators))
    elif wide and wide == normal and (shift := _shift(task.operators, sets[-1])):
        tests.append(_far_from_zero(len(sets), wide, shift))
    called = list(dict.fromkeys((traces[0].operators if traces else ()) or task.operators))  # as the prompt names them
    shown = ", ".join(f"`{operator}`" for operator in called[:6])
    return _template().substitute(
        operators=shown + (" and more" if len(called) > 6 else ""),
        tolerance=_tolerance_line(called, traces),
        draws="\n\n\n".join(draws),
        tests="".join(f"{test}\n\n\n" for test in tests),
    )


def _choose_sets(sets: Sequence[tuple[InputSpec, ...]]) -> list[tuple[InputSpec, ...]]:
    """Two sets in which sizes differ, and between them those with the longest axes: what is wrong from the second tile
    or block on shows with these alone."""
    first, *others = sorted(sets, key=_equal_sizes)
    long = sorted(others[1:], key=_longest, reverse=True)[:_MOST_LONG]
    return [first, *long, *others[:1]]


def _longest(specs: Sequence[InputSpec]) -> int:
    return max((side for spec in specs for side in spec.shape), default=0)


def _compare(number: int, specs: Sequence[InputSpec]) -> str:
    shapes = ", ".join(f"{spec.name} {spec.shape}" for spec in specs if spec.kind != "literal")
    return (
        f"def test_shapes_{number}(reference, candidate):\n"
        f'    """{shapes[:90]}"""\n'
        f"    inputs = draw_inputs_{number}()\n"
        "    assert_near(candidate(*inputs), reference(*inputs))"
    )


def _below_zero(number: int, places: Sequence[int]) -> str:
    """`places`: of the inputs whose values have no bounds."""
    changes = "".join(f"    inputs[{place}] = -inputs[{place}].abs() - 0.25\n" for place in places)
    return (
        "def test_values_below_zero(reference, candidate):\n"
        f"    inputs = draw_inputs_{number}()\n{changes}"
        "    assert_near(candidate(*inputs), reference(*inputs))"
    )


def _branch_values(operators: Sequence[str], specs: Sequence[InputSpec], normal: Sequence[int]) -> list[str]:
    """Statements that put values into inputs at which an operator takes another branch; none where it has none."""
    if any(_CHOOSES.search(operator) for operator in operators):
        return []
    if any(_LOGARITHMS.search(operator) for operator in operators):
        unit = [i for i, one in enumerate(specs) if one.kind == "uniform" and (one.low, one.high) == (0.0, 1.0)]
        return [f"inputs[{place}][..., {at}::3] = {at}.0" for place in unit if specs[place].shape for at in (0, 1)]
    if not any(_BRANCHES.search(operator) for operator in operators):
        return []
    changes = []
    for place in normal:
        if len(specs[place].shape) > 1:
            changes += [f"inputs[{place}][..., ::3] = 0.0", f"inputs[{place}][:1] = 0.0"]
    return changes


def _at_branches(number: int, changes: Sequence[str]) -> str:
    body = "".join(f"    {change}\n" for change in changes)
    ones = any(change.endswith("1.0") for change in changes)
    told = "Predictions of exactly 0 and 1." if ones else "Zeros among the values, and a first row of nothing else."
    return (
        "def test_values_at_branches(reference, candidate):\n"
        f'    """{told}"""\n'
        f"    inputs = draw_inputs_{number}()\n{body}"
        "    assert_near(candidate(*inputs), reference(*inputs))"
    )


def _tells_overflow(operators: Sequence[str]) -> bool:
    """Whether large values show a wrong formula, and give the reference itself finite and exact results."""
    names = [operator.split(".")[1].strip("_") for operator in operators]
    told = [_OVERFLOWS.fullmatch(name) for name in names]
    return any(told) and all(one or _EXACT.fullmatch(name) for one, name in zip(told, names, strict=True))


def _shift(operators: Sequence[str], specs: Sequence[InputSpec]) -> float:
    """What to add to all inputs so that exponentials overflow unless a maximum is taken away before; 0 if that tells
    nothing, or the reference is not exact there."""
    names = [operator.split(".")[1].strip("_") for operator in operators]
    if any(map(_ATTENTION.fullmatch, names)):
        others = [name for name in names if not _ATTENTION.fullmatch(name)]
        depth = specs[0].shape[-1] if specs and specs[0].shape else 0
        # Scores are about shift² · depth / √depth, which is to be 144.
        return round(12 / depth**0.25, 2) if depth > 1 and all(map(_MOVES.fullmatch, others)) else 0.0
    known = (_MAY_LIE_FAR, _FINITE, _EXACT, _OVERFLOWS)
    exact = all(any(kind.fullmatch(name) for kind in known) for name in names)
    return _LARGE if exact and any(map(_MAY_LIE_FAR.fullmatch, names)) else 0.0


def _far_from_zero(number: int, places: Sequence[int], shift: float) -> str:
    changes = "".join(f"    inputs[{place}] = inputs[{place}] + {shift}\n" for place in places)
    return (
        "def test_exponentials_that_overflow(reference, candidate):\n"
        '    """Without the maximum taken away, exponents are about 100 or more: exp(100) is infinite in float32."""\n'
        f"    inputs = draw_inputs_{number}()\n{changes}"
        "    assert_near(candidate(*inputs), reference(*inputs))"
    )


def _large(number: int, places: Sequence[int], operators: Sequence[str]) -> str:
    exponential = any(_EXPONENTIALS.search(operator) for operator in operators)
    told = "exp(100) is no longer finite in float32." if exponential else "Values a hundred times as large."
    changes = "".join(f"    inputs[{place}] = inputs[{place}] * {_LARGE}\n" for place in places)
    return (
        "def test_large_values(reference, candidate):\n"
        f'    """{told}"""\n'
        f"    inputs = draw_inputs_{number}()\n{changes}"
        "    assert_near(candidate(*inputs), reference(*inputs))"
    )


def _equal_sizes(specs: Sequence[InputSpec]) -> int:
    """How many axes have the size of another one of the same tensor: a test that mistakes these sees no difference."""
    sides = [[side for side in spec.shape if side > 1] for spec in specs if spec.kind != "literal"]
    return sum(len(some) - len(set(some)) for some in sides)


def _tolerance_line(operators: Sequence[str], traces: Sequence[Trace]) -> str:
    names = [operator.split(".")[1] for operator in operators if operator.count(".")]
    if names and all(_MOVES.fullmatch(name) for name in names):
        return "0.0  # elements are only moved, so that results are equal"
    tolerance = _tolerance(traces)
    long_sums = [name for name in names if _SUMS.fullmatch(name) and not _MAY_LIE_FAR.fullmatch(name.strip("_"))]
    if tolerance == _TOLERANCE and names and not long_sums:
        return f"{_ELEMENTWISE_TOLERANCE}  # relative to the largest value: functions round otherwise in the last bits"
    return f"{tolerance}  # relative to the largest value: another order of additions rounds otherwise"


def _tolerance(traces: Sequence[Trace]) -> float:
    """By the shortest float among the tensors."""
    dtypes = {fact.dtype for trace in traces for fact in trace.tensors}
    if dtypes & {"float16", "bfloat16"}:
        return max(_TOLERANCES[dtype] for dtype in dtypes & {"float16", "bfloat16"})
    return _TOLERANCE if "float32" in dtypes or "float64" not in dtypes else _TOLERANCES["float64"]


def read_unit_test(reply: str) -> str:
    """The test in a reply: its last block of Python that defines a function `test_…`; "" if there is none."""
    for source in reversed([*_BLOCK.findall(reply), *([] if "```" in reply else [reply])]):
        if list_functions(source):
            return str(source)
    return ""


def list_functions(source: str) -> tuple[str, ...]:
    """The names of a test's functions; none where it is no Python."""
    try:
        body = parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    return tuple(one.name for one in body if isinstance(one, ast.FunctionDef) and one.name.startswith("test_"))


@cache
def _template() -> Template:
    return Template((Path(__file__).parent / "templates" / TEMPLATES_VERSION / "unit_test.txt").read_text("utf-8"))
