"""Layout and elementwise work of modern models: rotations, shifts, patches, windows."""

from musadata.sources.composed.builder import Builder
from musadata.sources.composed.chain_operators import activation, channels_name, normalization
from musadata.sources.composed.chains import BATCH, CHANNELS, start_rows
from musadata.sources.composed.snippets import SNIPPETS, write_snippet

_OF_ROWS = ("rotary", "token_shift", "interleave", "shift")


def mixing(builder: Builder) -> None:
    """One rearrangement of a sequence or an image, and the usual steps after it."""
    name = builder.pick(list(SNIPPETS["mixing"]))
    if name not in _OF_ROWS:
        _mix_image(builder, name)
    else:
        start_rows(builder, tokens=True)
        write_snippet(builder, "mixing", name, features=channels_name(builder))
        if name == "interleave":
            builder.shape = (builder.shape[0], 2 * builder.shape[1], builder.shape[2])
    activation(builder)
    if builder.chance(0.5):
        normalization(builder)


def _mix_image(builder: Builder, name: str) -> None:
    builder.note("image")
    batch, width = builder.size(BATCH), builder.size([c for c in CHANNELS if c % 4 == 0])
    space = builder.size([16, 24, 32])
    builder.spatial = name in ("channel_shuffle", "space_to_depth")
    sizes = {"batch_size": batch, "in_channels": width, "height": space, "width": space}
    builder.input("x", [builder.constant(axis, size) for axis, size in sizes.items()])
    write_snippet(builder, "mixing", name)
    builder.shape = {
        "patches": (batch, space * space // 16, width * 16),
        "windows": (batch * space * space // 64, 64, width),
        "channel_shuffle": (batch, width, space, space),
        "space_to_depth": (batch, 4 * width, space // 2, space // 2),
    }[name]
