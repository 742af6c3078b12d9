"""From a flat index to coordinates and back, as text."""

from collections.abc import Sequence
from string import ascii_lowercase

from musadata.teacher.reasoning.sentences import say
from musadata.teacher.reasoning.task_analysis import join
from musadata.tracing.layout import strides_of


def coordinates(shape: Sequence[int]) -> str:
    """How a flat index is split into coordinates, with one worked example."""
    if len([size for size in shape if size > 1]) < 2:
        return "The index is the place itself."
    names, strides = axis_names(len(shape)), strides_of(shape)
    parts = []
    for axis, (name, stride, size) in enumerate(zip(names, strides, shape, strict=True)):
        if size == 1:
            continue
        quotient = "i" if stride == 1 else f"i / {stride}"
        parts.append(f"`{name} = {quotient}{f' % {size}' if axis else ''}`")
    return f"{say('coordinates', shape=shape, parts=join(parts))} {_example(shape)}"


_AXES = {2: "rc", 3: "nrc", 4: "nchw"}


def axis_names(rank: int) -> list[str]:
    """Names of a tensor's axes."""
    if rank in _AXES:
        return list(_AXES[rank])
    return [f"i{letter}" for letter in ascii_lowercase[:rank]]


def _example(shape: Sequence[int]) -> str:
    """A worked example away from the corners: an element's coordinates and its flat index."""
    if len(shape) < 2 or max(shape) < 2:
        return ""
    place = tuple(size * 2 // 3 if size > 2 else size - 1 for size in shape)
    strides = strides_of(shape)
    terms = [(at, step) for at, step in zip(place, strides, strict=True) if at]
    if not terms:
        return ""
    sum_text = " + ".join(str(at) if step == 1 else f"{at} × {step}" for at, step in terms)
    flat = sum(at * step for at, step in terms)
    return say("example", place=place, sum=f"{sum_text} = {flat}") if sum_text != str(flat) else ""
