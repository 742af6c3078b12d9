"""Step 6: likely mistakes in this kernel, and how each would show."""

from collections.abc import Mapping
from math import log, prod

from musadata.compiler.ir.code import Binary, Expression, Group, walk
from musadata.operators import column
from musadata.teacher.reasoning.kernel_facts import KernelFacts
from musadata.teacher.reasoning.kernel_plan import SCATTERS, Call, CallKind, Stage, by_kind, count
from musadata.teacher.reasoning.sentences import say
from musadata.teacher.reasoning.task_analysis import VARYING, TaskAnalysis, group_row, row_of
from musadata.teacher.reasoning.value_ranges import ANY, Range, ranges_of

_HAZARDS: dict[str, str] = column("hazard")
_MOST = 7


def write_pitfalls(analysis: TaskAnalysis) -> str:
    found = []
    ranges = ranges_of(analysis.calls)
    for stage, _ in analysis.distinct:
        found += [text for call in stage.calls for text in _of_call(call, ranges)]
        found += _of_stage(stage)
    found += [text for facts in analysis.told for text in _of_kernel(facts)] + _of_task(analysis)
    kinds: dict[str, str] = {}  # of several that differ in names and figures alone, the first is enough
    for text in found:
        kinds.setdefault(VARYING.sub("", text), text)
    told = list(filter(None, kinds.values()))[:_MOST]
    return "\n".join(f"- {text}" for text in told) or f"Only the bounds of `{analysis.outputs[0].name}`."


def _of_call(call: Call, ranges: Mapping[str, Range]) -> list[str]:
    if call.kind in (CallKind.SOFTMAX, CallKind.OTHER) and _is_finite(call, ranges):
        return []
    hazard = "" if _cannot_happen(call, ranges) else _HAZARDS.get(call.packet)
    if call.packet == "gelu" and "tanh" in call.argument("approximate"):
        hazard = say("tanh_formula")
    if call.packet == "div" and len(call.operands) < 2:
        hazard = ""  # by a number
    if call.packet == "pow" and call.argument("exponent") in ("2", "2.0"):
        hazard = say("square")
    told = [f"`{call.operator}`: {hazard}."] if hazard else []
    write = _broadcast if call.kind is CallKind.ELEMENTWISE else _WRITERS.get(call.kind, _nothing)
    if "max_pool" in call.packet and ranges.get(call.source.name, ANY)[0] >= 0:
        return told  # 0 is no wrong start for it
    return [*told, *write(call)]


def _is_finite(call: Call, ranges: Mapping[str, Range]) -> bool:
    """Whether the exponentials of a softmax are finite, and their sum is not 0, without its maximum."""
    low, high = ranges.get(call.source.name, ANY)
    return call.packet.lstrip("_").endswith("softmax") and low > -80.0 and high < 88.0 - log(row_of(call)[1])


def _cannot_happen(call: Call, ranges: Mapping[str, Range]) -> bool:
    """Whether the values that a call reads keep away from where its arithmetic goes wrong."""
    low, high = ranges.get(call.names[-1], ANY) if call.operands else ANY
    if call.packet == "div":
        return len(call.operands) > 1 and (low > 0 or high < 0)
    if call.packet == "log":
        return low > 0
    if call.packet in ("pow", "relu"):  # roots of no negative number; nothing that is left to clip
        return low >= 0
    edge = column("edge").get(call.packet)
    return edge is not None and -edge < low and high < edge


def _nothing(call: Call) -> list[str]:
    return []


def _broadcast(call: Call) -> list[str]:
    out = call.output
    small = [fact for fact in call.operands if 1 < count(fact) < count(out) and out.shape]
    axes = ["the first axis" if fact.shape[-1:] == out.shape[-1:] else "the last axis" for fact in small]
    return [say("broadcast", fact=fact, out=out, wrong=wrong) for fact, wrong in zip(small, axes, strict=True)][:1]


def _reduction(call: Call) -> list[str]:
    rows, length, step = row_of(call)
    found = []
    if call.packet in ("amax", "amin", "max", "min", "argmax", "argmin"):
        identity, sign = ("−inf", "negative") if "max" in call.packet else ("+inf", "positive")
        found.append(say("identity", call=call, identity=identity, sign=sign))
        if call.packet in ("max", "min", "argmax", "argmin") and (len(call.outputs) > 1 or "arg" in call.packet):
            found.append(say("ties"))
    elif call.packet in ("var", "std", "var_mean", "std_mean"):
        found.append(say("variance_of_reduction", length=length, correction=call.argument("correction", "1")))
    elif call.packet in column("loss") and call.argument("reduction") != "2" and len(call.source.shape) > 1:
        found.append(say("divisor_of_loss", length=length, axis=call.source.shape[0]))
    elif call.packet == "mean" and rows > 1:
        found.append(say("divisor_of_mean", length=length, total=rows * length))
    if step != 1 and rows > 1:
        found.append(say("wrong_axis", step=step))
    if rows == 1 and length > 1 and call.packet in ("sum", "mean"):
        divisor = f"; the division by {length} comes once, after all of them" if call.packet == "mean" else ""
        found.append(say("whole_reduction", total=length, divisor=divisor))
    return found


def _softmax(call: Call) -> list[str]:
    _, length, step = row_of(call)
    logarithm = call.packet == "_log_softmax"
    overflow = _overflow(call, "log_softmax_overflow" if logarithm else "softmax_overflow")
    if step != 1 and not logarithm:
        return [*overflow, say("softmax_axis", length=length, step=step)]
    return [*overflow, *([say("log_softmax_underflow")] if logarithm else [])]


def _overflow(call: Call, name: str) -> list[str]:
    """What exponentials in float do to a row without its maximum; nothing of doubles."""
    return [] if call.source.dtype == "float64" else [say(name)]


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
    found = []
    if len(right.stride) > 1 and right.stride[-1] != 1 and right.shape[-1] > 1:
        square = right.shape[-1] == right.shape[-2]
        found.append(say("transposed_square" if square else "transposed_operand", right=right))
    return found


def _convolution(call: Call) -> list[str]:
    if call.is_transposed:
        return [say("transposed_filter", weight=call.operands[1])]
    window = call.weight.shape[2:]
    found = []
    if all(size == 1 for size in window) and (step := prod(call.source.shape[2:])) > 1:
        found.append(say("taps_of_one", step=step, source=call.source))
    if any(size > 1 for size in window):
        filters = " × ".join(map(str, window))
        pads = call.integers("padding")
        edge = say("outside_taps", pad=pads[0]) if any(pads) else ""
        found.append(say("correlation", weight=call.weight, filters=filters, edge=edge))
    return found


def _pooling(call: Call) -> list[str]:
    if "max" in call.packet:
        return [say("maximum_of_window", edge=say("maximum_in_padding") if any(call.integers("padding")) else "")]
    if call.packet.lstrip("_").startswith("adaptive"):
        sides = zip(call.source.shape[::-1], call.output.shape[::-1], strict=False)
        return [say("mean_of_uneven_windows", size=size, made=made) for size, made in sides if size % made][:1]
    if not any(call.integers("padding")):
        return []
    counted = call.argument("count_include_pad", "True") == "True"
    window = " × ".join(map(str, call.integers("kernel_size")))
    divisor = f"{window}, padding included" if counted else f"the number of taps inside of the input, not {window}"
    return [say("mean_of_window", divisor=divisor)]


def _scan(call: Call) -> list[str]:
    _, length, _ = row_of(call)
    return [say("scan_carry", length=length)] if length > 256 else []


def _lookup(call: Call) -> list[str]:
    if call.packet.startswith("upsample"):
        return []
    if call.packet in SCATTERS:
        return [say("index_words"), say("lost_additions" if call.packet.endswith("_add") else "lost_writes")]
    return [say("index_words")]


def _placement(call: Call) -> list[str]:
    """What goes wrong where two tensors are put together."""
    parts = [fact for fact in call.operands if count(fact)]
    if call.packet != "cat" or len(parts) < 2:
        return []
    out, (first, second) = call.output, parts[:2]
    axis = (call.integers("dim") or (0,))[0] % len(out.shape)
    one, other, made = (fact.shape[axis] for fact in (first, second, out))
    if prod(out.shape[:axis]) == 1:
        found = [say("cat_behind", first=first, second=second, out=out, offset=count(first))]
    else:
        found = [say("cat_beside", axis=axis, first=first, second=second, out=out, offset=one, own=other, made=made)]
    sizes = say("cat_sizes", first=first, second=second, one=one, other=other, axis=axis, made=made)
    return [*found, *([sizes] if one != other else [])]


def _other(call: Call) -> list[str]:
    if not call.packet.startswith("_scaled_dot_product"):
        return []
    masked = [say("attention_masked_rows")] if len(call.operands) > 3 else []
    return [*_overflow(call, "attention_overflow"), *masked]


_WRITERS = by_kind(
    *(_reduction, _softmax, _normalization, _matmul, _convolution),
    *(_pooling, _scan, _lookup, _placement, _other),
)


def _of_stage(stage: Stage) -> list[str]:
    views = [call for call in stage.calls if call.packet in ("transpose", "permute", "t")]
    light = [call for call in views if call.kind is CallKind.VIEW and call.output.stride != call.source.stride]
    return [say("view_taken_as_contiguous", out=light[0].output)] if light and stage.anchor is None else []


def _of_kernel(facts: KernelFacts) -> list[str]:
    """What goes wrong with the tiles that its schedule has."""
    if facts.kernel.attends:
        return [say("attention_rescaling", kernel=facts.name)]
    stage, tile = next(iter(facts.kernel.reductions), None), facts.way.schedule.tile
    if stage is None or tile is None or tile[2] == 1 or any(axis.extent.variables for axis in stage.axes):
        return []
    inner = prod(facts.extents(stage.axes, facts.sizes))
    rest = inner % tile[2]
    return [say("ragged_product", inner=inner, depth=tile[2], kernel=facts.name, rest=rest)] if rest else []


def _wrapped(element: Expression) -> tuple[Expression, Expression, Expression] | None:
    """A place that goes round: `(place + size - before) % size`."""
    for node in walk(element):
        match node:
            case Binary(Group(Binary(Binary(place, "+", size), "-", before)), "%", around) | Binary(
                Binary(Binary(place, "+", size), "-", before), "%", around
            ) if size == around:
                return place, size, before
    return None


def _of_task(analysis: TaskAnalysis) -> list[str]:
    out = analysis.outputs[0]
    wide = [facts for facts in analysis.told if facts.is_flat and facts.way.vector > 1]
    rows = [(facts.shape(facts.writes[0].buffer)[-1:], facts.way.vector) for facts in wide]
    row, width = next(((row[0], width) for row, width in rows if row and row[0] > 1 and row[0] % width), (0, 0))
    wrapped = [found for facts in analysis.told for one in facts.reads if (found := _wrapped(one.element))]
    return [
        *(say("wrapped_place", place=place, size=size, before=before) for place, size, before in wrapped),
        say("vector_rows", row=row, width=width) if row else "",
        say("output_type", dtype=out.dtype) if out.dtype != "float32" else "",
    ]
