"""Unit tests for kernels of a task: what the compiler teacher writes from the traces, and what a reply holds."""

import ast
import math
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
_TOLERANCES = {"float16": 4e-3, "bfloat16": 2e-2}
_SLACK, _FUNCTIONS = 8, 8  # times the typical error of a sum; units that functions in a row may lose
_PRODUCTS = re.compile(r".*(mm|conv|linear|mv|bilinear|attention|dot|cdist|einsum|matmul).*")
_SUMS = re.compile(
    r".*(mm|conv|linear|mv|bilinear|trilinear|attention|sum|mean|norm|loss|pool|var|std|prod|dot|cdist|pdist|fft|rnn|"
    r"einsum|bag|scatter|index_add|index_put|col2im|entropy|lstm|gru|matmul|det|inv|pow).*"
)
_SEVERAL_BLOCKS, _WARP = 1024, 32  # elements: more than one block can have, and no whole number of warps
_BLOCK = re.compile(r"^[ \t]*```[^`\n]*\n(.*?)^[ \t]*```[ \t]*$", re.MULTILINE | re.DOTALL)


def write_unit_test(task: Task, traces: Sequence[Trace]) -> str:
    """A test on some sets of input shapes, and on inputs with other strides.

    Values at which single operators go wrong (zeros, bounds, NaN, large ones) are the verifier's: tests on them caught
    no wrong program that these do not.
    """
    sets = _choose_sets(list(dict.fromkeys(trace.inputs for trace in traces)) or [task.inputs])
    draws = [write_inputs(specs).replace("get_inputs", f"draw_inputs_{number}") for number, specs in enumerate(sets, 1)]
    tests = [_compare(number, specs) for number, specs in enumerate(sets, 1)]
    called = list(dict.fromkeys((traces[0].operators if traces else ()) or task.operators))  # as the prompt names them
    tolerance, why = _tolerance(called, traces)
    shown = ", ".join(f"`{operator}`" for operator in called[:6])
    return _template().substitute(
        operators=shown + (" and more" if len(called) > 6 else ""),
        tolerance=f"{tolerance:.2g}  # {why}",
        draws="\n\n\n".join(draws),
        tests="".join(f"{test}\n\n\n" for test in tests),
    )


def _choose_sets(sets: Sequence[tuple[InputSpec, ...]]) -> list[tuple[InputSpec, ...]]:
    """Two sets in which sizes differ, and between them those with the longest axes: what is wrong from the second tile
    or block on shows with these alone. One of all takes several blocks, of which the last is partly filled."""
    first, *others = sorted(sets, key=_equal_sizes)
    long = sorted(others[1:], key=_longest, reverse=True)[:_MOST_LONG]
    chosen = [first, *long, *others[:1]]
    if not any(map(_fills_no_block, chosen)):
        chosen[1:1] = list(filter(_fills_no_block, others))[:1]
    return chosen


def _fills_no_block(specs: Sequence[InputSpec]) -> bool:
    counts = [math.prod(spec.shape) for spec in specs]
    return any(count > _SEVERAL_BLOCKS and count % _WARP for count in counts)


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


def _equal_sizes(specs: Sequence[InputSpec]) -> int:
    """How many axes have the size of another one of the same tensor: a test that mistakes these sees no difference."""
    sides = [[side for side in spec.shape if side > 1] for spec in specs if spec.kind != "literal"]
    return sum(len(some) - len(set(some)) for some in sides)


def _tolerance(operators: Sequence[str], traces: Sequence[Trace]) -> tuple[float, str]:
    """How far a right program may be off, relative to the largest value, and why: by the shortest float among the
    tensors, and for longer ones by the number of terms that one result adds up."""
    names = [operator.split(".")[1] for operator in operators if operator.count(".")]
    if names and all(_MOVES.fullmatch(name) for name in names):
        return 0.0, "elements are only moved, so that results are equal"
    dtypes = {fact.dtype for trace in traces for fact in trace.tensors}
    if short := dtypes & _TOLERANCES.keys():
        return max(_TOLERANCES[dtype] for dtype in short), "relative to the largest value: rounding of the dtype"
    terms = max((_terms(trace) for trace in traces), default=1)
    unit = 2.0**-24 if "float32" in dtypes or "float64" not in dtypes else 2.0**-45
    roundings = f"sums of up to {terms} terms in another order" if terms > 1 else "the last bits may differ"
    return _SLACK * (math.sqrt(terms) + _FUNCTIONS) * unit, f"relative to the largest value: {roundings}"


def _terms(trace: Trace) -> int:
    """The most values that one of a tensor's elements is made from."""
    known = {fact.name: fact for fact in trace.tensors}
    most = 1
    for fact in trace.tensors:
        given = [known[name] for name in fact.operands if name in known]
        name, made = fact.operator.partition(".")[2].partition(".")[0], max(1, math.prod(fact.shape))
        if _PRODUCTS.fullmatch(name) and len(given) > 1:  # a row of one by a column of the other
            shapes = sorted((math.prod(one.shape) for one in given), reverse=True)
            most = max(most, math.isqrt(shapes[0] * shapes[1] // made))
        elif _SUMS.fullmatch(name):
            most = max([most, *(math.prod(one.shape) // made for one in given)])
    return most


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
