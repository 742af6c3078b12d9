"""Layout and elementwise work of modern models: rotations, shifts, patches, windows."""

from musadata.sources.composed.builder import Builder
from musadata.sources.composed.chain_operators import activation, channels_name, normalization
from musadata.sources.composed.chains import BATCH, CHANNELS, start_rows

_OF_ROWS = ("rotary", "token_shift", "interleave", "shift")
_OF_IMAGES = {
    "patches": [
        "x = x.view(batch, channels, height // 4, 4, width // 4, 4)",
        "x = x.permute(0, 2, 4, 1, 3, 5).reshape(batch, -1, channels * 16)",
    ],
    "windows": [
        "x = x.view(batch, channels, height // 8, 8, width // 8, 8)",
        "x = x.permute(0, 2, 4, 3, 5, 1).reshape(-1, 64, channels)",
    ],
    "channel_shuffle": [
        "x = x.view(batch, 4, channels // 4, height, width)",
        "x = x.transpose(1, 2).reshape(batch, channels, height, width)",
    ],
    "space_to_depth": [
        "x = torch.cat([x[:, :, ::2, ::2], x[:, :, 1::2, ::2], x[:, :, ::2, 1::2], x[:, :, 1::2, 1::2]], dim=1)"
    ],
}


def mixing(builder: Builder) -> None:
    """One rearrangement of a sequence or an image, and the usual steps after it."""
    name = builder.pick(
        ["rotary", "token_shift", "patches", "windows", "channel_shuffle", "space_to_depth", "interleave", "shift"]
    )
    if name in _OF_ROWS:
        _mix_rows(builder, name)
    else:
        _mix_image(builder, name)
    activation(builder)
    if builder.chance(0.5):
        normalization(builder)


def _mix_rows(builder: Builder, name: str) -> None:
    start_rows(builder, tokens=True)
    features = channels_name(builder)
    if name == "rotary":
        builder.line("half = x.shape[-1] // 2")
        builder.line("steps = torch.arange(x.shape[1], device=x.device)[:, None]")
        builder.line("angle = steps * 10000.0 ** (-torch.arange(half, device=x.device) / half)")
        builder.line("first, second = x[..., :half], x[..., half:]")
        builder.line("cos, sin = torch.cos(angle), torch.sin(angle)")
        builder.apply("torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)")
    elif name == "token_shift":
        builder.line("before = F.pad(x, (0, 0, 1, -1))")
        builder.apply(f"x + (before - x) * {builder.parameter('mix', features)}")
    elif name == "interleave":
        other = builder.input("other", ["batch_size", "length", "in_features"])
        builder.apply(f"torch.stack([x, {other}], dim=2).flatten(1, 2)")
        builder.shape = (builder.shape[0], 2 * builder.shape[1], builder.shape[2])
    else:
        builder.line("left, right = x.chunk(2, dim=-1)")
        builder.apply("torch.cat([left.roll(1, dims=1), right.roll(-1, dims=1)], dim=-1)")


def _mix_image(builder: Builder, name: str) -> None:
    builder.note("image")
    batch, width = builder.size(BATCH), builder.size([c for c in CHANNELS if c % 4 == 0])
    space = builder.size([16, 24, 32])
    builder.spatial = name in ("channel_shuffle", "space_to_depth")
    sizes = {"batch_size": batch, "in_channels": width, "height": space, "width": space}
    builder.input("x", [builder.constant(axis, size) for axis, size in sizes.items()])
    if name != "space_to_depth":
        builder.line("batch, channels, height, width = x.shape")
    builder.lines.extend(_OF_IMAGES[name])
    builder.shape = {
        "patches": (batch, space * space // 16, width * 16),
        "windows": (batch * space * space // 64, 64, width),
        "channel_shuffle": (batch, width, space, space),
        "space_to_depth": (batch, 4 * width, space // 2, space // 2),
    }[name]
