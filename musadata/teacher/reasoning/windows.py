"""The formulas of convolutions and poolings, with the place in the input that each tap reads."""

from math import prod

from musadata.teacher.reasoning.element_origins import adaptive_windows
from musadata.teacher.reasoning.kernel_plan import Call
from musadata.teacher.reasoning.task_analysis import product_text

_AXES = "dhw"


def convolution_formula(call: Call) -> str:
    """One element of a convolution, with its bias."""
    rank = len(call.weight.shape) - 2
    axes, filters = _AXES[-rank:], call.weight.shape
    groups, transposed = (call.integers("groups") or (1,))[0], call.is_transposed
    taps = [f"k{axis}" if size > 1 else "0" for axis, size in zip(axes, filters[2:], strict=True)]
    places = (_landing if transposed else _places)(call, axes, filters[2:])
    sample = ["n"] if len(call.source.shape) == rank + 2 else []
    per_group = (filters[0] if transposed else call.source.shape[len(sample)]) // groups
    own, outer = (filters[1], filters[0]) if transposed else (filters[0] // groups, filters[1])
    group = "o" if own == 1 else f"⌊o / {own}⌋"
    channel = "c" if groups == 1 else group if per_group == 1 else f"{group}·{per_group} + c"
    weight = [channel, "o" if groups == 1 else "0" if own == 1 else f"o % {own}"] if transposed else ["o", "c"]
    if per_group == 1:
        weight = [part.replace("c", "0") for part in weight] if not transposed else weight
    element = f"{call.source.name}[{', '.join([*sample, channel, *places])}]"
    factor = f"{call.weight.name}[{', '.join([*weight, *taps])}]"
    bias = f"{call.operands[2].name}[o] + " if len(call.operands) > 2 else ""
    result = f"`{call.output.name}`[{', '.join([*sample, 'o', *axes])}]"
    ranges = [f"c < {per_group}"] * (per_group > 1) + _ranges(axes, filters[2:])
    terms = f"{product_text((per_group, *filters[2:]))} terms"
    if transposed:
        whole = " the place is whole and" if any(step > 1 for step in call.integers("stride")) else " the place is"
        count = f", at most {terms}, of which those count where{whole} inside of the input"
    else:
        count = f": {terms}{_outside(call)}" if outer * prod(filters[2:]) > 1 else ""
    return f"{result} = {bias}Σ {element}·{factor}{', ' * bool(ranges)}{', '.join(ranges)}{count}"


def pooling_formula(call: Call) -> str:
    """One element of a pooling over windows."""
    what = "max" if "max" in call.packet else "mean"
    if "adaptive" in call.packet:
        return adaptive_windows(call, what)
    window = call.integers("kernel_size")
    rank = 3 if "3d" in call.packet else 2 if "2d" in call.packet else 1
    axes, window = _AXES[-rank:], window * rank if len(window) == 1 else window
    outer = ["n", "c"][rank + 2 - len(call.source.shape) :]
    element = f"{call.source.name}[{', '.join([*outer, *_places(call, axes, window)])}]"
    result = f"`{call.output.name}`[{', '.join([*outer, *axes])}]"
    ranges = ", ".join(_ranges(axes, window))
    if what == "max":
        return f"{result} = max {element}{', ' * bool(ranges)}{ranges}{_outside(call, 'is no candidate')}"
    divisor = call.argument("divisor_override", "None")
    counted = call.argument("count_include_pad", "True") == "True" or not any(call.integers("padding"))
    usual = str(prod(window)) if counted else "the taps inside of the input"
    number = usual if divisor == "None" else divisor
    return f"{result} = (Σ {element}) / {number}{', ' * bool(ranges)}{ranges}{_outside(call)}"


def _ranges(axes: str, window: tuple[int, ...]) -> list[str]:
    return [f"k{axis} < {size}" for axis, size in zip(axes, window, strict=True) if size > 1]


def _outside(call: Call, counts: str = "counts as 0") -> str:
    return f"; a place outside of the input {counts}" if any(call.integers("padding")) else ""


def _places(call: Call, axes: str, window: tuple[int, ...]) -> list[str]:
    """Where a tap reads along each axis: `h·2 + kh − 1`."""
    texts = []
    for axis, size, stride, pad, dilation in zip(axes, window, *_steps(call, window), strict=True):
        moved = axis if stride == 1 else f"{axis}·{stride}"
        tap = "" if size == 1 else f" + k{axis}" if dilation == 1 else f" + k{axis}·{dilation}"
        texts.append(f"{moved}{tap}{f' − {pad}' if pad else ''}")
    return texts


def _landing(call: Call, axes: str, window: tuple[int, ...]) -> list[str]:
    """Which input place lands on an output place by each tap of a transposed convolution: `(h + 1 − kh) / 2`."""
    texts = []
    for axis, size, stride, pad, dilation in zip(axes, window, *_steps(call, window), strict=True):
        tap = "" if size == 1 else f" − k{axis}" if dilation == 1 else f" − k{axis}·{dilation}"
        whole = f"{axis}{f' + {pad}' if pad else ''}{tap}"
        texts.append(whole if stride == 1 else f"({whole}) / {stride}" if whole != axis else f"{axis} / {stride}")
    return texts


def _steps(call: Call, window: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Stride, padding and dilation along each axis."""
    found = []
    for name, usual in (("stride", window), ("padding", (0,)), ("dilation", (1,))):
        given = call.integers(name) or usual
        found.append(given if len(given) == len(window) else given[:1] * len(window))
    return tuple(found)
