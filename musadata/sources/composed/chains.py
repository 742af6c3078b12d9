"""Chains: one heavy operator and the light operators usually fused with it, or light operators only."""

from musadata.sources.composed.builder import Builder
from musadata.sources.composed.chain_operators import (
    AXES,
    OPERATORS,
    activation,
    broadcast,
    channels_name,
    dimensions,
    normalization,
    pooling,
    reduction,
    residual,
    scan,
    skip_input,
    softmax,
)

BATCH = (2, 3, 4, 8)
CHANNELS = (16, 32, 32, 48, 64, 64, 96, 128)
FEATURES = (64, 96, 128, 128, 192, 256, 384, 512)
SPACE = {1: (32, 48, 64, 100, 128), 2: (7, 8, 10, 12, 14, 16), 3: (4, 5, 6, 8)}
KINDS = {1: "sequence", 2: "image", 3: "volume"}
_LIGHT = (activation, normalization, broadcast, pooling, softmax, skip_input, reduction, scan)


def start_space(builder: Builder, rank: int = 0) -> None:
    """An input of images, sequences or volumes."""
    rank = rank or builder.structure.choices([2, 1, 3], [6, 2, 2])[0]
    builder.note(KINDS[rank])
    builder.spatial = True
    space = [builder.size(SPACE[rank]) for _ in range(rank)]
    builder.shape = (builder.size(BATCH), builder.size(CHANNELS), *space)
    names = [builder.constant("batch_size", builder.shape[0]), builder.constant("in_channels", builder.shape[1])]
    names += [builder.constant(name, size) for name, size in zip(AXES[rank], space, strict=True)]
    builder.input("x", names)


def start_rows(builder: Builder, tokens: bool | None = None) -> None:
    """An input of feature vectors, or of sequences of them."""
    tokens = builder.chance(0.4) if tokens is None else tokens
    builder.note("tokens" if tokens else "rows")
    features, batch = builder.size(FEATURES), builder.size(BATCH)
    length = builder.size((16, 24, 32, 48, 50, 64))
    builder.shape = (batch, length, features) if tokens else (batch * 8, features)
    names = [builder.constant("batch_size", builder.shape[0])]
    names += [builder.constant("length", length)] if tokens else []
    builder.input("x", [*names, builder.constant("in_features", features)])


def convolution(builder: Builder) -> None:
    """A convolution of one of the usual kinds."""
    rank = dimensions(builder)
    name = builder.pick(
        ["conv", "conv", "conv", "strided", "transposed", "depthwise", "grouped", "dilated", "pointwise"]
    )
    batch, channels, *space = builder.shape
    inner = channels_name(builder)
    out = channels if name == "depthwise" else builder.size((32, 48, 64, 64, 96, 128))
    outer = inner if name == "depthwise" else builder.argument("out_channels", out)
    size = 1 if name == "pointwise" else builder.size((3, 3, 5)) if rank < 3 else 3
    kernel = "kernel_size=1" if size == 1 else f"kernel_size={builder.argument('kernel_size', size)}"
    stride, padding, extra, groups = 1, size // 2, "", 1
    if name == "strided":
        stride, extra = 2, ", stride=2"
    elif name == "transposed":
        stride, padding, extra = 2, 0, ", stride=2"
    elif name == "depthwise":
        groups, extra = channels, f", groups={inner}"
    elif name == "grouped":
        groups, extra = 4, ", groups=4"
    elif name == "dilated":
        padding, extra = size - 1, ", dilation=2"
    padded = f", padding={padding}" if padding else ""
    kind = "ConvTranspose" if name == "transposed" else "Conv"
    layer = builder.layer("conv", f"nn.{kind}{rank}d({inner}, {outer}, {kernel}{padded}{extra})")
    builder.apply(f"{layer}(x)")
    if name == "transposed":
        space = [(length - 1) * stride + size for length in space]
    else:
        spread = 2 * (size - 1) if name == "dilated" else size - 1
        space = [(length + 2 * padding - spread - 1) // stride + 1 for length in space]
    builder.shape = (batch, out, *space)
    builder.work += builder.elements * channels // groups * size**rank


def linear(builder: Builder) -> None:
    """A linear layer, or a product with a second matrix."""
    rows = builder.elements // builder.shape[-1]
    name = builder.pick(["linear", "linear", "linear_no_bias", "weight_product", "bilinear_product"])
    inner = channels_name(builder)
    value = builder.size(FEATURES)
    if name == "bilinear_product" and len(builder.shape) == 3:
        builder.apply(f"torch.bmm(x, {builder.input('y', ['batch_size', 'in_features', 'length'])})")
        value = builder.shape[1]
    else:
        outer = builder.argument("out_features", value)
        if name in ("weight_product", "bilinear_product"):
            weight = builder.parameter("weight", f"{inner}, {outer}", f" / {inner} ** 0.5")
            builder.apply(f"torch.matmul(x, {weight})")
        else:
            bias = ", bias=False" if name == "linear_no_bias" else ""
            builder.apply(f"{builder.layer('linear', f'nn.Linear({inner}, {outer}{bias})')}(x)")
    builder.work += rows * builder.shape[-1] * value
    builder.shape = (*builder.shape[:-1], value)


STEPS = {step.__name__: step for step in (*_LIGHT, convolution)}
FOLLOWING = {STEPS[name]: weight for name, weight in OPERATORS["following"].items()}


def follow(builder: Builder, least: int, most: int) -> None:
    """Several light steps, no kind twice in a row."""
    before = None
    for _ in range(builder.structure.randint(least, most)):
        steps = [step for step in FOLLOWING if step is not before and not (step is pooling and dimensions(builder) < 1)]
        if "reduced" in builder.steps:
            steps = [step for step in steps if step in (activation, broadcast)] or [activation]
            steps = [activation] if min(builder.shape[1:2]) == 1 else steps
        step = builder.structure.choices(steps, [FOLLOWING[item] for item in steps])[0]
        if step in (activation, broadcast) and builder.chance(0.15):
            residual(builder, step)
        else:
            step(builder)
        before = step


def matrix_chain(builder: Builder) -> None:
    start_rows(builder)
    linear(builder)
    follow(builder, 2, 4)
    if "reduced" not in builder.steps and builder.chance(0.3):
        reduction(builder)


def pooling_chain(builder: Builder) -> None:
    start_space(builder)
    first = builder.structure.choice([activation, broadcast])
    first(builder)
    pooling(builder)
    activation(builder) if first is broadcast else broadcast(builder)
    if builder.chance(0.4):
        pooling(builder)
    if builder.chance(0.4):
        skip_input(builder)


def listed_chain(name: str, builder: Builder) -> None:
    """A chain of the table."""
    chain = OPERATORS["chains"][name]
    space = chain.get("space", 0.0)
    if space == 1.0 or (space and builder.chance(space)):
        start_space(builder, chain.get("rank", 0))
    else:
        start_rows(builder)
    for step in chain["steps"]:
        step, probability = step if isinstance(step, list) else (step, 1.0)
        if probability == 1.0 or builder.chance(probability):
            STEPS[step](builder)
    if "follow" in chain:
        follow(builder, *chain["follow"])
