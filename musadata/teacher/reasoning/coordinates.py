"""From a flat index to coordinates, as text."""

from collections.abc import Sequence
from string import ascii_lowercase

from musadata.teacher.reasoning.sentences import say
from musadata.teacher.reasoning.task_analysis import join
from musadata.tracing.layout import strides_of


def coordinates(shape: Sequence[int]) -> str:
    """How a flat index is split into coordinates."""
    if len([size for size in shape if size > 1]) < 2:
        return "The index is the place itself."
    names, strides = axis_names(len(shape)), strides_of(shape)
    parts = []
    for axis, (name, stride, size) in enumerate(zip(names, strides, shape, strict=True)):
        if size == 1:
            continue
        quotient = "i" if stride == 1 else f"i / {stride}"
        parts.append(f"`{name} = {quotient}{f' % {size}' if axis else ''}`")
    return say("coordinates", shape=shape, parts=join(parts))


_AXES = {2: "rc", 3: "nrc", 4: "nchw"}


def axis_names(rank: int) -> list[str]:
    """Names of a tensor's axes."""
    if rank in _AXES:
        return list(_AXES[rank])
    return [f"i{letter}" for letter in ascii_lowercase[:rank]]
