"""Step 6: likely mistakes in this kernel, and how each would show."""

import re

from musadata.teacher.reasoning.boundaries import block_size
from musadata.teacher.reasoning.kernel_plan import KNOWLEDGE, SCATTERS, Call, CallKind, Stage, count
from musadata.teacher.reasoning.mathematics import formula_of
from musadata.teacher.reasoning.task_analysis import TaskAnalysis, group_row, row_of, shape_text, unique

_HAZARDS: dict[str, str] = KNOWLEDGE["hazards"]
_MOST = 7


def write_pitfalls(analysis: TaskAnalysis) -> str:
    found = [_missing_guard(analysis)]
    for stage, _ in analysis.distinct:
        found += [text for call in stage.calls for text in _of_call(call)]
        found += _of_stage(stage)
    found += _of_task(analysis)
    if not any(found):
        found = _of_output(analysis)
    return "\n".join(f"- {text}" for text in unique([text for text in found if text])[:_MOST])


def _of_output(analysis: TaskAnalysis) -> list[str]:
    """Mistakes that any output of this kind allows, where nothing about the operators is known."""
    if count(analysis.outputs[0]) == 1:
        return [
            "Every term ends in one number: threads that add to it without an atomic or a tree lose updates.",
            "The accumulator must start from 0: fresh memory holds what was there before, often 0 by chance.",
        ]
    return ["Fresh memory is not 0: an element that no thread writes keeps what was there, right by chance."]


def _missing_guard(analysis: TaskAnalysis) -> str:
    stage = analysis.distinct[0][0] if analysis.distinct else None
    if stage is not None and stage.anchor is not None and stage.anchor.kind is not CallKind.CONVOLUTION:
        return ""
    total = count(stage.output if stage else analysis.outputs[0])
    block = block_size(total)
    over = -(-total // block) * block - total
    if over:
        threads = f"{-(-total // block)} × {block}" if total > block else str(block)
        return (
            f"Without the guard, {threads} − {total} = {over} threads write behind the output. The "
            "values still compare equal, and only a checker of memory or a crash elsewhere shows it."
        )
    other = count(next(fact for fact in analysis.other.tensors if fact.role == "output"))
    if other % block:
        return f"A missing guard goes unnoticed at {total} elements and shows only on the second set, with {other}."
    return ""


def _of_call(call: Call) -> list[str]:
    found = []
    hazard = _HAZARDS.get(call.packet)
    if call.packet == "gelu" and "tanh" in call.argument("approximate"):
        hazard = "the reference uses the tanh formula; the exact `erf` differs by up to 4.7e-4, more than the tolerance"
    if call.packet == "pow" and call.argument("exponent") in ("2", "2.0"):
        hazard = "`powf(x, 2.0f)` is slow, and may be off by more than the one rounding of x·x: multiply"
    if hazard and call.kind is CallKind.ELEMENTWISE:
        found.append(f"`{call.operator}`: {hazard}.")
    if call.kind is CallKind.ELEMENTWISE:
        found += _broadcast(call)
    return found + _WRITERS.get(call.kind, lambda _: [])(call)


def _broadcast(call: Call) -> list[str]:
    out = call.output
    for fact in call.operands:
        if 1 < count(fact) < count(out) and out.shape:
            wrong = "the first axis" if fact.shape[-1:] == out.shape[-1:] else "the last axis"
            return [
                f"`{fact.name}` {shape_text(fact.shape)} broadcasts against {shape_text(out.shape)}: indexing "
                f"it by {wrong} "
                "or by `i` itself reads the wrong element or past its end, which unequal sizes bring out at once."
            ]
    return []


def _reduction(call: Call) -> list[str]:
    rows, length, step = row_of(call)
    found = []
    if call.packet in ("amax", "amin", "max", "min", "argmax", "argmin"):
        identity = "−inf" if "max" in call.packet else "+inf"
        found.append(f"Starting `{call.operator}` from 0 instead of {identity} is wrong for rows of one sign only.")
        if call.packet in ("max", "min", "argmax", "argmin") and (len(call.outputs) > 1 or "arg" in call.packet):
            found.append("Among equal values the lowest index wins: a tree must compare index and value together.")
    elif call.packet in ("var", "std", "var_mean", "std_mean"):
        found.append(
            f"E[x²] − E[x]² cancels when the mean is large: take the mean of the {length} values first, then the "
            f"squares of the differences. The divisor is {length} − {call.argument('correction', '1')}, not {length}."
        )
    elif call.packet == "mean" and rows > 1:
        found.append(f"The divisor is {length}, the elements reduced, not the {rows * length} of the whole tensor.")
    if step != 1 and rows > 1:
        found.append(
            f"Reducing along the wrong axis: elements of a row are {step} apart in memory, not next to each other."
        )
    if rows > 1 and step == 1 and length <= 1024:
        found.append(
            "Where a warp shares a row, a lane that leaves before the shuffles gives the others undefined values."
        )
    elif rows == 1 or step == 1:
        found.append(
            "Where a block combines results as a tree, a missing `__syncthreads()` between the rounds gives some "
            "that change from run to run."
        )
    return found


def _softmax(call: Call) -> list[str]:
    _, length, step = row_of(call)
    found = ["Without subtracting the row's maximum, `expf` overflows above 88.7 and the row becomes NaN."]
    if step != 1:
        found.append(
            f"Taking the last axis instead of the {length} elements that lie {step} apart gives rows that add up to 1 "
            "too: only values tell the difference."
        )
        return found
    found.append(
        f"The maximum and the sum belong to all {length} elements of a row: if several threads share it, each must see "
        "them before it divides, so a barrier or a shuffle broadcast belongs between the passes."
    )
    if call.packet == "_log_softmax":
        found.append(
            "log(softmax) in two steps gives −inf where a probability underflows: subtract log of the sum instead."
        )
    return found


def _normalization(call: Call) -> list[str]:
    groups, length = group_row(call)
    eps = call.argument("eps", "eps")
    found = [
        f"E[x²] − E[x]² loses the variance when the mean is large; a second pass over the {length} values, or "
        f"Welford, keeps it.",
        f"eps = {eps} goes inside the root, next to the variance; outside it the result is off for small variances.",
        f"The variance of the normalisation divides by {length}, not by {length} − 1 = {length - 1}.",
    ]
    if call.argument("training") == "True":
        found.append(
            f"In training mode the statistics are those of this batch ({groups} channels); the running ones are "
            f"not used for "
            "the output. They are updated with the corrected variance, if the reference's buffers are compared."
        )
    return found


def _matmul(call: Call) -> list[str]:
    right, inner = call.operands[-1], call.contracted
    found = [
        "Tiles in shared memory need two barriers each: one after the loads, one before they are overwritten. Without "
        "the second, fast warps change values that slow ones still multiply.",
        f"Rounding the {inner} products to half precision or TF32 shows against a reference in double "
        f"precision: keep float.",
    ]
    if len(right.stride) > 1 and right.stride[-1] != 1 and right.shape[-1] > 1:
        found.append(
            f"`{right.name}` is a view with stride {shape_text(right.stride)}: `data_ptr()` with row-major indexing "
            "would multiply by the untransposed matrix."
        )
    return found


def _convolution(call: Call) -> list[str]:
    if call.is_transposed:
        return [
            "An input place contributes only where the output place plus padding less the tap is a multiple of the "
            "stride; dividing without that check smears values over neighbours.",
            f"The filter is laid out by input channel first, {shape_text(call.operands[1].shape)}: the axes of "
            "channels are the other way round than in a convolution.",
        ]
    found = ["PyTorch's convolution does not flip the filter: it is a correlation."]
    if any(call.integers("padding")):
        found.append("A tap outside of the input must be skipped, not clamped: clamping repeats the border.")
    if (call.integers("groups") or (1,))[0] > 1:
        found.append("With groups, the input channel starts at the group's first channel, not at 0.")
    if len(set(call.integers("stride"))) == 1 and call.integers("stride")[0] > 1:
        found.append(
            f"The stride of {call.integers('stride')[0]} belongs to the output coordinate, the dilation to the tap."
        )
    return found


def _pooling(call: Call) -> list[str]:
    if "max" in call.packet:
        return ["The maximum starts from −inf, not from 0 or from the first tap, which may lie in the padding."]
    counted = call.argument("count_include_pad", "True") == "True"
    divisor = "the full window, padding included" if counted else "only the taps inside"
    return [f"The divisor of the mean is {divisor}; the difference shows at the border only."]


def _scan(call: Call) -> list[str]:
    _, length, _ = row_of(call)
    carry = (
        f"If a warp scans a row in pieces of 32, the carry must reach all lanes before they store; a row of {length} "
        "has several pieces."
    )
    shifted = "An exclusive scan is off by one element, and equals the right answer shifted."
    return [carry, shifted] if length > 32 else [shifted]


def _lookup(call: Call) -> list[str]:
    words = (
        "Indices are 64-bit: reading them as `int` takes every other word, which works by chance for the first "
        "index only."
    )
    if call.packet.startswith("upsample"):
        return []
    if call.packet in SCATTERS:
        twice = (
            "an index that occurs twice loses one of its values where threads add without an atomic"
            if call.packet.endswith("_add")
            else "where an index occurs twice, which of its values stays is a matter of chance if threads write at once"
        )
        return [words, f"Indices may repeat: {twice}."]
    return [
        words,
        f"Loads go wherever the indices point, so rows of {shape_text(call.source.shape)} are read in full to "
        f"coalesce.",
    ]


_WRITERS = {
    CallKind.REDUCTION: _reduction,
    CallKind.SOFTMAX: _softmax,
    CallKind.NORMALIZATION: _normalization,
    CallKind.MATMUL: _matmul,
    CallKind.CONVOLUTION: _convolution,
    CallKind.POOLING: _pooling,
    CallKind.SCAN: _scan,
    CallKind.LOOKUP: _lookup,
}


def _of_stage(stage: Stage) -> list[str]:
    views = [call for call in stage.calls if call.packet in ("transpose", "permute", "t")]
    light = [call for call in views if call.kind is CallKind.VIEW and call.output.stride != call.source.stride]
    if light and stage.anchor is None:
        return [
            f"`{light[0].output.name}` has stride {shape_text(light[0].output.stride)}; a kernel that takes its "
            "pointer as contiguous computes with elements in the wrong order, at the right shape."
        ]
    return []


def _of_task(analysis: TaskAnalysis) -> list[str]:
    out = analysis.outputs[0]
    row = out.shape[-1] if out.shape else 1
    vector = analysis.choose(
        "vector",
        "`float4` accesses that start anew with every row need rows of a multiple of four, or they are not aligned: "
        f"those of `{out.name}` have {row}. Over the flat index only the tail needs care.",
        f"Rows of {row} are no multiple of four: `float4` accesses row by row would not be aligned; over the flat "
        "index they are, up to a tail that goes element by element.",
    )
    constants = any(re.search(r"[0-9]\.[0-9]|e-", formula_of(call)) for call in analysis.calls)
    return [vector if row > 1 and row % 4 else "", _dtype(out.dtype, constants)]


def _dtype(dtype: str, constants: bool) -> str:
    if dtype != "float32":
        return f"The output is {dtype}: a `float` pointer to it reads and writes the wrong bytes."
    if not constants:
        return ""
    return "Literals without `f` (`0.5` for `0.5f`) make the compiler compute in double: right, but many times slower."
