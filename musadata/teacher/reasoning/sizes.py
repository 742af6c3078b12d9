"""Step 3: how every shape follows, and how many elements, FLOPs and bytes that makes."""

from collections.abc import Sequence

from musadata.teacher.reasoning.kernel_plan import Call, CallKind, by_kind, count
from musadata.teacher.reasoning.sentences import say
from musadata.teacher.reasoning.task_analysis import (
    TaskAnalysis,
    claims_of,
    claims_of_work,
    elements_text,
    group_row,
    named,
    product_text,
    row_of,
    unique,
)
from musadata.tracing.layout import is_contiguous
from musadata.tracing.roofline import moved_bytes, tensor_bytes

_MOST_CALLS = 12
_IDLE = (CallKind.VIEW, CallKind.FILL)
_MOST_OF_A_KIND, _MOST_MOVED = 6, 6


def write_sizes(analysis: TaskAnalysis) -> str:
    calls = [call for stage, _ in analysis.distinct for call in stage.calls] or analysis.calls
    told = [call for call in calls if call.kind not in _IDLE or call.output.role == "output"] or calls
    lines = _derived(analysis, [call for call in told if not _keeps_shape(call)])
    return "\n".join([*lines[:_MOST_CALLS], *([""] if lines else []), _totals(analysis)])


def _derived(analysis: TaskAnalysis, calls: Sequence[Call]) -> list[str]:
    """A line for each kind of loop, which derives the shapes of all its results."""
    found: dict[CallKind, dict[str, Call]] = {}
    for call in calls:
        found.setdefault(call.kind, {}).setdefault(derive_shape(call).removesuffix("."), call)
    lines = []
    for made in found.values():
        told = list(made)[: _MOST_OF_A_KIND if len(made) > _MOST_OF_A_KIND + 1 else None]
        more = [f"and {len(made) - len(told)} more"] if len(told) < len(made) else []
        facts = (fact for text in told for fact in (made[text].output, *made[text].operands[:1]))
        claims = (claim for fact in facts for claim in claims_of(fact))
        lines.append(analysis.state(f"- {'; '.join([*told, *more])}.", claims))
    return lines


def derive_shape(call: Call) -> str:
    """One sentence that derives the shape of a call's result from what it read."""
    return _WRITERS.get(call.kind, _pointwise)(call)


def _keeps_shape(call: Call) -> bool:
    """Whether a result has the shape of all that an elementwise operator reads."""
    alike = call.kind is CallKind.ELEMENTWISE and all(fact.shape == call.output.shape for fact in call.operands)
    return alike and bool(call.output.shape)


def _pointwise(call: Call) -> str:
    out = call.output
    shapes = unique([str(fact.shape) for fact in call.operands])
    if not out.shape:
        return f"`{out.name}` is a single number, as what it is made from."
    small = [named(fact) for fact in call.operands if count(fact) < count(out)]
    repeated = f"; repeated is {', '.join(unique(small))}" if small else ""
    return say("pointwise", out=out, shapes=" and ".join(shapes), elements=elements_text(out), repeated=repeated)


def _reduction(call: Call) -> str:
    rows, length, _ = row_of(call)
    source, out = call.source, call.output
    if call.is_class_loss and len(call.operands) > 1:
        picked = call.operands[1]
        return f"`{out.name}` is made from {elements_text(picked)} of {named(source)}, one for each of `{picked.name}`."
    if len(call.axes) == len(source.shape):
        return f"`{out.name}` is a single number made from {elements_text(source)} of `{source.name}`."
    axes = " and ".join(f"axis {axis}" for axis in call.axes)
    sizes = product_text([source.shape[axis] for axis in call.axes])
    results = "1 result" if rows == 1 else f"{product_text(out.shape)} results ({rows} rows of {length})"
    go = "goes" if len(call.axes) == 1 else "go"
    return say("reduced", out=out, axes=axes, source=named(source), go=go, sizes=sizes, results=results)


def _softmax(call: Call) -> str:
    rows, length, _ = row_of(call)
    total, out = count(call.source), call.output
    return say("rows", out=out, elements=elements_text(out), length=length, total=total, rows=rows)


def _normalization(call: Call) -> str:
    groups, length = group_row(call)
    if call.argument("training") == "False":
        channels = f"{count(call.source)} / {groups} = {length} elements for each of {groups} channels"
        return f"`{call.output.name}` keeps {call.output.shape}: {channels}, by their running statistics."
    per = {"native_group_norm": "sample and group", "native_layer_norm": "row"}.get(call.packet, "channel")
    return say("statistics", out=call.output, per=per, total=count(call.source), groups=groups, length=length)


def _matmul(call: Call) -> str:
    left, right = call.factors
    inner, out = call.contracted, call.output
    facts = {"inner": inner, "total": count(out), "flops": 2 * count(out) * inner, "elements": elements_text(out)}
    return say("contraction", out=out, left=named(left), right=named(right), **facts)


def _convolution(call: Call) -> str:
    out, source, weight = call.output, call.source, call.weight
    if call.is_transposed:
        axes = []
        for axis, kernel in enumerate(weight.shape[2:], 2 - len(weight.shape)):
            names = ("stride", "padding", "dilation", "output_padding")
            stride, pad, step, extra = (_at(call.integers(name), axis) for name in names)
            formula = f"({source.shape[axis]} − 1) × {stride} − 2 × {pad} + {step} × ({kernel} − 1) + {extra} + 1"
            axes.append(f"{formula} = {out.shape[axis]}")
        return f"`{out.name}`: {'; '.join(unique(axes))}; so {out.shape}, {elements_text(out)}."
    if not call.argument("stride"):
        return f"`{out.name}` is {out.shape}, {elements_text(out)}, from {named(source)} and {named(weight)}."
    windows = _windows(call, weight.shape[2:], call.integers("stride"))
    return say("filters", out=out, weight=weight, windows=windows, elements=elements_text(out))


def _windows(call: Call, window: tuple[int, ...], strides: tuple[int, ...]) -> str:
    """How many windows fit along each of the last axes."""
    axes = []
    for axis, kernel in enumerate(window, -len(window)):
        pad, step = _at(call.integers("padding") or (0,), axis), _at(call.integers("dilation") or (1,), axis)
        formula = f"⌊({call.source.shape[axis]} + 2 × {pad} − {step} × ({kernel} − 1) − 1) / {_at(strides, axis)}⌋ + 1"
        axes.append(f"{formula} = {call.output.shape[axis]}")
    return "; ".join(unique(axes))


def _at(numbers: tuple[int, ...], axis: int) -> int:
    """An operator's number for an axis counted from the back; a single number is for all axes."""
    return numbers[axis] if len(numbers) > 1 else numbers[0]


def _pooling(call: Call) -> str:
    out, window = call.output, call.integers("kernel_size")
    shape = f"{out.shape}, {elements_text(out)}"
    if not window or call.argument("ceil_mode") == "True":
        return f"`{out.name}` is {shape}, from {named(call.source)}."
    return f"`{out.name}`: {_windows(call, window, call.integers('stride') or window)}, so {shape}."


def _placement(call: Call) -> str:
    out = call.output
    if call.packet == "cat" and out.shape:
        axis = (call.integers("dim") or (0,))[0] % len(out.shape)
        sizes = " + ".join(str(fact.shape[axis]) for fact in call.operands)
        total = f"{sizes} = {out.shape[axis]}" if len(call.operands) > 1 else sizes
        return f"`{out.name}`: along axis {axis}, {total}; the result is {out.shape}, {elements_text(out)}."
    return f"`{out.name}` is {out.shape}, {elements_text(out)}, from {named(call.source)}."


def _view(call: Call) -> str:
    out, source = call.output, call.source
    if len(call.outputs) > 1:
        return f"`{call.packet}` cuts {named(source)} into pieces; the first is {out.shape}."
    contiguous = is_contiguous(out)
    apart = "contiguous" if contiguous else "which is not contiguous"
    if not contiguous and out.stride[-1] != 1 and out.shape[-1] > 1:
        apart = "so neighbours along its last axis are not next to each other in memory"
    return say("view", out=out, source=named(source), call=call, apart=apart)


def _rest(call: Call) -> str:
    out = call.output
    what = f"{out.shape}, {elements_text(out)}" if out.shape else "a single number"
    return f"`{out.name}` is {what}."


_WRITERS = {
    **by_kind(_reduction, _softmax, _normalization, _matmul, _convolution, _pooling, _placement, _view),
    **dict.fromkeys((CallKind.LOOKUP, CallKind.FILL, CallKind.OTHER), _rest),
    CallKind.SCAN: _softmax,
}


def _totals(analysis: TaskAnalysis) -> str:
    """Bytes and FLOPs at the first size."""
    trace = analysis.trace
    moved = [fact for fact in trace.tensors if fact.role != "intermediate"]
    parts = f"{trace.bytes} bytes in all"
    if 1 < len(moved) <= _MOST_MOVED:
        each = (f"{moved_bytes(fact, trace.tensors)} (`{fact.name}`)" for fact in moved)
        parts = f"{' + '.join(each)} = {trace.bytes} bytes"
    ratio = f"{trace.intensity:#.4g}"
    claims = [*claims_of_work(trace), f"intensity() == {ratio}"]
    claims += [f'nbytes("{fact.name}") == {tensor_bytes(fact)}' for fact in moved if len(moved) <= _MOST_MOVED]
    return analysis.state(say("totals", parts=parts, flops=trace.flops, ratio=ratio), claims)
