"""Residual, squeezing, inverted and gated blocks of convolutional networks."""

import math
from collections.abc import Callable
from typing import NamedTuple

from musadata.sources.composed.builder import Builder
from musadata.sources.composed.chain_operators import SMOOTH, channels_name, written
from musadata.sources.composed.chains import start_space


class Start(NamedTuple):
    """The common start of every block: sizes of `x`, the name of its channels, an activation, hidden channels."""

    batch: int
    cells: int
    width: int
    channels: str
    activation: str
    hidden: int


def convolution_block(builder: Builder) -> None:
    """One of the blocks, on an image or, if gated, on a signal."""
    name = builder.pick(list(_BLOCKS))
    start_space(builder, 1 if name == "gated" else 2)
    batch, width, *space = builder.shape
    cells, channels = batch * math.prod(space), channels_name(builder)
    activation = builder.pick(SMOOTH)
    _BLOCKS[name](builder, Start(batch, cells, width, channels, activation, builder.size([16, 24, 32])))


def _residual(builder: Builder, start: Start) -> None:
    channels = start.channels
    for number in ("1", "2"):
        builder.layer(f"conv{number}", f"nn.Conv2d({channels}, {channels}, kernel_size=3, padding=1, bias=False)")
        builder.layer(f"norm{number}", f"nn.BatchNorm2d({channels})")
    builder.line(f"out = {written(start.activation, 'self.norm1(self.conv1(x))')}")
    builder.line("out = self.norm2(self.conv2(out))")
    builder.apply(written(start.activation, "out + x"))
    builder.work += 2 * start.cells * start.width**2 * 9


def _squeeze_excite(builder: Builder, start: Start) -> None:
    hidden = builder.argument("squeezed_channels", builder.size([4, 8]))
    down = builder.layer("down", f"nn.Linear({start.channels}, {hidden})")
    up = builder.layer("up", f"nn.Linear({hidden}, {start.channels})")
    builder.line("pooled = x.mean(dim=(2, 3))")
    builder.line(f"hidden = {written(start.activation, f'{down}(pooled)')}")
    builder.line(f"gate = torch.sigmoid({up}(hidden))")
    builder.apply("x * gate[:, :, None, None]")
    builder.work += start.batch * start.width * 16


def _inverted(builder: Builder, start: Start) -> None:
    channels = start.channels
    hidden = builder.argument("hidden_channels", start.hidden * 2)
    builder.layer("expand", f"nn.Conv2d({channels}, {hidden}, kernel_size=1)")
    builder.layer("depthwise", f"nn.Conv2d({hidden}, {hidden}, kernel_size=3, padding=1, groups={hidden})")
    builder.layer("project", f"nn.Conv2d({hidden}, {channels}, kernel_size=1)")
    builder.line("hidden = F.relu6(self.expand(x))")
    builder.line("hidden = F.relu6(self.depthwise(hidden))")
    builder.apply("x + self.project(hidden)")
    builder.work += start.cells * start.hidden * 2 * (2 * start.width + 9)


def _spatial_gate(builder: Builder, start: Start) -> None:
    builder.layer("conv", "nn.Conv2d(2, 1, kernel_size=7, padding=3)")
    builder.line("mean = x.mean(dim=1, keepdim=True)")
    builder.line("peak = x.amax(dim=1, keepdim=True)")
    builder.line("gate = torch.sigmoid(self.conv(torch.cat([mean, peak], dim=1)))")
    builder.apply("x * gate")
    builder.work += start.cells * 98


def _convnext(builder: Builder, start: Start) -> None:
    channels = start.channels
    builder.layer("depthwise", f"nn.Conv2d({channels}, {channels}, kernel_size=7, padding=3, groups={channels})")
    builder.layer("norm", f"nn.LayerNorm({channels})")
    builder.layer("up", f"nn.Linear({channels}, 4 * {channels})")
    builder.layer("down", f"nn.Linear(4 * {channels}, {channels})")
    builder.line("hidden = self.depthwise(x).permute(0, 2, 3, 1)")
    builder.line(f"hidden = self.down({written(start.activation, 'self.up(self.norm(hidden))')})")
    builder.apply("x + hidden.permute(0, 3, 1, 2)")
    builder.work += start.cells * start.width * (49 + 8 * start.width)


def _gated(builder: Builder, start: Start) -> None:
    channels, dilation = start.channels, builder.pick(["1", "2", "4"])
    builder.layer(
        "conv", f"nn.Conv1d({channels}, 2 * {channels}, kernel_size=3, padding={dilation}, dilation={dilation})"
    )
    builder.layer("project", f"nn.Conv1d({channels}, {channels}, kernel_size=1)")
    builder.line("value, gate = self.conv(x).chunk(2, dim=1)")
    builder.line("hidden = torch.tanh(value) * torch.sigmoid(gate)")
    builder.apply("x + self.project(hidden)")
    builder.work += start.cells * start.width**2 * 7


def _pyramid(builder: Builder, start: Start) -> None:
    hidden = builder.argument("branch_channels", 8)
    builder.layer("project", f"nn.Conv2d({start.channels}, {hidden}, kernel_size=1)")
    builder.line("size = x.shape[2:]")
    builder.line("levels = [F.adaptive_avg_pool2d(x, bins) for bins in (1, 2, 4)]")
    mode = builder.pick(["nearest", "bilinear"])
    options = 'mode="nearest"' if mode == "nearest" else 'mode="bilinear", align_corners=False'
    builder.line(f"branches = [F.interpolate(self.project(level), size=size, {options}) for level in levels]")
    builder.apply("torch.cat([x, *branches], dim=1)")
    builder.work += start.cells * 24


def _shuffle_up(builder: Builder, start: Start) -> None:
    builder.layer("conv", f"nn.Conv2d({start.channels}, 4 * {start.channels}, kernel_size=3, padding=1)")
    builder.apply("F.pixel_shuffle(self.conv(x), 2)")
    builder.apply(written(start.activation, "x"))
    builder.work += start.cells * start.width**2 * 36


def _dense(builder: Builder, start: Start) -> None:
    hidden = builder.argument("growth", 8)
    builder.layer("norm", f"nn.BatchNorm2d({start.channels})")
    builder.layer("conv", f"nn.Conv2d({start.channels}, {hidden}, kernel_size=3, padding=1, bias=False)")
    builder.line(f"new = self.conv({written(start.activation, 'self.norm(x)')})")
    builder.apply("torch.cat([x, new], dim=1)")
    builder.work += start.cells * start.width * 72


_BLOCKS: dict[str, Callable[[Builder, Start], None]] = {
    "residual": _residual,
    "squeeze_excite": _squeeze_excite,
    "inverted": _inverted,
    "spatial_gate": _spatial_gate,
    "convnext": _convnext,
    "gated": _gated,
    "pyramid": _pyramid,
    "shuffle_up": _shuffle_up,
    "dense": _dense,
}
