"""Residual, squeezing, inverted and gated blocks of convolutional networks."""

import math
from collections.abc import Callable

from musadata.sources.composed.builder import Builder
from musadata.sources.composed.chain_operators import SMOOTH, channels_name
from musadata.sources.composed.chains import start_space
from musadata.sources.composed.snippets import SNIPPETS, write_snippet

# Multiply-adds of each block, by positions of the image, channels and hidden channels.
_WORK: dict[str, Callable[[int, int, int], int]] = {
    "residual": lambda cells, width, _: 18 * cells * width**2,
    "inverted": lambda cells, width, hidden: cells * hidden * (2 * width + 9),
    "spatial_gate": lambda cells, width, _: 98 * cells,
    "convnext": lambda cells, width, _: cells * width * (49 + 8 * width),
    "gated": lambda cells, width, _: 7 * cells * width**2,
    "pyramid": lambda cells, width, _: 24 * cells,
    "shuffle_up": lambda cells, width, _: 36 * cells * width**2,
    "dense": lambda cells, width, _: 72 * cells * width,
}


def convolution_block(builder: Builder) -> None:
    """One of the blocks, on an image or, if gated, on a signal."""
    name = builder.pick(list(SNIPPETS["image"]))
    start_space(builder, 1 if name == "gated" else 2)
    batch, width, *space = builder.shape
    cells, channels = batch * math.prod(space), channels_name(builder)
    activation, hidden = builder.pick(SMOOTH), builder.size([32, 48, 64])
    written = ""
    for argument, sizes in SNIPPETS["image"][name].get("argument", {}).items():
        written = builder.argument(argument, builder.size(sizes) if sizes else hidden)
    write_snippet(builder, "image", name, activation, channels=channels, hidden=written)
    builder.work += batch * width * 16 if name == "squeeze_excite" else _WORK[name](cells, width, hidden)
