"""The operators of chains. Each adds its code to a builder and updates the shape."""

from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

import yaml

from musadata.sources.composed.builder import ANY, Builder, Range

Step = Callable[[Builder], None]

OPERATORS: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("chain_operators.yaml").read_text(encoding="utf-8")
)
ACTIVATIONS = OPERATORS["activations"]
AXES = {1: ["length"], 2: ["height", "width"], 3: ["depth", "height", "width"]}
SMOOTH = ["relu", "gelu", "silu", "tanh", "leaky_relu", "elu", "mish", "hardswish"]  # for the middle of a block
_POSITIVE, _UNIT, _SIGNED_UNIT, _CLAMPED = (0.0, inf), (0.0, 1.0), (-1.0, 1.0), (-1.0, 2.0)


def dimensions(builder: Builder) -> int:
    return len(builder.shape) - 2


def channels_name(builder: Builder) -> str:
    """The name of the size of the channel axis, or of the features."""
    value = builder.shape[1] if builder.spatial else builder.shape[-1]
    names = ["out_channels", "hidden_channels", "in_channels", "out_features", "hidden_features", "in_features"]
    known = [name for name in reversed(builder.constants) if builder.constants[name] == value]
    chosen = next((name for name in known if name.rstrip("0123456789") in names), "")
    return builder.argument(chosen or ("channels" if builder.spatial else "features"), value)


def axis_names(builder: Builder) -> list[str]:
    """The sizes of the value by name, as numbers where none was given to them."""
    wide = ["in_channels", "out_channels"] if builder.spatial else ["in_features", "out_features"]
    places = [[name] for name in AXES[dimensions(builder)]] if builder.spatial else [["length"]] * dimensions(builder)
    options = [["batch_size"], wide, *places] if builder.spatial else [["batch_size"], *places, wide]
    return [
        next((name for name in names if builder.constants.get(name) == size), str(size))
        for names, size in zip(options, builder.shape, strict=True)
    ]


def per_channel(builder: Builder) -> str:
    """A shape that broadcasts one number per channel or feature, in names."""
    name = channels_name(builder)
    return ", ".join([name, *["1"] * dimensions(builder)]) if builder.spatial else name


def written(name: str, value: str) -> str:
    """An activation of an expression."""
    return str(ACTIVATIONS[name]["function"]).format(value)


def activation(builder: Builder) -> None:
    shown = [
        name for name, row in ACTIVATIONS.items() if "identity" not in row or not builder.is_within(row["identity"])
    ]
    name = builder.pick(shown)
    layer = ACTIVATIONS[name]["layer"]
    expression = f"{builder.layer('activation', layer)}(x)" if layer and builder.chance(0.3) else written(name, "x")
    builder.apply(expression, ACTIVATIONS[name].get("bounds", ANY))


def normalization(builder: Builder) -> None:
    if builder.spatial:
        rank = dimensions(builder)
        name = builder.pick(["batch_norm", "group_norm", "group_norm", "instance_norm"])
        channels = channels_name(builder)
        if name == "group_norm":
            text = f"nn.GroupNorm({builder.argument('num_groups', builder.size([2, 4]))}, {channels})"
        else:
            kind, tail = ("BatchNorm", "") if name == "batch_norm" else ("InstanceNorm", ", affine=True")
            text = f"nn.{kind}{rank}d({channels}{tail})"
        builder.apply(f"{builder.layer('norm', text)}(x)")
        return
    name = builder.pick(["layer_norm", "layer_norm", "rms_norm", "normalize", "standardize"])
    features = channels_name(builder)
    if name == "normalize":
        builder.apply("F.normalize(x, dim=-1)")
    elif name == "standardize":
        builder.line("mean = x.mean(dim=-1, keepdim=True)")
        builder.line("variance = x.var(dim=-1, keepdim=True, unbiased=False)")
        builder.apply("(x - mean) / torch.sqrt(variance + 1e-5)")
    else:
        layer = "nn.LayerNorm" if name == "layer_norm" else "nn.RMSNorm"
        builder.apply(f"{builder.layer('norm', f'{layer}({features})')}(x)")


def broadcast(builder: Builder) -> None:
    """A learned value per channel, or a plain number."""
    names = ["bias", "scale", "affine", "subtract", "clamp", "gate", "temperature", "floor"]
    name = builder.pick([name for name in names if name != "clamp" or not builder.is_within(_CLAMPED)])
    if name in OPERATORS["learned"]:
        stem, form = OPERATORS["learned"][name]
        builder.apply(form.format(builder.parameter(stem, per_channel(builder))))
    elif name == "affine":
        scale, shift = (builder.parameter(stem, per_channel(builder)) for stem in ("scale", "shift"))
        builder.apply(f"x * {scale} + {shift}")
    elif name == "gate":
        builder.apply(f"x * torch.sigmoid({builder.parameter('gate', per_channel(builder))})", _with_zero(builder))
    elif name == "clamp":
        builder.apply("torch.clamp(x, min=-1.0, max=2.0)", _CLAMPED)
    else:
        builder.apply(f"x / {builder.size([2, 4, 8])}.0", _with_zero(builder))


def _with_zero(builder: Builder) -> Range:
    """The bounds of `x` after it is scaled towards zero."""
    return min(builder.bounds[0], 0.0), max(builder.bounds[1], 0.0)


def pooling(builder: Builder) -> None:
    """Only for values with space left to pool."""
    rank = dimensions(builder)
    if not builder.spatial or min(builder.shape[2:]) < 4:
        activation(builder)
        return
    name = builder.pick(["max_pool", "avg_pool", "overlapping_max_pool", "adaptive_avg_pool"])
    space = builder.shape[2:]
    if name == "adaptive_avg_pool":
        size = builder.size([2, 3])
        builder.apply(f"{builder.layer('pool', f'nn.AdaptiveAvgPool{rank}d({size})')}(x)", builder.bounds)
        builder.shape = (*builder.shape[:2], *[size] * rank)
        return
    if name == "overlapping_max_pool":
        layer = builder.layer("pool", f"nn.MaxPool{rank}d(kernel_size=3, stride=2, padding=1)")
        builder.apply(f"{layer}(x)", builder.bounds)
        builder.shape = (*builder.shape[:2], *((size - 1) // 2 + 1 for size in space))
        return
    kind = "Max" if name == "max_pool" else "Avg"
    kernel = builder.argument("pool_size", 2)
    builder.apply(f"{builder.layer('pool', f'nn.{kind}Pool{rank}d({kernel})')}(x)", builder.bounds)
    builder.shape = (*builder.shape[:2], *(size // 2 for size in space))


def softmax(builder: Builder) -> None:
    name = builder.pick(["softmax", "softmax", "log_softmax", "scaled_softmax"])
    axis = 1 if builder.spatial else -1
    builder.apply(OPERATORS["softmaxes"][name].format(axis), ANY if name == "log_softmax" else _UNIT)


def reduction(builder: Builder) -> None:
    """A reduction over space, channels or features, with the axis kept."""
    name = builder.pick(["mean", "sum", "amax", "logsumexp", "amin", "norm", "var"])
    where = builder.pick(["space", "channels"]) if builder.spatial else "features"
    rank = len(builder.shape)
    axes = {"space": tuple(range(2, rank)), "channels": (1,), "features": (-1,)}[where]
    written = str(axes[0]) if len(axes) == 1 else str(list(axes))
    call = "torch.linalg.vector_norm" if name == "norm" else f"torch.{name}"
    kept = {"mean": builder.bounds, "amax": builder.bounds, "amin": builder.bounds, "norm": _POSITIVE, "var": _POSITIVE}
    builder.apply(f"{call}(x, dim={written}, keepdim=True)", kept.get(name, ANY))
    gone = {axis % rank for axis in axes}
    builder.shape = tuple(1 if axis in gone else size for axis, size in enumerate(builder.shape))
    builder.note("reduced")


def residual(builder: Builder, inner: Step) -> None:
    """A step with a residual connection."""
    builder.note("residual")
    builder.line("residual = x")
    inner(builder)
    builder.apply("x + residual")


def skip_input(builder: Builder) -> None:
    """A second argument that is combined with the value elementwise."""
    name = builder.pick(list(OPERATORS["skips"]))
    second = builder.input("gate" if name == "multiply_gate" else "skip", axis_names(builder))
    builder.apply(OPERATORS["skips"][name].format(second), _with_zero(builder) if name == "multiply_gate" else ANY)


def scan(builder: Builder) -> None:
    name = builder.pick(list(OPERATORS["scans"]))
    builder.apply(OPERATORS["scans"][name])
    if name == "topk":
        builder.shape = (*builder.shape[:-1], 4)
