"""Which elements of a call's result a thread computes, and which elements of the operands it reads, by kind of call."""

from musadata.records import TensorFact
from musadata.teacher.reasoning.coordinates import axis_names, coordinates, offset_of
from musadata.teacher.reasoning.element_origins import element_of, origin_of
from musadata.teacher.reasoning.kernel_plan import SCATTERS, Call, adds_to_places, by_kind, count
from musadata.teacher.reasoning.sentences import say
from musadata.teacher.reasoning.task_analysis import (
    group_row,
    is_contiguous,
    is_whole,
    join,
    named,
    row_of,
    strides_of,
    unique,
)


def describe_mapping(call: Call) -> str:
    """The text about the call that decides how work is distributed over threads."""
    return _WRITERS.get(call.kind, _elementwise)(call)


def _elementwise(call: Call) -> str:
    return _flat(call.output, "; with a thread for each, it is `blockIdx.x * blockDim.x + threadIdx.x`")


def _flat(out: TensorFact, index: str = "") -> str:
    return f"{say('flat_index', seed=out.name, out=out, index=index)} {coordinates(out.shape, out.name)}"


def _reduction(call: Call) -> str:
    rows, length, step = row_of(call)
    source = call.source
    if is_whole(call):
        text = f"All {length} elements of `{source.name}` go into one result."
        if call.is_class_loss and len(call.operands) > 1:
            text = say("class_loss", length=length, target=call.operands[1], source=named(source))
        text += f" {say('whole_reduction')}"
        return text + (" With several blocks, a second pass joins what they leave." if length > 4096 else "")
    kept_behind = any(
        source.shape[axis] > 1 for axis in range(call.axes[0], len(source.shape)) if axis not in call.axes
    )
    contiguous = step == 1 and not kept_behind and is_contiguous(source)
    base = _row_base(call)
    if contiguous:
        results = "1 result" if rows == 1 else f"{rows} results"
        team = "a warp" if length <= 1024 else "a block"
        return say("contiguous_rows", results=results, length=length, source=source, team=team)
    read = f"{length} elements of `{source.name}`, stride {source.stride}, from `{base}` on"
    apart = f", {step} elements apart along the last reduced axis" if step != 1 else ""
    coalesced = f" {say('coalesced_results')}" if is_contiguous(source) else ""
    return f"Result `o`, one of {rows}, takes {read}{apart}.{coalesced}"


def _row_base(call: Call) -> str:
    source = call.source
    kept = [axis for axis in range(len(source.shape)) if axis not in call.axes and source.shape[axis] > 1]
    names = axis_names(len(source.shape))
    terms = [names[axis] if source.stride[axis] == 1 else f"{names[axis]} * {source.stride[axis]}" for axis in kept]
    return " + ".join(terms) or "0"


def _softmax(call: Call) -> str:
    rows, length, step = row_of(call)
    source = call.source
    if not is_contiguous(source):
        return say("scattered_softmax", rows=rows, length=length, base=_row_base(call), source=source, step=step)
    if step == 1:
        return say("softmax_of_rows", rows=rows, length=length, source=source)
    return say("softmax_of_columns", rows=rows, step=step, apart=step * length)


def _normalization(call: Call) -> str:
    groups, length = group_row(call)
    source = call.source
    if call.packet.startswith(("native_batch", "_native_batch", "_batch")) and len(source.shape) > 1:
        return say("batch_norm", total=count(source), groups=groups, length=length, source=source)
    weight = "Element `j` of it reads weight and bias at `j`."
    if call.packet == "native_group_norm":
        channel = f"`c = i / {source.stride[1]} % {source.shape[1]}`"
        weight = f"The element at flat index `i` reads weight and bias at {channel}."
    share = f"A group has {count(source)} / {groups} = {length} elements, which a block can share: group `g` owns "
    owned = f"elements `g * {length}` to `g * {length} + {length} - 1` of `{source.name}`"
    if is_contiguous(source):
        return f"{share}{owned}, which are contiguous. {weight}"
    names = axis_names(len(source.shape))
    place = f"element ({', '.join(names)}) is at `{offset_of(source, names)}`"
    return f"{share}{owned} in the order of its coordinates. In memory they lie apart: {place}. {weight}"


def _matmul(call: Call) -> str:
    left, right = call.factors
    out = call.output
    if len(left.shape) < 2 or len(right.shape) < 2:
        return say("matrix_vector", out=out, length=left.shape[-1])
    columns, inner = out.shape[-1], right.shape[-2]
    batch = f"`b = blockIdx.z`, {out.shape[0]} products; " if len(out.shape) == 3 else ""
    lead = "b * {} + ".format
    a = (lead(left.stride[0]) if batch else "") + f"m * {left.stride[-2]} + k * {left.stride[-1]}"
    b = (lead(right.stride[0]) if batch else "") + f"k * {right.stride[-2]} + n * {right.stride[-1]}"
    a, b = a.replace(" * 1 ", " ").removesuffix(" * 1"), b.replace(" * 1 ", " ").removesuffix(" * 1")
    bias = ""
    if call.packet in ("addmm", "baddbmm") and len(call.operands) > 2:
        bias = f" {say('added_bias', seed=out.name, bias=call.operands[0])}"
    facts = {"out": out, "columns": columns, "inner": inner, "left": left, "right": right, "a": a, "b": b}
    transposed = f" {say('transposed_view', right=right)}" if right.stride[-1] != 1 and right.shape[-1] > 1 else ""
    product = say("matrix_product", seed=out.name, batch=batch, transposed=transposed, bias=bias, **facts)
    return f"{product} {say('tiles_in_shared_memory', seed=out.name)}"


def _convolution(call: Call) -> str:
    out, source, weight = call.output, call.source, call.weight
    rank = len(weight.shape) - 2
    stride, pad, step = (call.integers(name) for name in ("stride", "padding", "dilation"))
    if call.is_transposed or rank not in (1, 2):
        text = f"{_flat(out)} {say('gathered_convolution', source=named(source), weight=named(weight))}"
        if not call.is_transposed:
            return text
        last = {"pad": pad[-1], "step": step[-1], "stride": stride[-1], "size": source.shape[-1]}
        return f"{text} {say('transposed_convolution', **last)}"
    axes = ("h", "w")[-rank:]
    taps = ("r", "s")[-rank:]
    places = [
        _place_text(axis, tap, *(numbers[min(index, len(numbers) - 1)] for numbers in (stride, pad, step)))
        for index, (axis, tap) in enumerate(zip(axes, taps, strict=True))
    ]
    groups = call.integers("groups") or (1,)
    first = f" Filter `c` sees only the {weight.shape[1]} channels of its own group." if groups[0] > 1 else ""
    names = join(["`n`", "`c` (the filter)", *(f"`{axis}`" for axis in axes)])
    facts = {"out": out, "source": source, "weight": weight, "names": names, "places": join(places)}
    return say("convolution", coordinates=coordinates(out.shape, out.name), **facts) + first


def _place_text(axis: str, tap: str, stride: int, pad: int, step: int) -> str:
    scaled = axis if stride == 1 else f"{axis} * {stride}"
    less = f" - {pad}" if pad else ""
    return f"`{axis}_in = {scaled}{less} + {tap if step == 1 else f'{tap} * {step}'}`"


def _pooling(call: Call) -> str:
    out, source = call.output, call.source
    if call.packet.lstrip("_").startswith("adaptive") and len(out.shape) > 2:
        size, made, last = source.shape[-1], out.shape[-1], axis_names(len(out.shape))[-1]
        return f"{_flat(out)} {say('adaptive_window', source=named(source), last=last, size=size, made=made)}"
    window, stride = call.integers("kernel_size"), call.integers("stride") or call.integers("kernel_size")
    names = axis_names(len(out.shape))[-len(stride) :]
    places = [f"`{name} * {step}`" for name, step in zip(names, stride, strict=True)]
    start = f"starts at {join(places)} less the padding" if window else "has a size of its own"
    plane = strides_of(source.shape)[-3] if len(source.shape) > 2 else count(source)
    return f"{_flat(out)} {say('window', start=start, plane=plane, source=source)}"


def _scan(call: Call) -> str:
    rows, length, step = row_of(call)
    apart = "next to each other" if step == 1 else f"{step} elements apart"
    return say("scan", rows=rows, length=length, apart=apart)


def _lookup(call: Call) -> str:
    out = call.output
    if call.packet in SCATTERS:
        return _scatter(call)
    source = call.operands[0] if call.operands else out
    text = _flat(out)
    if call.packet == "embedding":
        return f"{text} Row `idx` of `{source.name}` starts at `idx * {source.stride[0]}`; `idx` is 64-bit."
    return f"{text} {say('loaded_place', source=named(source), strides=source.stride)}"


def _scatter(call: Call) -> str:
    """Values that are written or added at places that an index tensor holds."""
    out, where = call.output, [fact for fact in call.operands[1:] if fact.dtype == "int64"]
    index = join([f"`{fact.name}`" for fact in where]) if where else "the index"
    if adds_to_places(call):
        return say("added_to_places", total=count(call.operands[-1]), source=call.operands[-1], index=index, out=out)
    return f"{_flat(out)} {say('scatter', index=index)}"


def _placement(call: Call) -> str:
    out = call.output
    if "_pad" in call.packet and (pads := call.integers("pad") or call.integers("padding")):
        return f"{_flat(out)} {_padding(call, pads[0])}"
    if call.packet == "cat" and len(call.operands) > 1 and out.shape:
        axis = (call.integers("dim") or (0,))[0] % len(out.shape)
        first = call.operands[0]
        return f"{_flat(out)} {say('concatenation', axis=axis, size=first.shape[axis], first=first)}"
    origin = origin_of(call)
    source = f"`{element_of(call)}` is `{origin}`" if origin else f"It has one source in {named(call.source)}"
    return f"{_flat(out)} {source}."


def _padding(call: Call, before: int) -> str:
    """Where an element of a padded tensor comes from, along the last axis."""
    size = call.source.shape[-1]
    name = axis_names(len(call.output.shape))[-1]
    outside = {
        "reflection": f"below 0 it is `-{name}_in`, from {size} on `2 * ({size} - 1) - {name}_in`",
        "replication": f"below 0 it is 0, from {size} on it is the last place",
    }.get(call.packet.split("_")[0], f"below 0 and from {size} on, the padding value is stored without a load")
    return f"Its source along the last axis is `{name}_in = {name} - {before}`; {outside}. Other axes likewise."


def _other(call: Call) -> str:
    out = call.output
    reads = join(unique([named(fact) for fact in call.operands])) if call.operands else "no operand"
    return f"{_flat(out)} {say('gather_anything', reads=reads)}"


_WRITERS = by_kind(
    _reduction, _softmax, _normalization, _matmul, _convolution, _pooling, _scan, _lookup, _placement, _other
)
