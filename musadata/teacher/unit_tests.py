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

_MOST_SETS = 3  # of input shapes that a test draws
_MOVES = re.compile(
    r"_?(t|view|_unsafe_view|unsafe_view|reshape|transpose|permute|squeeze|unsqueeze|expand|flip|roll|tril|triu|slice|select|"
    r"constant_pad_nd|(reflection|replication)_pad\dd|split(_with_sizes)?|unbind|stack|cat|clone|contiguous|detach|alias|"
    r"chunk|narrow|pixel_(un)?shuffle|channel_shuffle|gather|index_select|embedding|repeat|diagonal|unfold|as_strided|"
    r"movedim|swapaxes|rot90|broadcast_to|where|masked_fill|copy|lift_fresh_copy|new_empty|empty|new_zeros|zeros)_?"
)
_TOLERANCES = {"float16": 1e-2, "bfloat16": 5e-2, "float64": 1e-6}
_TOLERANCE = 1e-4  # a quarter of what an operand in TF32 differs by
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
_LARGE = 100.0
_BLOCK = re.compile(r"^[ \t]*```[^`\n]*\n(.*?)^[ \t]*```[ \t]*$", re.MULTILINE | re.DOTALL)


def write_unit_test(task: Task, traces: Sequence[Trace]) -> str:
    """A test on every set of input shapes, on values below zero and large ones where they matter, and on inputs with
    other strides."""
    sets = sorted(dict.fromkeys(trace.inputs for trace in traces), key=_equal_sizes)[:_MOST_SETS] or [task.inputs]
    draws = [write_inputs(specs).replace("get_inputs", f"draw_inputs_{number}") for number, specs in enumerate(sets, 1)]
    tests = [_compare(number, specs) for number, specs in enumerate(sets, 1)]
    normal = [index for index, spec in enumerate(sets[-1]) if spec.kind == "normal" and "complex" not in spec.dtype]
    if normal and any(_SIGNED.search(operator) for operator in task.operators):
        tests.append(_below_zero(len(sets), normal))
    wide = [index for index in normal if sets[-1][index].dtype in ("float32", "float64")]
    if wide and wide == normal and _tells_overflow(task.operators):
        tests.append(_large(len(sets), wide, task.operators))
    called = list(dict.fromkeys((traces[0].operators if traces else ()) or task.operators))  # as the prompt names them
    shown = ", ".join(f"`{operator}`" for operator in called[:6])
    return _template().substitute(
        operators=shown + (" and more" if len(called) > 6 else ""),
        tolerance=_tolerance_line(called, traces),
        draws="\n\n\n".join(draws),
        tests="".join(f"{test}\n\n\n" for test in tests),
    )


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


def _tells_overflow(operators: Sequence[str]) -> bool:
    """Whether large values show a wrong formula, and give the reference itself finite and exact results."""
    names = [operator.split(".")[1].strip("_") for operator in operators]
    told = [_OVERFLOWS.fullmatch(name) for name in names]
    return any(told) and all(one or _EXACT.fullmatch(name) for one, name in zip(told, names, strict=True))


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
    return f"{_tolerance(traces)}  # relative to the largest value: another order of additions rounds otherwise"


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
