"""Step 6: mistakes that the strides of this module and the tiles of its kernels invite, and how each would show.

What goes wrong with an operator anywhere (a softmax without its maximum, ties) is not told: models know it.
"""

from math import prod

from musadata.compiler.ir.code import Binary, Expression, Group, walk
from musadata.teacher.reasoning.kernel_facts import KernelFacts
from musadata.teacher.reasoning.kernel_plan import Call, CallKind, Stage, count
from musadata.teacher.reasoning.sentences import say
from musadata.teacher.reasoning.task_analysis import VARYING, TaskAnalysis

_MOST = 7


def write_pitfalls(analysis: TaskAnalysis) -> str:
    found = []
    for stage, _ in analysis.distinct:
        found += [text for call in stage.calls if call.kind in _WRITERS for text in _WRITERS[call.kind](call)]
        found += _of_stage(stage)
    found += [text for facts in analysis.told for text in _of_kernel(facts)] + _of_task(analysis)
    kinds: dict[str, str] = {}  # of several that differ in names and figures alone, the first is enough
    for text in found:
        kinds.setdefault(VARYING.sub("", text), text)
    told = list(filter(None, kinds.values()))[:_MOST]
    return "\n".join(f"- {text}" for text in told) or f"Only the bounds of `{analysis.outputs[0].name}`."


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
    masked = call.packet.startswith("_scaled_dot_product") and len(call.operands) > 3
    return [say("attention_masked_rows")] if masked else []


_WRITERS = {
    CallKind.MATMUL: _matmul,
    CallKind.CONVOLUTION: _convolution,
    CallKind.PLACEMENT: _placement,
    CallKind.OTHER: _other,
}


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
