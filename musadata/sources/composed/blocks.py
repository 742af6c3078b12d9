"""Blocks of sequence models, embeddings and losses, in several common formulations."""

from musadata.sources.composed.builder import Builder
from musadata.sources.composed.chain_operators import SMOOTH, activation, broadcast, channels_name
from musadata.sources.composed.chains import follow, start_rows
from musadata.sources.composed.snippets import SNIPPETS, write_snippet


def _norm(builder: Builder, features: str) -> str:
    kind = builder.pick(["LayerNorm", "RMSNorm"])
    return builder.layer("norm", f"nn.{kind}({features})")


def feed_forward(builder: Builder) -> None:
    """A transformer's or mixer's feed-forward block, plain or gated."""
    start_rows(builder, tokens=True)
    name = builder.pick(["plain", "gated", "gated_packed", "low_rank"])
    features, width = channels_name(builder), builder.shape[-1]
    value = builder.size([128, 192, 256, 384]) if name != "low_rank" else builder.size([4, 8, 16])
    hidden = builder.argument("rank" if name == "low_rank" else "hidden_features", value)
    function = builder.pick(SMOOTH)
    inner = "x"
    if builder.chance(0.6):
        inner = "hidden"
        builder.line(f"hidden = {_norm(builder, features)}(x)")
    write_snippet(builder, "feed_forward", name, function, features=features, hidden=hidden, inner=inner)
    if name == "low_rank":
        builder.work += builder.elements * width
    else:
        builder.apply("x + self.down(hidden)" if builder.chance(0.7) else "self.down(hidden)")
    builder.work += builder.elements * value * (3 if name.startswith("gated") else 2)


def attention(builder: Builder) -> None:
    """Scaled dot-product attention over heads, in several spellings."""
    builder.note("heads")
    batch, heads = builder.size([1, 2, 4]), builder.size([4, 8])
    length, width = builder.size([16, 24, 32, 48, 64]), builder.size([16, 24, 32])
    builder.shape = (batch, length, heads * width)
    names = [builder.constant("batch_size", batch), builder.constant("length", length)]
    features = builder.argument("embed_dim", heads * width)
    count = builder.argument("num_heads", heads)
    builder.input("x", [*names, features])
    name = builder.pick(["fused", "causal_fused", "written", "causal", "biased", "cosine", "linear", "cross", "top_k"])
    builder.layer("num_heads", count)
    builder.layer("head_dim", f"{features} // {count}")
    other = "x"
    if name == "cross":
        other = builder.input("memory", [names[0], str(builder.size([20, 32, 40])), features])
    packed = name != "cross" and builder.chance(0.5)
    if packed:
        qkv = builder.layer(
            "qkv", f"nn.Linear({features}, 3 * {features}{builder.structure.choice(['', ', bias=False'])})"
        )
        builder.line("batch, length, _ = x.shape")
        builder.line(f"qkv = {qkv}(x).view(batch, length, 3, self.num_heads, self.head_dim)")
        builder.line("query, key, value = qkv.permute(2, 0, 3, 1, 4)")
    else:
        builder.line("batch, length, _ = x.shape")
        for part in ("query", "key", "value"):
            layer = builder.layer(part, f"nn.Linear({features}, {features})")
            source = "x" if part == "query" else other
            builder.line(f"{part} = {layer}({source}).view(batch, -1, self.num_heads, self.head_dim).transpose(1, 2)")
    builder.note("packed" if packed else "separate")
    positions = builder.argument("length", length)
    write_snippet(builder, "attention", name, heads=count, positions=positions)
    builder.line("x = x.transpose(1, 2).reshape(batch, length, -1)")
    if builder.pick(["projected", "bare"]) == "projected":
        builder.apply(f"{builder.layer('out', f'nn.Linear({features}, {features})')}(x)")
    builder.work += 4 * batch * length * (heads * width) ** 2 + 2 * batch * heads * length**2 * width


def lookup(builder: Builder) -> None:
    """Embeddings, gathers, scatters and histograms with work around them."""
    builder.note("tokens")
    batch, length = builder.size([4, 8, 16]), builder.size([16, 24, 32])
    count, width = builder.size([50, 100, 200]), builder.size([64, 96, 128])
    builder.constant("batch_size", batch)
    builder.constant("length", length)
    name = builder.pick(list(SNIPPETS["lookup"]))
    features = builder.argument("features", width)
    rows, groups = builder.argument("num_embeddings", count), builder.argument("num_groups", 6)
    builder.argument("length", length)
    write_snippet(builder, "lookup", name, features=features, rows=rows, groups=groups)
    shapes = {"bag": (batch, width), "gather": (batch, 12, width), "scatter_mean": (batch, 6, width)}
    builder.shape = shapes.get(name, (batch, length, width))
    if name in ("embedding", "positions", "bag") and builder.chance(0.3):
        builder.apply(f"{_norm(builder, features)}(x)")
    else:
        activation(builder)


def loss(builder: Builder) -> None:
    """A head and its loss."""
    losses = SNIPPETS["loss"]
    name = builder.pick(list(losses), [snippet["weight"] for snippet in losses.values()])
    start_rows(builder, tokens=False)
    features = channels_name(builder)
    width, batch = builder.shape[-1], builder.shape[0]
    if builder.chance(0.2) and name != "triplet":
        outer_value = builder.size([10, 16, 32, 50])
        classes = name in ("cross_entropy", "smoothed", "focal", "distillation")
        outer = builder.argument("num_classes" if classes else "out_features", outer_value)
        builder.apply(f"{builder.layer('head', f'nn.Linear({features}, {outer})')}(x)")
        builder.note("head")
        builder.work += batch * width * outer_value
    else:
        outer = builder.constant("in_features", width)
        if builder.chance(0.7):
            broadcast(builder)
    spread = outer if outer in builder.arguments else channels_name(builder)
    write_snippet(builder, "loss", name, width=outer, spread=spread)


def gated_scan(builder: Builder) -> None:
    """A linear recurrence over time through cumulative sums."""
    start_rows(builder, tokens=True)
    features, width = channels_name(builder), builder.shape[-1]
    name = builder.pick(list(SNIPPETS["gated_scan"]))
    write_snippet(builder, "gated_scan", name, builder.pick(SMOOTH), features=features)
    if name == "decayed":
        builder.work += builder.elements * width
    follow(builder, 0, 1)
