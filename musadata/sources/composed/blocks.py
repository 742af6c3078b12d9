"""Blocks of sequence models, embeddings and losses, in several common formulations."""

from musadata.sources.composed.builder import Builder
from musadata.sources.composed.chain_operators import SMOOTH, activation, broadcast, channels_name, written
from musadata.sources.composed.chains import follow, start_rows


def _norm(builder: Builder, features: str) -> str:
    kind = builder.pick(["LayerNorm", "RMSNorm"])
    return builder.layer("norm", f"nn.{kind}({features})")


def feed_forward(builder: Builder) -> None:
    """A transformer's or mixer's feed-forward block, plain or gated."""
    start_rows(builder, tokens=True)
    name = builder.pick(["plain", "gated", "gated_packed", "low_rank"])
    features, width = channels_name(builder), builder.shape[-1]
    value = builder.size([64, 96, 128, 192]) if name != "low_rank" else builder.size([4, 8, 16])
    hidden = builder.argument("rank" if name == "low_rank" else "hidden_features", value)
    function = builder.pick(SMOOTH)
    inner = "x"
    if builder.chance(0.6):
        inner = "hidden"
        builder.line(f"hidden = {_norm(builder, features)}(x)")
    if name == "gated":
        gate = builder.layer("gate", f"nn.Linear({features}, {hidden}, bias=False)")
        up = builder.layer("up", f"nn.Linear({features}, {hidden}, bias=False)")
        builder.line(f"hidden = {written(function, f'{gate}({inner})')} * {up}({inner})")
    elif name == "gated_packed":
        both = builder.layer("up", f"nn.Linear({features}, 2 * {hidden})")
        builder.line(f"value, gate = {both}({inner}).chunk(2, dim=-1)")
        builder.line(f"hidden = value * {written(function, 'gate')}")
    else:
        up = builder.layer("up", f"nn.Linear({features}, {hidden})")
        builder.line(f"hidden = {up}({inner})")
        builder.line(f"hidden = {written(function, 'hidden')}")
    down = builder.layer("down", f"nn.Linear({hidden}, {features})")
    if name == "low_rank":
        base = builder.layer("base", f"nn.Linear({features}, {features})")
        builder.apply(f"{base}(x) + {builder.parameter('scale', features)} * {down}(hidden)")
        builder.work += builder.elements * width
    else:
        builder.apply(f"x + {down}(hidden)" if builder.chance(0.7) else f"{down}(hidden)")
    builder.work += builder.elements * value * (3 if name.startswith("gated") else 2)


def attention(builder: Builder) -> None:
    """Scaled dot-product attention over heads, in several spellings."""
    builder.note("heads")
    batch, heads = builder.size([1, 2, 4]), builder.size([2, 4, 8])
    length, width = builder.size([16, 24, 32, 48, 64]), builder.size([8, 16, 24, 32])
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
    _attend(builder, name, count)
    builder.line("x = x.transpose(1, 2).reshape(batch, length, -1)")
    if builder.pick(["projected", "bare"]) == "projected":
        builder.apply(f"{builder.layer('out', f'nn.Linear({features}, {features})')}(x)")
    builder.work += 4 * batch * length * (heads * width) ** 2 + 2 * batch * heads * length**2 * width


def _attend(builder: Builder, name: str, heads: str) -> None:
    scores = "scores = query @ key.transpose(-2, -1) / self.head_dim**0.5"
    if name in ("fused", "cross"):
        builder.apply("F.scaled_dot_product_attention(query, key, value)")
        return
    if name == "causal_fused":
        builder.apply("F.scaled_dot_product_attention(query, key, value, is_causal=True)")
        return
    if name == "linear":
        builder.line("query, key = F.elu(query) + 1.0, F.elu(key) + 1.0")
        builder.line("context = key.transpose(-2, -1) @ value")
        builder.line("total = query @ key.sum(dim=-2).unsqueeze(-1)")
        builder.apply("query @ context / (total + 1e-6)")
        return
    if name == "cosine":
        builder.line("query, key = F.normalize(query, dim=-1), F.normalize(key, dim=-1)")
        scale = builder.parameter("logit_scale", f"{heads}, 1, 1")
        scores = f"scores = query @ key.transpose(-2, -1) * {scale}.exp().clamp(max=100.0)"
    builder.line(scores)
    if name == "causal":
        builder.line("mask = torch.triu(torch.ones(length, length, dtype=torch.bool, device=x.device), diagonal=1)")
        builder.line('scores = scores.masked_fill(mask, float("-inf"))')
    elif name == "biased":
        positions = builder.argument("length", builder.shape[1])
        builder.line(f"scores = scores + {builder.parameter('position_bias', f'{heads}, {positions}, {positions}')}")
    elif name == "top_k":
        builder.line("least = scores.topk(8, dim=-1).values[..., -1:]")
        builder.line('scores = scores.masked_fill(scores < least, float("-inf"))')
    builder.line("weights = torch.softmax(scores, dim=-1)")
    builder.apply("weights @ value")


def lookup(builder: Builder) -> None:
    """Embeddings, gathers, scatters and histograms with work around them."""
    builder.note("tokens")
    batch, length = builder.size([4, 8, 16]), builder.size([16, 24, 32])
    count, width = builder.size([50, 100, 200]), builder.size([32, 48, 64])
    names = [builder.constant("batch_size", batch), builder.constant("length", length)]
    name = builder.pick(["embedding", "positions", "bag", "gather", "scatter_mean", "one_hot", "masked"])
    builder.shape = (batch, length, width)
    features = builder.argument("features", width)
    if name in ("embedding", "positions", "bag"):
        rows = builder.argument("num_embeddings", count)
        tokens = builder.input("tokens", names, f"torch.randint(0, {rows}, ({{}}))")
        table = builder.layer("embedding", f"nn.Embedding({rows}, {features})")
        builder.apply(f"{table}({tokens})")
        if name == "positions":
            most = builder.argument("length", length)
            builder.apply(f"x + {builder.parameter('positions', f'{most}, {features}')}")
        elif name == "bag":
            builder.apply(f"x.{builder.pick(['mean', 'sum', 'amax'])}(dim=1)")
            builder.shape = (batch, width)
    else:
        builder.input("x", [*names, features])
        if name == "gather":
            index = builder.input("index", [names[0], "12"], f"torch.randint(0, {names[1]}, ({{}}))")
            builder.apply(f"torch.gather(x, 1, {index}[:, :, None].expand(-1, -1, x.shape[-1]))")
            builder.shape = (batch, 12, width)
        elif name == "scatter_mean":
            groups = builder.argument("num_groups", 6)
            index = builder.input("index", [names[1]], f"torch.randint(0, {groups}, ({{}},))")
            builder.layer("num_groups", groups)
            builder.line("total = x.new_zeros(x.shape[0], self.num_groups, x.shape[2]).index_add(1, index, x)")
            builder.line("count = torch.bincount(index, minlength=self.num_groups).clamp(min=1)")
            builder.apply("total / count[:, None]")
            builder.shape = (batch, 6, width)
        elif name == "one_hot":
            index = builder.input("index", names, f"torch.randint(0, {features}, ({{}}))")
            builder.apply(f"x * F.one_hot({index}, x.shape[-1]) + 0.1 * x")
        else:
            lengths = builder.input("lengths", [names[0]], f"torch.randint(1, {names[1]} + 1, ({{}},))")
            builder.line(f"mask = torch.arange(x.shape[1], device=x.device) < {lengths}[:, None]")
            builder.apply("x.masked_fill(~mask[:, :, None], 0.0)")
    if name in ("embedding", "positions", "bag") and builder.chance(0.3):
        builder.apply(f"{_norm(builder, features)}(x)")
    else:
        activation(builder)


# Relative frequency; losses with a PyTorch operator are drawn more often than losses that are written out.
LOSSES = {
    "mse": 2.0, "l1": 1.0, "log_cosh": 1.0, "huber": 2.0, "smooth_l1": 2.0, "cross_entropy": 2.0, "smoothed": 2.0,
    "focal": 2.0, "distillation": 1.0, "contrastive": 1.0, "triplet": 1.0, "dice": 1.0, "hinge": 1.0, "gaussian": 1.0,
    "cosine": 1.0,
}  # fmt: skip


def loss(builder: Builder) -> None:
    """A head and its loss."""
    name = builder.pick(list(LOSSES), list(LOSSES.values()))
    start_rows(builder, tokens=False)
    features, rows = channels_name(builder), "batch_size"
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
    _judge(builder, name, rows, outer)


SIMPLE_LOSSES = {
    "mse": "F.mse_loss(x, {})",
    "l1": "F.l1_loss(x, {})",
    "log_cosh": "torch.log(torch.cosh(x - {})).mean()",
    "huber": "F.huber_loss(x, {}, delta=0.5)",
    "smooth_l1": "F.smooth_l1_loss(x, {}, beta=0.3)",
}


def _judge(builder: Builder, name: str, rows: str, outer: str) -> None:
    if name in ("cross_entropy", "smoothed", "focal"):
        label = builder.input("label", [rows], f"torch.randint(0, {outer}, ({{}},))")
        if name == "focal":
            builder.line(f'loss = F.cross_entropy(x, {label}, reduction="none")')
            builder.apply("((1.0 - torch.exp(-loss)) ** 2 * loss).mean()")
        else:
            smoothing = ", label_smoothing=0.1" if name == "smoothed" else ""
            builder.apply(f"F.cross_entropy(x, {label}{smoothing})")
        return
    if name == "triplet":
        near, far = builder.input("positive", [rows, outer]), builder.input("negative", [rows, outer])
        builder.line(f"near = torch.linalg.vector_norm(x - {near}, dim=-1)")
        builder.line(f"far = torch.linalg.vector_norm(x - {far}, dim=-1)")
        builder.apply("F.relu(near - far + 1.0).mean()")
        return
    target = builder.input("target", [rows, outer])
    if name in SIMPLE_LOSSES:
        builder.apply(SIMPLE_LOSSES[name].format(target))
    elif name == "distillation":
        builder.line("student = F.log_softmax(x / 2.0, dim=-1)")
        builder.line(f"teacher = F.softmax({target} / 2.0, dim=-1)")
        builder.apply('F.kl_div(student, teacher, reduction="batchmean") * 4.0')
    elif name == "contrastive":
        builder.line(f"logits = F.normalize(x, dim=-1) @ F.normalize({target}, dim=-1).T / 0.1")
        builder.line("label = torch.arange(x.shape[0], device=x.device)")
        builder.apply("F.cross_entropy(logits, label)")
    elif name == "dice":
        builder.line("probability = torch.sigmoid(x)")
        builder.line(f"target = torch.sigmoid({target})")
        builder.line("overlap = (probability * target).sum(dim=-1)")
        builder.apply("(1.0 - (2.0 * overlap + 1.0) / (probability.sum(dim=-1) + target.sum(dim=-1) + 1.0)).mean()")
    elif name == "hinge":
        builder.apply(f"torch.clamp(1.0 - x * torch.sign({target}), min=0.0).mean()")
    elif name == "gaussian":
        width = outer if outer in builder.arguments else channels_name(builder)
        builder.line(f"variance = F.softplus({builder.parameter('spread', width)}) + 1e-3")
        builder.apply(f"(torch.log(variance) + (x - {target}) ** 2 / variance).mean() * 0.5")
    else:
        builder.apply(f"(1.0 - F.cosine_similarity(x, {target}, dim=-1)).mean()")


def gated_scan(builder: Builder) -> None:
    """A linear recurrence over time through cumulative sums."""
    start_rows(builder, tokens=True)
    features, width = channels_name(builder), builder.shape[-1]
    name = builder.pick(["decayed", "running_mean", "normalized"])
    function = builder.pick(SMOOTH)
    if name == "decayed":
        gate = builder.layer("gate", f"nn.Linear({features}, {features})")
        builder.line(f"decay = F.logsigmoid({gate}(x)).cumsum(dim=1)")
        builder.line("weights = torch.exp(decay - decay.amax(dim=1, keepdim=True))")
        builder.apply("torch.cumsum(x * weights, dim=1)")
        builder.work += builder.elements * width
    elif name == "running_mean":
        builder.line("steps = torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]")
        builder.apply("x - torch.cumsum(x, dim=1) / steps")
    else:
        builder.line("weights = torch.exp(x - x.amax(dim=1, keepdim=True))")
        builder.apply("torch.cumsum(weights * x, dim=1) / torch.cumsum(weights, dim=1)")
    builder.apply(written(function, "x"))
    follow(builder, 0, 1)
