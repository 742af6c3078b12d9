"""Step 6: likely mistakes in this kernel, and how each would show."""

import re

from musadata.teacher.reasoning.boundaries import block_size
from musadata.teacher.reasoning.kernel_plan import KNOWLEDGE, SCATTERS, Call, CallKind, Stage, by_kind, count
from musadata.teacher.reasoning.mathematics import formula_of
from musadata.teacher.reasoning.sentences import say
from musadata.teacher.reasoning.task_analysis import TaskAnalysis, group_row, join, row_of, unique

_HAZARDS: dict[str, str] = KNOWLEDGE["hazards"]
_MOST, _MOST_CONSTANTS = 7, 3
_VARYING = re.compile(r"`(?!aten)[^`]*`|\d+(?:\.\d+)?|\([^()]*\)")


def write_pitfalls(analysis: TaskAnalysis) -> str:
    found = [_missing_guard(analysis)]
    for stage, _ in analysis.distinct:
        found += [text for call in stage.calls for text in _of_call(call)]
        found += _of_stage(stage)
    found += _of_task(analysis)
    if not any(found):  # nothing about the operators is known: mistakes that any output of this kind allows
        single = count(analysis.outputs[0]) == 1
        found = [say("sum_of_all_needs_atomics"), say("accumulator_starts_from_0")] if single else [say("fresh_memory")]
    kinds: dict[str, str] = {}  # of several that differ in names and figures alone, the first is enough
    for text in found:
        kinds.setdefault(_VARYING.sub("", text), text)
    return "\n".join(f"- {text}" for text in list(filter(None, kinds.values()))[:_MOST])


def _missing_guard(analysis: TaskAnalysis) -> str:
    if analysis.facts:
        flat = next((facts for facts in analysis.told if facts.is_flat), None)
        return _unguarded(*flat.points_of_sets, flat.name_of(flat.writes[0].buffer)) if flat else ""
    stage = analysis.distinct[0][0] if analysis.distinct else None
    if stage is not None and stage.anchor is not None and stage.anchor.kind is not CallKind.CONVOLUTION:
        return ""
    out = stage.output if stage else analysis.outputs[0]
    other = analysis.distinct[0][1] if analysis.distinct else None
    return _unguarded(count(out), count(other.output) if other else count(out), out.name)


def _unguarded(total: int, other: int, name: str) -> str:
    """What a kernel with a thread for each element does if it does not stop at the last one."""
    block = block_size(total)
    over = -(-total // block) * block - total
    if over:
        threads = f"{-(-total // block)} × {block}" if total > block else str(block)
        return say("missing_guard", threads=threads, total=total, over=over)
    return say("unnoticed_guard", out=name, total=total, other=other) if other % block_size(other) else ""


def _of_call(call: Call) -> list[str]:
    if call.kind is not CallKind.ELEMENTWISE:
        return _WRITERS.get(call.kind, lambda _: [])(call)
    hazard = _HAZARDS.get(call.packet)
    if call.packet == "gelu" and "tanh" in call.argument("approximate"):
        hazard = say("tanh_formula")
    if call.packet == "div" and len(call.operands) < 2:
        hazard = ""  # by a number
    if call.packet == "pow" and call.argument("exponent") in ("2", "2.0"):
        hazard = say("square")
    return [*([f"`{call.operator}`: {hazard}."] if hazard else []), *_broadcast(call)]


def _broadcast(call: Call) -> list[str]:
    out = call.output
    small = [fact for fact in call.operands if 1 < count(fact) < count(out) and out.shape]
    axes = ["the first axis" if fact.shape[-1:] == out.shape[-1:] else "the last axis" for fact in small]
    return [say("broadcast", fact=fact, out=out, wrong=wrong) for fact, wrong in zip(small, axes, strict=True)][:1]


def _reduction(call: Call) -> list[str]:
    rows, length, step = row_of(call)
    found = []
    if call.packet in ("amax", "amin", "max", "min", "argmax", "argmin"):
        found.append(say("identity", call=call, identity="−inf" if "max" in call.packet else "+inf"))
        if call.packet in ("max", "min", "argmax", "argmin") and (len(call.outputs) > 1 or "arg" in call.packet):
            found.append(say("ties"))
    elif call.packet in ("var", "std", "var_mean", "std_mean"):
        found.append(say("variance_of_reduction", length=length, correction=call.argument("correction", "1")))
    elif call.packet == "mean" and rows > 1:
        found.append(say("divisor_of_mean", length=length, total=rows * length))
    if step != 1 and rows > 1:
        found.append(say("wrong_axis", step=step))
    if rows > 1 and step == 1 and length <= 1024:
        found.append(say("lane_leaves"))
    elif rows == 1 or step == 1:
        found.append(say("missing_barrier"))
    return found


def _softmax(call: Call) -> list[str]:
    _, length, step = row_of(call)
    if step != 1:
        return [say("softmax_overflow"), say("softmax_axis", length=length, step=step)]
    underflow = [say("log_softmax_underflow")] if call.packet == "_log_softmax" else []
    return [say("softmax_overflow"), say("softmax_barrier", length=length), *underflow]


def _normalization(call: Call) -> list[str]:
    groups, length = group_row(call)
    running = call.argument("training") == "False"
    eps = call.argument("eps", "eps")
    if running:
        return [say("running_statistics", eps=eps, source=call.source)]
    found = [say("variance_of_norm", length=length, less=length - 1, eps=eps)]
    return [*found, *([say("training_statistics", groups=groups)] if call.argument("training") == "True" else [])]


def _matmul(call: Call) -> list[str]:
    right = call.operands[-1]
    found = [say("half_products", inner=call.contracted)]
    if len(right.stride) > 1 and right.stride[-1] != 1 and right.shape[-1] > 1:
        square = right.shape[-1] == right.shape[-2]
        found.append(say("transposed_square" if square else "transposed_operand", right=right))
    return found


def _convolution(call: Call) -> list[str]:
    if call.is_transposed:
        return [say("transposed_taps"), say("transposed_filter", weight=call.operands[1])]
    stride, window = call.integers("stride"), call.weight.shape[2:]
    found = []
    if any(size > 1 for size in window):
        filters = " × ".join(map(str, window))
        pads = call.integers("padding")
        edge = say("outside_taps", pad=pads[0]) if any(pads) else ""
        found.append(say("correlation", weight=call.weight, filters=filters, edge=edge))
    if (call.integers("groups") or (1,))[0] > 1:
        found.append(say("groups"))
    if len(set(stride)) == 1 and stride[0] > 1:
        found.append(say("stride_and_dilation", stride=stride[0]))
    return found


def _pooling(call: Call) -> list[str]:
    if "max" in call.packet:
        return [say("maximum_of_window")]
    counted = call.argument("count_include_pad", "True") == "True"
    return [say("mean_of_window", divisor="the full window, padding included" if counted else "only the taps inside")]


def _scan(call: Call) -> list[str]:
    _, length, _ = row_of(call)
    return [*([say("scan_carry", length=length)] if length > 256 else []), say("exclusive_scan", length=length)]


def _lookup(call: Call) -> list[str]:
    if call.packet.startswith("upsample"):
        return []
    if call.packet in SCATTERS:
        return [say("index_words"), say("lost_additions" if call.packet.endswith("_add") else "lost_writes")]
    return [say("index_words")]


def _other(call: Call) -> list[str]:
    if not call.packet.startswith("_scaled_dot_product"):
        return []
    masked = [say("attention_masked_rows")] if len(call.operands) > 3 else []
    return [say("softmax_overflow"), say("attention_rescaling"), *masked]


_WRITERS = by_kind(_reduction, _softmax, _normalization, _matmul, _convolution, _pooling, _scan, _lookup, _other)


def _of_stage(stage: Stage) -> list[str]:
    views = [call for call in stage.calls if call.packet in ("transpose", "permute", "t")]
    light = [call for call in views if call.kind is CallKind.VIEW and call.output.stride != call.source.stride]
    return [say("view_taken_as_contiguous", out=light[0].output)] if light and stage.anchor is None else []


def _of_task(analysis: TaskAnalysis) -> list[str]:
    out = analysis.outputs[0]
    row = out.shape[-1] if out.shape else 1
    vector = analysis.choose("vector", say("float4_rows", out=out, row=row), say("float4_flat", row=row))
    formulas = " ".join(formula_of(call) for call in analysis.calls)
    constants = unique(re.findall(r"(?<![\w.`])\d+(?:\.\d+)?e-\d+|(?<![\w.`])\d+\.\d+(?!\w)", formulas))[
        :_MOST_CONSTANTS
    ]
    kind = (
        say("literals", numbers=join([f"`{number}f`" for number in constants]))
        if any("e-" not in number for number in constants)
        else ""
    )
    if out.dtype != "float32":
        kind = say("output_type", dtype=out.dtype)
    return [vector if row > 1 and row % 4 else "", kind]
