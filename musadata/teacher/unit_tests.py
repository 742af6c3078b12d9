"""Unit tests for kernels of a task: what the compiler teacher writes from the traces, and what a reply holds."""

import ast
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
_HALF_UNIT = 2.0**-12  # by which half precision rounds at the most, relatively
_MAXIMA = re.compile(r"\.(_?(log_?)?softmax|logsumexp|a?max|max_pool\dd_with_indices|cummax)\.(?!other)")
_PRODUCTS = re.compile(r".*(mm|conv|linear|mv|bilinear|attention|dot|cdist|einsum|matmul).*")
_NORMS = re.compile(r"norm|var|std|cosine")
# Operators whose formula has an epsilon or a threshold which ordinary values hide.
_EPSILONS = re.compile(r"norm|var|std|rsqrt|smooth_l1|huber|softshrink|hardshrink|cosine")
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
# Operators that compare an input with numbers among their arguments; and those that compare the distance of two inputs.
_STEPS = re.compile(
    r"\.(clamp|hardtanh|threshold|softshrink|hardshrink|softplus|hardsigmoid|hardswish|smooth_l1|huber|[lg][te]\.Scalar)"
)
_DEFAULTS = {
    "softshrink": (0.5,),
    "hardshrink": (0.5,),
    "softplus": (20.0,),
    "hardsigmoid": (-3.0, 3.0),
    "hardswish": (-3.0, 3.0),
    "hardtanh": (-1.0, 1.0),
    "smooth_l1": (1.0,),
    "huber": (1.0,),
}
_BOUNDS = re.compile(r"\b(?:min|max|min_val|max_val|threshold|lambd|other|beta|delta)=(-?\d[\d.e+-]*)")
_DISTANCES = re.compile(r"smooth_l1|huber")
# Operators that give NaN and infinities on as far as they reach.
_PASSES = re.compile(
    r"_?(relu|elu|leaky_relu|hardtanh|clamp|clamp_min|clamp_max|neg|abs|add|sub|mul|div|exp|sigmoid|tanh|sqrt|sum|mean|a?max|"
    r"a?min|t|view|unsafe_view|reshape|transpose|permute|squeeze|unsqueeze|expand|clone|log_?softmax|softmax|softplus|silu|"
    r"mish|gelu|log_sigmoid_forward|mse_loss|smooth_l1_loss|huber_loss|rsub|threshold|hardshrink|softshrink)_?"
)
# What holds for all results of an operator, as a condition on `got`.
_PROMISES = (
    (re.compile(r"\._softmax|\.sigmoid|\.hardsigmoid"), "((got >= 0) & (got <= 1)).all()"),
    (re.compile(r"\.relu6?_?\.|\.abs|\.exp\.|\.softplus|smooth_l1|huber|mse_loss"), "(got >= 0).all()"),
    (re.compile(r"\.tanh|cosine_similarity"), "(got.abs() <= 1 + TOLERANCE).all()"),
    (re.compile(r"log_softmax|log_sigmoid"), "(got <= 0).all()"),
)
_SEVERAL_BLOCKS, _WARP = 1024, 32  # elements: more than one block can have, and no whole number of warps
_BLOCK = re.compile(r"^[ \t]*```[^`\n]*\n(.*?)^[ \t]*```[ \t]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class _Case:
    """A test on changed inputs: `told` says what is special in them, `changes` are statements on `inputs`."""

    name: str
    told: str
    changes: tuple[str, ...]

    def write(self, number: int) -> str:
        body = "".join(f"    {change}\n" for change in self.changes)
        return (
            f"def test_{self.name}(reference, candidate):\n"
            f'    """{self.told}"""\n'
            f"    inputs = draw_inputs_{number}()\n{body}"
            "    assert_near(candidate(*inputs), reference(*inputs))"
        )


def write_unit_test(task: Task, traces: Sequence[Trace]) -> str:
    """A test on every set of input shapes, on the values at which this module's operators go wrong, and on inputs with
    other strides."""
    sets = _choose_sets(list(dict.fromkeys(trace.inputs for trace in traces)) or [task.inputs])
    draws = [write_inputs(specs).replace("get_inputs", f"draw_inputs_{number}") for number, specs in enumerate(sets, 1)]
    promise = _promise(traces)
    tests = [_compare(number, specs, promise) for number, specs in enumerate(sets, 1)]
    called = list(dict.fromkeys((traces[0].operators if traces else ()) or task.operators))  # as the prompt names them
    tolerance, why = _tolerance(called, traces)
    tests += [case.write(len(sets)) for case in _cases(task.operators, traces, sets[-1], tolerance)]
    shown = ", ".join(f"`{operator}`" for operator in called[:6])
    return _template().substitute(
        operators=shown + (" and more" if len(called) > 6 else ""),
        tolerance=f"{tolerance:.2g}  # {why}",
        draws="\n\n\n".join(draws),
        tests="".join(f"{test}\n\n\n" for test in tests),
    )


def _cases(
    operators: Sequence[str], traces: Sequence[Trace], specs: Sequence[InputSpec], tolerance: float
) -> Iterator[_Case]:
    normal = [index for index, spec in enumerate(specs) if spec.kind == "normal" and "complex" not in spec.dtype]

    wide = [index for index in normal if specs[index].dtype in ("float32", "float64")]

    def change(text: str, places: Sequence[int] = normal) -> tuple[str, ...]:
        return tuple(f"inputs[{place}] = {text.format(f'inputs[{place}]')}" for place in places)

    if normal and any(_SIGNED.search(operator) for operator in operators):
        maximum = any(_MAXIMA.search(operator) for operator in operators)
        told = "A maximum that starts from 0 is wrong here." if maximum else "Values below zero alone."
        yield _Case("values_below_zero", told, change("-{}.abs() - 0.25"))
    if changes := _branch_values(operators, specs, normal):
        ones = any(one.endswith("1.0") for one in changes)
        zeros = "Zeros among the values, and a first row of nothing else."
        yield _Case("values_at_branches", "Predictions of exactly 0 and 1." if ones else zeros, tuple(changes))
    if changes := _beside_bounds(traces, specs, normal):
        yield _Case("values_at_and_beside_bounds", "Each bound of the formula, and its two neighbours.", tuple(changes))
    if wide == normal and (changes := _extremes(operators, specs, normal)):
        yield _Case("infinities_and_nan", "They come out as of the module: a NaN stays one.", tuple(changes))
    if changes := _ignored(traces, specs):
        yield _Case("ignored_targets", "These count neither in the sum nor in its divisor.", tuple(changes))
    if not wide or wide != normal:
        return
    if _tells_overflow(operators):
        exponential = any(_EXPONENTIALS.search(operator) for operator in operators)
        told = "exp(100) is no longer finite in float32." if exponential else "Values a hundred times as large."
        yield _Case("large_values", told, change(f"{{}} * {_LARGE}"))
    elif shift := _shift(operators, specs):
        told = "Without the maximum taken away, exponents are about 100 or more: exp(100) is infinite in float32."
        yield _Case("exponentials_that_overflow", told, change(f"{{}} + {shift}"))
    if any(_EPSILONS.search(operator) for operator in operators):
        told = "Squares of about 1e-6, beside which an epsilon or a threshold of the formula shows."
        yield _Case("small_values", told, change("{} * 1e-3"))
    scaled = not any(_NORMS.search(operator) for operator in operators)  # else a common factor cancels
    if scaled and 0.0 < tolerance < _HALF_UNIT and all(specs[index].dtype == "float32" for index in wide):
        told = "Half precision and TF32 round all of these the same way, by 2^-12."
        yield _Case("values_that_half_precision_rounds", told, change("{}.half().float() * (1 + 2**-12)"))


def _ignored(traces: Sequence[Trace], specs: Sequence[InputSpec]) -> list[str]:
    """Statements that make every third class one that the loss ignores; none without such a loss."""
    arguments = " ".join(fact.arguments for trace in traces[:1] for fact in trace.tensors)
    found = re.search(r"ignore_index=(-\d+)", arguments)
    classes = [i for i, one in enumerate(specs) if one.kind == "integers" and one.dtype == "int64" and one.shape]
    return [f"inputs[{place}].view(-1)[::3] = {found[1]}" for place in classes] if found else []


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


def _compare(number: int, specs: Sequence[InputSpec], promise: str) -> str:
    shapes = ", ".join(f"{spec.name} {spec.shape}" for spec in specs if spec.kind != "literal")
    promised = f"\n    assert {promise}" if promise else ""
    return (
        f"def test_shapes_{number}(reference, candidate):\n"
        f'    """{shapes[:90]}"""\n'
        f"    inputs = draw_inputs_{number}()\n"
        "    got = candidate(*inputs)\n"
        f"    assert_near(got, reference(*inputs)){promised}"
    )


def _promise(traces: Sequence[Trace]) -> str:
    """What holds for every result of the module, whatever the inputs are; "" where nothing is known."""
    made = [fact for trace in traces[:1] for fact in trace.tensors if fact.role == "output"]
    return next((text for operator, text in _PROMISES if len(made) == 1 and operator.search(made[0].operator)), "")


def _beside_bounds(traces: Sequence[Trace], specs: Sequence[InputSpec], normal: Sequence[int]) -> list[str]:
    """Statements that put the numbers with which operators compare an input into it, and the next values on both sides
    of each; none where no operator does, or where an input is too small for that."""
    places = {specs[index].name: index for index in normal}
    changes: list[str] = []
    for fact in (fact for trace in traces[:1] for fact in trace.tensors):
        step = _STEPS.search(fact.operator)
        given = [places[name] for name in fact.operands if name in places] if step else []
        told = _BOUNDS.findall(fact.arguments) or (_DEFAULTS.get(step[1], ()) if step else ())
        bounds = sorted({float(one) for one in told})
        count = 3 * len(bounds)
        if not bounds or not given or math.prod(specs[given[0]].shape) < count:
            continue
        apart = len(given) > 1 and _DISTANCES.search(fact.operator)
        start = f"inputs[{given[1]}].reshape(-1)[:{count}] + " if apart else ""
        changes += [
            f"bounds = torch.tensor({bounds}, dtype=inputs[{given[0]}].dtype)",
            "edges = torch.cat([bounds, bounds.nextafter(bounds - 1), bounds.nextafter(bounds + 1)])",
            f"inputs[{given[0]}].view(-1)[:{count}] = {start}edges",
        ]
    return changes


def _extremes(operators: Sequence[str], specs: Sequence[InputSpec], normal: Sequence[int]) -> list[str]:
    """Statements that put NaN and infinities into the first input, where all operators give them on."""
    names = [operator.split(".")[1] for operator in operators if operator.count(".")]
    if not names or not normal or not all(map(_PASSES.fullmatch, names)) or math.prod(specs[normal[0]].shape) < 8:
        return []
    values = 'torch.tensor([float("inf"), -float("inf"), float("nan")])'
    return [f"inputs[{normal[0]}].view(-1)[[1, 3, 6]] = {values}"]


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
