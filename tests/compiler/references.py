"""Small references that the compiler is tried on: a forward, what `__init__` makes, and two sets of input shapes."""

from dataclasses import dataclass, replace

from musadata.records import InputSpec, OperatorFamily, Provenance, SourceKind, Task, Trace

TEMPLATE = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
{init}
    def forward(self, {arguments}):
        {forward}


def get_inputs():
    return []


def get_init_inputs():
    return []
"""


def tensor(*shape: int, name: str = "x", dtype: str = "float32", high: int = 0) -> InputSpec:
    """A normal tensor, or integers in [0, high)."""
    if high:
        return InputSpec(name, "integers", "int64", shape, 0, high)
    return InputSpec(name, "normal", dtype, shape)


@dataclass(frozen=True)
class Fixture:
    """A reference and the sets of shapes that its kernels must be right for."""

    forward: str
    sets: tuple[tuple[InputSpec, ...], ...]
    init: str = ""

    @property
    def source(self) -> str:
        init = "".join(f"        {line.strip()}\n" for line in self.init.split(";") if line.strip())
        arguments = ", ".join(spec.name for spec in self.sets[0])
        return TEMPLATE.format(init=init, arguments=arguments, forward=self.forward)


def two(first: InputSpec, second: InputSpec) -> tuple[tuple[InputSpec, ...], ...]:
    return (first,), (second,)


def half(dtype: str, sets: tuple[tuple[InputSpec, ...], ...]) -> tuple[tuple[InputSpec, ...], ...]:
    """The same inputs in a half type."""
    return tuple(tuple(replace(spec, dtype=dtype) for spec in one) for one in sets)


ROWS = two(tensor(4, 37), tensor(7, 64))
IMAGES = two(tensor(2, 6, 9, 10), tensor(3, 6, 12, 7))

PAIRS = (
    (tensor(4, 37), tensor(4, 37, name="y")),
    (tensor(7, 37), tensor(7, 37, name="y")),
)
PRODUCT = ((tensor(5, 12), tensor(12, 9, name="y")), (tensor(70, 65), tensor(65, 130, name="y")))
TURNED = ((tensor(12, 5), tensor(9, 12, name="y")), (tensor(65, 70), tensor(130, 65, name="y")))

TURNED_RIGHT = ((tensor(5, 12), tensor(9, 12, name="y")), (tensor(70, 64), tensor(136, 64, name="y")))
BATCHES = ((tensor(2, 5, 12), tensor(2, 12, 9, name="y")), (tensor(3, 66, 40), tensor(3, 40, 72, name="y")))


def heads(*sizes: tuple[int, int, int, int, int], dtype: str = "float32") -> tuple[tuple[InputSpec, ...], ...]:
    """Queries, keys and values for each (batch, heads, queries, keys, width)."""
    return tuple(
        tuple(tensor(b, h, n, d, name=name, dtype=dtype) for name, n in (("q", q), ("k", k), ("v", k)))
        for b, h, q, k, d in sizes
    )


ATTENTION = heads((2, 2, 5, 6, 8), (3, 2, 37, 70, 8))

FIXTURES = {
    "shuffled pixels": Fixture(
        "return torch.tanh(F.pixel_shuffle(self.conv(x), 2)) * 0.5 + 0.5",
        two(tensor(2, 4, 6, 7), tensor(1, 4, 9, 5)),
        "self.conv = nn.Conv2d(4, 12, 3, padding=1)",
    ),
    "normalised convolution": Fixture(
        "return self.conv((x - self.mean) * self.scale)",
        two(tensor(2, 3, 9, 8), tensor(1, 3, 12, 7)),
        "self.mean = nn.Parameter(torch.rand(3, 1, 1)); self.scale = nn.Parameter(torch.rand(3, 1, 1) + 0.5); "
        "self.conv = nn.Conv2d(3, 8, 3, padding=1)",
    ),
    "divided convolution": Fixture(
        "return self.conv(x / self.scale)",
        two(tensor(2, 3, 9, 8), tensor(1, 3, 12, 7)),
        "self.scale = nn.Parameter(torch.rand(3, 1, 1) + 0.5); self.conv = nn.Conv2d(3, 8, 3, padding=1)",
    ),
    "convolution of two tensors": Fixture(
        "return F.relu(self.conv(torch.cat([x, y], 1)))",
        ((tensor(2, 3, 8, 9), tensor(2, 5, 8, 9, name="y")), (tensor(1, 3, 7, 11), tensor(1, 5, 7, 11, name="y"))),
        "self.conv = nn.Conv2d(8, 6, 3, padding=1)",
    ),
    "modulated convolution": Fixture(
        "return F.relu(self.conv(x) * torch.sigmoid(self.scale(z))[:, :, None, None])",
        ((tensor(2, 4, 8, 9), tensor(2, 5, name="z")), (tensor(3, 4, 7, 6), tensor(3, 5, name="z"))),
        "self.conv = nn.Conv2d(4, 6, 3, padding=1); self.scale = nn.Linear(5, 6)",
    ),
    "modulated rows": Fixture(
        "s, b = self.scale(z).chunk(2, -1); return F.layer_norm(x, (12,)) * (1 + s[:, None]) + b[:, None]",
        ((tensor(2, 7, 12), tensor(2, 5, name="z")), (tensor(3, 4, 12), tensor(3, 5, name="z"))),
        "self.scale = nn.Linear(5, 24)",
    ),
    "bilinear image": Fixture(
        "return F.interpolate(x, scale_factor=2, mode='bilinear')", two(tensor(2, 3, 5, 6), tensor(1, 3, 7, 4))
    ),
    "scaled similarity": Fixture(
        "return x @ y.t() * self.scale.exp()",
        ((tensor(5, 12), tensor(7, 12, name="y")), (tensor(40, 12), tensor(33, 12, name="y"))),
        "self.scale = nn.Parameter(torch.ones(1))",
    ),
    "demodulated convolution": Fixture(
        "w = self.w * s.view(1, 4, 1, 1); d = torch.rsqrt((w * w).sum((1, 2, 3)) + 1e-8); "
        "return F.conv2d(x, w, padding=1) * d.view(1, 5, 1, 1)",
        ((tensor(2, 4, 8, 8), tensor(4, name="s")), (tensor(1, 4, 5, 9), tensor(4, name="s"))),
        "self.w = nn.Parameter(torch.randn(5, 4, 3, 3))",
    ),
    "joined heads": Fixture(
        "q = x.view(2, x.shape[1], 4, 6).transpose(1, 2); "
        "return F.scaled_dot_product_attention(q, q, q).transpose(1, 2).reshape(2, x.shape[1], 24).contiguous()",
        two(tensor(2, 10, 24), tensor(2, 19, 24)),
    ),
    "pooled rows of channels": Fixture(
        "return torch.flatten(self.pool(x.transpose(1, 2)), 1)",
        two(tensor(3, 10, 8), tensor(2, 17, 8)),
        "self.pool = nn.AdaptiveAvgPool1d(1)",
    ),
    "lengths of two tensors": Fixture(
        "return F.linear(F.normalize(x), F.normalize(self.rows))",
        ((tensor(5, 16),),),
        "self.rows = nn.Parameter(torch.randn(10, 16))",
    ),
    "norm of two products": Fixture(
        "return F.group_norm(x @ y + x @ z.transpose(2, 3), 2)",
        tuple((tensor(n, 4, 6, 8), tensor(n, 4, 8, 12, name="y"), tensor(n, 4, 12, 8, name="z")) for n in (2, 3)),
    ),
    "matrix product": Fixture("return x @ y", PRODUCT),
    "product and more": Fixture(
        "return torch.relu(x @ y) + z",
        (
            (tensor(5, 8), tensor(8, 12, name="y"), tensor(5, 12, name="z")),
            (tensor(70, 24), tensor(24, 133, name="y"), tensor(70, 133, name="z")),
        ),
    ),
    "upper triangle of a product": Fixture(
        "return torch.triu(x @ y, 3) * 2",
        ((tensor(150, 6), tensor(6, 70, name="y")), (tensor(9, 8), tensor(8, 12, name="y"))),
    ),
    "lower triangle of halves": Fixture(
        "return torch.tril(x @ y)",
        half("float16", ((tensor(9, 24), tensor(24, 150, name="y")), (tensor(64, 8), tensor(8, 72, name="y")))),
    ),
    "product of turned matrices": Fixture("return torch.sigmoid(x.T @ y.T)", TURNED),
    "part of rows": Fixture(
        "return x[:, :6] @ y", ((tensor(5, 12), tensor(6, 9, name="y")), (tensor(70, 64), tensor(6, 130, name="y")))
    ),
    "wide convolution": Fixture(
        "return torch.relu(self.c(x))",
        two(tensor(2, 4, 9, 10), tensor(1, 4, 12, 7)),
        "self.c = nn.Conv2d(4, 64, 3, stride=2, padding=1)",
    ),
    "many layers": Fixture(
        "return self.layers(x)",
        two(tensor(5, 24), tensor(9, 24)),
        "self.layers = nn.Sequential("
        "*[nn.Sequential(nn.Linear(24, 24), nn.ReLU()) for _ in range(14)], nn.Linear(24, 8))",
    ),
    "convolution layers": Fixture(
        "return self.b(self.a(x)) + F.max_pool2d(F.max_pool2d(self.a(x), 2), 2)",
        two(tensor(2, 4, 12, 16), tensor(1, 4, 16, 12)),
        "self.a = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 5, padding=2), nn.ReLU());"
        "self.b = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.MaxPool2d(2))",
    ),
    "normed layers": Fixture(
        "y = self.a(x); return (self.b(y) + self.c(y)).relu().mean((2, 3))",
        two(tensor(2, 4, 12, 16), tensor(1, 4, 16, 12)),
        "self.a = nn.Sequential(nn.Conv2d(4, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU());"
        "self.b = nn.Sequential(nn.Conv2d(8, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),"
        "\n            nn.Conv2d(8, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),"
        "\n            nn.Conv2d(16, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16));"
        "self.c = nn.Sequential(nn.Conv2d(8, 16, 1, 2, bias=False), nn.BatchNorm2d(16))",
    ),
    "dense layers": Fixture(
        "ys = [x]\n"
        "        for layer in self.layers:\n"
        "            ys.append(layer(torch.cat(ys, 1)))\n"
        "        return torch.cat(ys, 1)",
        two(tensor(2, 4, 6, 8), tensor(1, 4, 8, 6)),
        "self.layers = nn.ModuleList(nn.Sequential(nn.BatchNorm2d(4 + 3 * i), nn.ReLU(),"
        "\n            nn.Conv2d(4 + 3 * i, 3, 3, padding=1)) for i in range(4))",
    ),
    "inverted residuals": Fixture(
        "for layer in self.layers:\n            x = x + layer(x)\n        return self.pool(self.end(x))[:, :, 0, 0]",
        two(tensor(2, 4, 8, 10), tensor(3, 4, 10, 8)),
        "self.layers = nn.ModuleList(nn.Sequential(nn.Conv2d(4, 12, 1, bias=False), nn.BatchNorm2d(12), nn.ReLU6(),"
        "\n            nn.Conv2d(12, 12, k, padding=k // 2, groups=12, bias=False), nn.BatchNorm2d(12), nn.ReLU6(),"
        "\n            nn.Conv2d(12, 4, 1, bias=False), nn.BatchNorm2d(4)) for k in (3, 5, 3));"
        "self.end = nn.Sequential(nn.Conv2d(4, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU());"
        "self.pool = nn.AdaptiveAvgPool2d(1)",
    ),
    "halved images": Fixture(
        "return self.layers(x)",
        two(tensor(2, 8, 16, 32), tensor(2, 8, 16, 32)),
        "self.layers = nn.Sequential(*(m for i in range(3) for m in (nn.Conv2d(8 << i, 16 << i, 3, padding=1),"
        "\n            nn.BatchNorm2d(16 << i), nn.Softmax(-1), nn.MaxPool2d(2))))",
    ),
    "long short-term memory": Fixture(
        "return self.r(x)",
        two(tensor(3, 5, 6), tensor(2, 7, 6)),
        "self.r = nn.LSTM(6, 8, num_layers=2, batch_first=True)",
    ),
    "gated both ways": Fixture(
        "return self.r(x)", two(tensor(5, 3, 6), tensor(7, 2, 6)), "self.r = nn.GRU(6, 8, 2, bidirectional=True)"
    ),
    "recurrent state": Fixture(
        "return self.r(x, y)[0].relu()",
        (
            (tensor(5, 3, 6), tensor(1, 3, 8, name="y")),
            (tensor(7, 2, 6), tensor(1, 2, 8, name="y")),
        ),
        "self.r = nn.RNN(6, 8, bias=False)",
    ),
    "deep product": Fixture(
        "return torch.relu(x @ y) + 1",
        (
            (tensor(5, 1100), tensor(1100, 9, name="y")),
            (tensor(2, 1536), tensor(1536, 20, name="y")),
        ),
    ),
    "deep half batches": Fixture(
        "return x @ y.mT",
        half(
            "float16",
            (
                (tensor(2, 5, 1100), tensor(2, 9, 1100, name="y")),
                (tensor(1, 3, 1536), tensor(1, 20, 1536, name="y")),
            ),
        ),
    ),
    "few rows": Fixture(
        "return torch.sigmoid(x @ y)",
        (
            (tensor(3, 300), tensor(300, 9, name="y")),
            (tensor(7, 40), tensor(40, 132, name="y")),
        ),
    ),
    "few rows of turned halves": Fixture(
        "return torch.matmul(x, y.mT)",
        half(
            "bfloat16",
            (
                (tensor(2, 3, 37), tensor(2, 9, 37, name="y")),
                (tensor(1, 20, 264), tensor(1, 20, 264, name="y")),
            ),
        ),
    ),
    "few rows of halves": Fixture(
        "return torch.relu(x @ y) + z",
        half(
            "float16",
            (
                (tensor(3, 301), tensor(301, 135, name="y"), tensor(3, 135, name="z")),
                (tensor(13, 840), tensor(840, 72, name="y"), tensor(13, 72, name="z")),
            ),
        ),
    ),
    "few rows in batches": Fixture(
        "return torch.matmul(x, y)",
        half(
            "bfloat16",
            (
                (tensor(2, 5, 296), tensor(2, 296, 72, name="y")),
                (tensor(1, 20, 44), tensor(1, 44, 132, name="y")),
            ),
        ),
    ),
    "few columns of halves": Fixture(
        "return x.T @ y.T",
        half(
            "bfloat16",
            (
                (tensor(296, 72), tensor(5, 296, name="y")),
                (tensor(44, 132), tensor(20, 44, name="y")),
            ),
        ),
    ),
    "joined product": Fixture(
        "return self.linear(torch.cat([x, y], 1))",
        ((tensor(70, 24), tensor(70, 40, name="y")), (tensor(133, 24), tensor(133, 40, name="y"))),
        "self.linear = nn.Linear(64, 72)",
    ),
    "joined product of half type": Fixture(
        "return x @ torch.cat([y, z], 0)",
        tuple(
            (
                tensor(rows, 128, dtype="float16"),
                tensor(64, 72, name="y", dtype="float16"),
                tensor(64, 72, name="z", dtype="float16"),
            )
            for rows in (70, 133)
        ),
    ),
    "sums of columns": Fixture("return x.sum(0), (x * x).amax(0)", two(tensor(1500, 5), tensor(2600, 37))),
    "normalised columns": Fixture(
        "return torch.softmax(x, 1) / x.std((0, 1))", two(tensor(2, 1100, 33), tensor(3, 600, 8))
    ),
    "computed operands": Fixture(
        "return (torch.relu(x) * self.scale) @ torch.abs(y)",
        tuple((tensor(rows, 64), tensor(64, 72, name="y")) for rows in (70, 133)),
        "self.scale = nn.Parameter(torch.rand(64))",
    ),
    "computed operands of half type": Fixture(
        "return (torch.relu(x) * z) @ torch.abs(y)",
        tuple(
            (
                tensor(rows, 64, dtype="float16"),
                tensor(64, 72, name="y", dtype="float16"),
                tensor(rows, 1, name="z", dtype="float16"),
            )
            for rows in (70, 133)
        ),
    ),
    "padded operand": Fixture(
        "return x @ F.pad(y, (0, 0, 4, 0))",
        tuple((tensor(rows, 64), tensor(60, 72, name="y")) for rows in (70, 133)),
    ),
    "flipped product": Fixture("return torch.relu(x @ y).flip(0)", PRODUCT),
    "half product": Fixture("return torch.relu(x @ y.T) + 1", half("float16", TURNED_RIGHT)),
    "bfloat16 batches": Fixture("return x @ y", half("bfloat16", BATCHES)),
    "turned halves": Fixture("return torch.sigmoid(x.T @ y.T)", half("bfloat16", TURNED)),
    "half product with more": Fixture(
        "y = x.T @ y; return F.gelu(y + self.b) + z, y",
        half(
            "float16",
            (
                (tensor(264, 72), tensor(264, 248, name="y"), tensor(72, 248, name="z")),
                (tensor(13, 70), tensor(13, 248, name="y"), tensor(70, 248, name="z")),
            ),
        ),
        "self.b = nn.Parameter(torch.randn(248, dtype=torch.float16))",
    ),
    "half convolution": Fixture(
        "return torch.relu(self.c(x))",
        half("bfloat16", two(tensor(2, 24, 9, 10), tensor(1, 24, 8, 8))),
        "self.c = nn.Conv2d(24, 72, 3, padding=1, dtype=torch.bfloat16)",
    ),
    "deep convolution": Fixture(
        "return self.c(x)",
        two(tensor(2, 24, 9, 10), tensor(1, 24, 8, 8)),
        "self.c = nn.Conv2d(24, 64, 3, padding=1)",
    ),
    "wide 3-D convolution": Fixture(
        "return self.c(x)",
        two(tensor(2, 3, 5, 6, 4), tensor(1, 3, 4, 5, 7)),
        "self.c = nn.Conv3d(3, 64, (2, 3, 3), padding=(0, 1, 1))",
    ),
    "pointwise convolution": Fixture("return self.c(x)", IMAGES, "self.c = nn.Conv2d(6, 64, 1)"),
    "gelu": Fixture("return F.gelu(x)", ROWS),
    "chain": Fixture("return torch.tanh(torch.relu(x) * 2.0 + 1) / (1 + x.abs())", ROWS),
    "activations": Fixture("return F.silu(x) + F.elu(x) + F.softplus(x) + F.hardswish(x) + F.leaky_relu(x)", ROWS),
    "branch on sizes": Fixture("return x * 2 if x.size(0) > 100 else x * 3", ROWS),
    "scale": Fixture(
        "return x * self.w + self.b",
        two(tensor(4, 37), tensor(9, 37)),
        "self.w = nn.Parameter(torch.randn(37)); self.b = nn.Parameter(torch.randn(1))",
    ),
    "where": Fixture(
        "return torch.where(x > 0, x, y)",
        ((tensor(4, 37), tensor(37, name="y")), (tensor(5, 37), tensor(37, name="y"))),
    ),
    "softmax": Fixture("return torch.softmax(x, dim=-1)", ROWS),
    "softmax over channels": Fixture("return torch.softmax(x, dim=1)", two(tensor(2, 5, 4, 3), tensor(3, 17, 2, 2))),
    "softmax over few channels": Fixture(
        "return torch.softmax(x * self.s, 1)",
        two(tensor(2, 6, 4, 3), tensor(3, 6, 7, 2)),
        "self.s = nn.Parameter(torch.rand(6, 1, 1))",
    ),
    "softmax of three": Fixture(
        "return torch.softmax(x * y - z, -1)",
        tuple((tensor(r, c), tensor(r, c, name="y"), tensor(r, c, name="z")) for r, c in ((4, 37), (7, 520))),
    ),
    "half rows": Fixture("return torch.softmax(F.silu(x), -1)", half("float16", two(tensor(4, 37), tensor(7, 64)))),
    "half gates": Fixture("return F.silu(x[:, :8]) * x[:, 8:]", half("bfloat16", two(tensor(4, 16), tensor(7, 16)))),
    "log softmax": Fixture("return F.log_softmax(x, dim=0)", ROWS),
    "softmax of columns": Fixture("return torch.softmax(x, 0)", two(tensor(70, 37), tensor(130, 65))),
    "columns of several types": Fixture(
        "return x.sum(0), x.amax(0), (x * 9).long().sum(0)", two(tensor(70, 37), tensor(130, 65))
    ),
    "largest one": Fixture("return torch.topk(x.masked_fill(x < 1, float('-inf')), 1)", ROWS),
    "largest three": Fixture(
        "v, i = torch.topk(x.round().masked_fill(x < 1, float('-inf')), 3, 1); return v - v.exp().sum(1, True)", ROWS
    ),
    "places of extremes": Fixture(
        "return x.argmax(1), (x * 2).min(1)[1], x.max(1)", two(tensor(40, 37), tensor(7, 64))
    ),
    "counts": Fixture("return (x > 0).sum(), (x > 9).any(), (x < 9).all(1)", ROWS),
    "logsumexp of infinities": Fixture(
        "return torch.logsumexp(torch.where(x > 2, float('inf'), torch.where(x < 0, float('-inf'), x)), 1)",
        two(tensor(40, 6), tensor(7, 2100)),
    ),
    "turned running sum": Fixture("return x.flip(1).cumsum(1).flip(1)", ROWS),
    "norm with more": Fixture(
        "return torch.cat([F.layer_norm(x, (36,)), y, x.flip(1)], 1).relu()",
        ((tensor(4, 36), tensor(4, 9, name="y")), (tensor(7, 36), tensor(7, 20, name="y"))),
    ),
    "pixels to channels": Fixture("return F.pixel_unshuffle(x, 3)", two(tensor(2, 4, 6, 9), tensor(3, 4, 9, 3))),
    "windows": Fixture(
        "b, h, w, c = x.shape; return x.roll((1, 2), (1, 2)).view(b, h // 4, 4, w // 4, 4, c).transpose(2, 3).sum(5)",
        two(tensor(2, 8, 12, 5), tensor(3, 12, 8, 5)),
    ),
    "two statistics": Fixture("return torch.cat([x.mean(1, True), x.amax(1, True)], 1)", IMAGES),
    "classes of rows": Fixture(
        "return F.cross_entropy(x, y)",
        (
            (tensor(4, 37), tensor(4, name="y", high=37)),
            (tensor(7, 64), tensor(7, name="y", high=37)),
        ),
    ),
    "lengths of rows, added up": Fixture("return x.pow(2).sum(1).sqrt().sum()", ROWS),
    "weighted rows": Fixture(
        "return (torch.softmax(x, 1).unsqueeze(2) * y).sum(1)",
        (
            (tensor(4, 37), tensor(4, 37, 5, name="y")),
            (tensor(7, 64), tensor(7, 64, 5, name="y")),
        ),
    ),
    "distances of rows": Fixture(
        "return (x ** 2).sum(1, True) - 2 * x @ self.e.t() + (self.e ** 2).sum(1)",
        two(tensor(40, 12), tensor(70, 12)),
        "self.e = nn.Parameter(torch.randn(9, 12))",
    ),
    "mean and deviation": Fixture("return torch.cat([x.mean(1), x.std(1)]), x.sum(1)", ROWS),
    "long rows": Fixture(
        "return torch.softmax(x.masked_fill(x > 1.5, float('-inf')), 1), F.log_softmax(x * 2, 1)",
        two(tensor(3, 2100), tensor(2, 1500)),
    ),
    "layer norm": Fixture("return self.n(x)", two(tensor(4, 37), tensor(5, 37)), "self.n = nn.LayerNorm(37)"),
    "wide layer norm": Fixture(
        "return self.n(x + y)",
        tuple((tensor(n, 1024), tensor(n, 1024, name="y")) for n in (4, 3)),
        "self.n = nn.LayerNorm(1024)",
    ),
    "norms of two widths": Fixture(
        "return self.a(x), self.b(y)",
        tuple((tensor(n, 2048), tensor(n, 8192, name="y")) for n in (4, 2)),
        "self.a = nn.LayerNorm(2048); self.b = nn.LayerNorm(8192)",
    ),
    "long layer norm": Fixture(
        "return self.n(x)", two(tensor(2, 36864), tensor(1, 36864)), "self.n = nn.LayerNorm(36864)"
    ),
    "root mean square": Fixture(
        "return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.w, x.amax(1)",
        two(tensor(4, 300), tensor(5, 300)),
        "self.w = nn.Parameter(torch.randn(300))",
    ),
    "rows of a slice": Fixture("return F.log_softmax(x[:, 3:], 1)", two(tensor(4, 203), tensor(3, 702))),
    "group norm": Fixture("return F.relu(self.n(x))", IMAGES, "self.n = nn.GroupNorm(2, 6)"),
    "batch norm": Fixture("return self.n(x)", IMAGES, "self.n = nn.BatchNorm2d(6); self.eval()"),
    "batch norm in training": Fixture("return self.n(x)", IMAGES, "self.n = nn.BatchNorm2d(6)"),
    "instance norm": Fixture("return self.n(x)", IMAGES, "self.n = nn.InstanceNorm2d(6, affine=True)"),
    "linear": Fixture("return self.l(x)", two(tensor(4, 37), tensor(9, 37)), "self.l = nn.Linear(37, 20)"),
    "layer without a name of its own": Fixture(
        'return self._modules["0"](x)', two(tensor(4, 9), tensor(7, 9)), 'self.add_module("0", nn.Linear(9, 5))'
    ),
    "linear over batches": Fixture(
        "return torch.relu(self.l(x)).sum(-1)", two(tensor(2, 3, 8), tensor(3, 5, 8)), "self.l = nn.Linear(8, 20)"
    ),
    "numbered layer": Fixture(
        "return self._modules['0'](x)", two(tensor(4, 37), tensor(9, 37)), "self.add_module('0', nn.Linear(37, 20))"
    ),
    "two layers": Fixture(
        "return torch.relu(self.b(torch.tanh(self.a(x))))",
        two(tensor(4, 37), tensor(9, 37)),
        "self.a = nn.Linear(37, 20); self.b = nn.Linear(20, 11)",
    ),
    "matmul": Fixture(
        "return a @ b",
        ((tensor(30, 20, name="a"), tensor(20, 17, name="b")), (tensor(16, 9, name="a"), tensor(9, 40, name="b"))),
    ),
    "batched matmul": Fixture(
        "return torch.matmul(a, b.transpose(-1, -2))",
        (
            (tensor(3, 5, 7, name="a"), tensor(3, 4, 7, name="b")),
            (tensor(2, 9, 6, name="a"), tensor(2, 5, 6, name="b")),
        ),
    ),
    "product of two results": Fixture(
        "return torch.softmax(x, -1) @ torch.softmax(y, 0)", ((tensor(72, 136), tensor(136, 80, name="y")),)
    ),
    "gated layers": Fixture(
        "return F.silu(self.a(x)) * self.b(x)",
        two(tensor(5, 24), tensor(150, 24)),
        "self.a = nn.Linear(24, 84); self.b = nn.Linear(24, 84, bias=False)",
    ),
    "packed gates": Fixture(
        "a, b = self.l(x).chunk(2, -1); return F.silu(a) * b",
        two(tensor(2, 5, 24), tensor(1, 150, 24)),
        "self.l = nn.Linear(24, 168)",
    ),
    "gated product": Fixture(
        "return torch.tanh(x @ a) + (x @ b) * 0.5",
        tuple(
            (tensor(r, d, name="x"), tensor(d, c, name="a"), tensor(d, c, name="b"))
            for r, d, c in ((3, 7, 5), (133, 20, 70), (17, 32, 64))
        ),
    ),
    "attention of small heads": Fixture(
        "return F.scaled_dot_product_attention(q, k, v)", heads((2, 3, 33, 70, 6), (1, 2, 65, 20, 6))
    ),
    "attention": Fixture("return F.scaled_dot_product_attention(q, k, v)", ATTENTION),
    "causal attention": Fixture("return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)", ATTENTION),
    "attention of half type": Fixture(
        "return F.scaled_dot_product_attention(q, k, v)",
        heads((2, 3, 9, 10, 16), (1, 2, 133, 201, 16), dtype="float16"),
    ),
    "causal attention of half type": Fixture(
        "return F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        heads((1, 2, 40, 140, 24), (2, 3, 70, 9, 20), dtype="bfloat16"),
    ),
    "masked attention of half type": Fixture(
        "return F.relu(F.scaled_dot_product_attention(q, x, x[..., 1:], attn_mask=q[..., :1] > -0.5, enable_gqa=True))",
        tuple(
            (tensor(b, 4, s, 24, name="q", dtype="float16"), tensor(b, 2, t, 24, dtype="float16"))
            for b, s, t in ((2, 5, 70), (1, 33, 7))
        ),
    ),
    "attention of doubles": Fixture(
        "return F.scaled_dot_product_attention(q, k, v)", heads((2, 3, 9, 10, 16), (1, 4, 33, 70, 16), dtype="float64")
    ),
    "grouped heads": Fixture(
        "return F.scaled_dot_product_attention(q, x, x, enable_gqa=True)",
        tuple((tensor(b, 8, s, 20, name="q"), tensor(b, 2, t, 20)) for b, s, t in ((2, 5, 7), (1, 25, 70))),
    ),
    "attention with rows that see nothing": Fixture(
        "return F.scaled_dot_product_attention(q, k, v, attn_mask=q[..., :1] > 0.5), "
        "F.scaled_dot_product_attention(q, k, v, attn_mask=(k[..., 0] * 3).unsqueeze(-2))",
        ATTENTION,
    ),
    "attention spelled out": Fixture(
        "return F.relu(torch.softmax((q @ k.mT / 3).masked_fill(q.amax(-1, True) < 1, float('-inf')), -1) @ v)",
        ATTENTION,
    ),
    "attention with its weights": Fixture("w = torch.softmax(q @ k.mT, -1); return w @ v, w", ATTENTION),
    "projected attention": Fixture(
        "q, k, v = self.a(x).view(*x.shape[:2], 3, 4, 8).permute(2, 0, 3, 1, 4); "
        "return self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape))",
        two(tensor(2, 5, 32), tensor(1, 40, 32)),
        "self.a = nn.Linear(32, 96); self.o = nn.Linear(32, 32)",
    ),
    "convolution": Fixture("return self.c(x)", IMAGES, "self.c = nn.Conv2d(6, 8, 3, stride=2, padding=1)"),
    "dilated convolution": Fixture(
        "return F.relu(self.c(x)).mean((2, 3))", IMAGES, "self.c = nn.Conv2d(6, 4, (3, 2), padding=(0, 1), dilation=2)"
    ),
    "grouped convolution": Fixture(
        "return self.c(x)", two(tensor(2, 4, 9), tensor(3, 4, 16)), "self.c = nn.Conv1d(4, 6, 3, groups=2)"
    ),
    "transposed convolution": Fixture(
        "return self.c(x)",
        two(tensor(2, 4, 5, 6), tensor(3, 4, 4, 7)),
        "self.c = nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1)",
    ),
    "transposed convolution in phases": Fixture(
        "return torch.sigmoid(self.c(x) + 1)",
        two(tensor(2, 4, 5, 6), tensor(1, 4, 4, 7)),
        "self.c = nn.ConvTranspose2d(4, 64, (3, 4), stride=2, padding=1, output_padding=(0, 1))",
    ),
    "transposed 3-D convolution": Fixture(
        "return F.leaky_relu(self.c(x))",
        two(tensor(1, 3, 3, 4, 5), tensor(2, 3, 2, 3, 4)),
        "self.c = nn.ConvTranspose3d(3, 64, 3, stride=2, padding=1, bias=False)",
    ),
    "transposed convolution of groups": Fixture(
        "return self.c(x)",
        two(tensor(2, 6, 3, 4), tensor(1, 6, 4, 3)),
        "self.c = nn.ConvTranspose2d(6, 128, (3, 2), (5, 4), (1, 0), (1, 1), groups=2, dilation=(2, 6))",
    ),
    "wide groups": Fixture(
        "return torch.relu(self.c(x))",
        two(tensor(2, 6, 7, 6), tensor(1, 6, 5, 9)),
        "self.c = nn.Conv2d(6, 128, 3, padding=1, groups=2)",
    ),
    "max pool": Fixture("return F.max_pool2d(x, 3, stride=2, padding=1)", IMAGES),
    "average pool": Fixture("return F.avg_pool2d(x, 3, stride=2, padding=1, count_include_pad=False)", IMAGES),
    "adaptive pool": Fixture("return F.adaptive_avg_pool2d(x, (3, 2))", IMAGES),
    "global pool": Fixture("return F.adaptive_avg_pool2d(x, 1).flatten(1)", IMAGES),
    "nearest": Fixture("return F.interpolate(x, scale_factor=2)", IMAGES),
    "bilinear": Fixture('return F.interpolate(x, scale_factor=2, mode="bilinear")', IMAGES),
    "aligned bilinear": Fixture('return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)', IMAGES),
    "bilinear to a size": Fixture('return F.interpolate(torch.tanh(x) / 2, (5, 17), mode="bilinear") * 2', IMAGES),
    "margins of rows": Fixture(
        "return F.multi_margin_loss(x, i)",
        ((tensor(7, 60), tensor(7, name="i", high=60)), (tensor(9, 67), tensor(9, name="i", high=60))),
    ),
    "bilinear to one row": Fixture('return F.interpolate(x, (1, 9), mode="bilinear", align_corners=True)', IMAGES),
    "linear lines": Fixture(
        'return F.interpolate(x, scale_factor=1.5, mode="linear")', two(tensor(2, 3, 9), tensor(1, 2, 33))
    ),
    "aligned trilinear": Fixture(
        'return F.interpolate(x, size=y.shape[2:], mode="trilinear", align_corners=True)',
        (
            (tensor(1, 2, 3, 4, 5), tensor(1, 2, 4, 7, 9, name="y")),
            (tensor(2, 3, 5, 2, 6), tensor(2, 3, 2, 3, 13, name="y")),
        ),
    ),
    "bicubic": Fixture('return F.interpolate(x, scale_factor=3, mode="bicubic")', IMAGES),
    "aligned bicubic": Fixture(
        'return F.interpolate(x, scale_factor=(0.75, 2), mode="bicubic", align_corners=True)', IMAGES
    ),
    "pad": Fixture("return F.pad(x, (1, 2, 0, 3), value=0.5)", IMAGES),
    "reflect": Fixture('return F.pad(x, (1, 2, 2, 1), mode="reflect")', IMAGES),
    "circular": Fixture('return F.pad(x, (1, 2, 3, 0), mode="circular")', IMAGES),
    "written views": Fixture("return torch.ops.aten._pad_circular(x, (1, 2))", two(tensor(2, 3, 9), tensor(3, 2, 16))),
    "concatenation": Fixture(
        "return torch.cat([x, y * 2, x], 1)",
        ((tensor(2, 3, 4), tensor(2, 5, 4, name="y")), (tensor(3, 4, 2), tensor(3, 2, 2, name="y"))),
    ),
    "slices": Fixture("return x[:, 1:-1] - x[:, :-2]", ROWS),
    "transpose": Fixture("return x.transpose(1, 2) * 2", two(tensor(2, 3, 4), tensor(5, 7, 3))),
    "shuffled channels": Fixture("return x.view(x.size(0), 2, 3, -1).transpose(1, 2).reshape(x.shape)", IMAGES),
    "several outputs": Fixture("return x.sum(1), x.mean(), x.amax(0)", ROWS),
    "shrinking": Fixture("return F.hardshrink(x, 0.3) + F.softshrink(x, 0.4) + F.threshold(x, 0.1, 2.0)", ROWS),
    "smooth activations": Fixture(
        "return F.celu(x, 1.5) + F.logsigmoid(x * 9) + F.prelu(x, self.w)",
        ROWS,
        "self.w = nn.Parameter(torch.randn(1))",
    ),
    "losses": Fixture(
        "return F.huber_loss(x, y, delta=0.7), F.smooth_l1_loss(x, y, beta=0.5), F.mse_loss(x, y, reduction='sum'), "
        "F.soft_margin_loss(x, y.sign())",
        PAIRS,
    ),
    "entropies": Fixture(
        "return F.binary_cross_entropy(x.sigmoid(), y.sigmoid()), "
        "F.binary_cross_entropy_with_logits(x * 9, y.sigmoid(), pos_weight=self.p, reduction='none')",
        PAIRS,
        "self.p = nn.Parameter(torch.rand(37))",
    ),
    "log of sums": Fixture("return torch.logsumexp(x, 1), torch.logsumexp(x, (0, 1))", ROWS),
    "rolled": Fixture("return torch.roll(x, (9, -1), (0, 1)) * torch.roll(x, 2)", ROWS),
    "shared value": Fixture("return (lambda t: (t * 2, t + x))(torch.tanh(x))", ROWS),
    "shared by sums": Fixture("return (lambda e: e / e.sum(1, keepdim=True))(torch.exp(-x.abs()))", ROWS),
    "shared in memory": Fixture("return (lambda t: (t.sum(1), t.t() @ x, t + 1))(torch.tanh(x) * x)", ROWS),
    "nested outputs": Fixture('return {"a": x * 2, "b": [x.sum(0), 3]}', ROWS),
    "argmax": Fixture("return x.argmax(1)", ROWS),
    "place and sum": Fixture("return x.argmax(1), x.sum(1)", ROWS),
    "reduced again": Fixture(
        "return torch.logsumexp(x.sum(1, keepdim=True).amax(1, keepdim=True).mean(1, keepdim=True), 1)",
        two(tensor(5, 1500), tensor(3, 2100)),
    ),
    "row maxima": Fixture("return x.max(1).values", ROWS),
    "variance": Fixture("return x.var(1), x.std(0, keepdim=True)", ROWS),
    "normalised rows": Fixture("return x / x.norm(dim=1, keepdim=True)", ROWS),
    "running sum": Fixture("return torch.cumsum(x, 1)", ROWS),
    "running results": Fixture(
        "v, i = torch.cummax(x, 1); return torch.cumsum(F.relu(x), 1).sqrt(), torch.cumprod(x, 0), v, i",
        two(tensor(3, 300), tensor(2, 517)),
    ),
    "running logsumexp": Fixture("return torch.logcumsumexp(x, 1), torch.cumsum(x > 0, 1)", IMAGES),
    "embedding": Fixture(
        "return self.e(i)",
        two(tensor(3, 4, name="i", high=20), tensor(2, 7, name="i", high=20)),
        "self.e = nn.Embedding(20, 6)",
    ),
    "gather": Fixture(
        "return x.gather(1, i)",
        ((tensor(4, 9), tensor(4, 3, name="i", high=9)), (tensor(5, 9), tensor(5, 4, name="i", high=9))),
    ),
    "attention of any width": Fixture(
        "return F.scaled_dot_product_attention(x, x, x)", two(tensor(2, 3, 5, 8), tensor(2, 3, 7, 12))
    ),
    "two maxima": Fixture("return torch.softmax(x, 1).sum(1), x.amax(1)", ROWS),
    "extended rows": Fixture(
        "return torch.cat([F.normalize(x.mean(2), dim=1), y], 0)",
        tuple((tensor(b, 5, 6), tensor(3, 5, name="y")) for b in (7, 9)),
    ),
    "gathered product": Fixture(
        "return self.l(x.gather(-1, i))",
        tuple((tensor(3, n, 16), tensor(3, n, 16, name="i", high=16)) for n in (5, 7)),
        "self.l = nn.Linear(16, 20)",
    ),
    "scattered sum": Fixture(
        "return y.scatter_add(1, i, x)",
        tuple((tensor(4, n), tensor(5, 6, name="y"), tensor(3, m, name="i", high=6)) for n, m in ((9, 8), (11, 11))),
    ),
    "added to rows": Fixture(
        "return F.relu(torch.zeros(7, 5).index_add(0, i, x)), torch.zeros(9).long().scatter_add(0, i, i)",
        tuple((tensor(n, 5), tensor(n, name="i", high=7)) for n in (9, 30)),
    ),
    "largest few": Fixture("return x.topk(3, dim=0)", ROWS),
    "largest few of rows": Fixture(
        "return torch.softmax(x.masked_fill(x < x.topk(8).values[..., -1:], float('-inf')), -1)",
        two(tensor(4, 19), tensor(6, 33)),
    ),
    "smallest few": Fixture("return x.topk(2, largest=False).values * 2", ROWS),
    "sorted": Fixture("return x.sort(descending=True)[0], x.argsort(0)", two(tensor(4, 7), tensor(5, 9))),
    "folded patches": Fixture(
        "return F.fold(x, (7, 6), (3, 2), padding=1, stride=2)", two(tensor(2, 12, 16), tensor(3, 12, 16))
    ),
    "bags of embeddings": Fixture(
        "return self.e(i)",
        two(tensor(3, 4, name="i", high=20), tensor(2, 7, name="i", high=20)),
        'self.e = nn.EmbeddingBag(20, 6, mode="mean")',
    ),
    "random leaks": Fixture("return F.rrelu(x, 0.1, 0.3)", ROWS),
    "logits": Fixture(
        "return F.binary_cross_entropy_with_logits(x, y), "
        "F.binary_cross_entropy_with_logits(x, y, pos_weight=self.w, reduction='none')",
        tuple((tensor(b, 37), tensor(b, 37, name="y")) for b in (4, 7)),
        "self.w = nn.Parameter(torch.rand(37) + 1)",
    ),
    "masked attention": Fixture(
        "return F.scaled_dot_product_attention(x, x, x, attn_mask=x[0, :, :5] > 1.0)",
        two(tensor(2, 5, 8), tensor(3, 5, 8)),
    ),
    "sizes of values": Fixture("return F.relu(x.abs()) + torch.abs(torch.sigmoid(x)) - F.relu(F.relu(x * x))", ROWS),
    "likelihood": Fixture(
        "return F.gaussian_nll_loss(x, y, torch.exp(x), full=True)",
        tuple((tensor(b, 37), tensor(b, 37, name="y")) for b in (4, 7)),
    ),
    "mean squared error": Fixture(
        "return F.mse_loss(x, y)", ((tensor(4, 37), tensor(4, 37, name="y")), (tensor(5, 8), tensor(5, 8, name="y")))
    ),
    "cross entropy": Fixture(
        "return F.cross_entropy(x, t)",
        ((tensor(4, 9), tensor(4, name="t", high=9)), (tensor(6, 9), tensor(6, name="t", high=9))),
    ),
    "classes": Fixture(
        "return F.nll_loss(x, t, ignore_index=self.ignored)",
        ((tensor(4, 9), tensor(4, name="t", high=9)), (tensor(6, 9), tensor(6, name="t", high=9))),
        "self.ignored = -100",
    ),
    "padding taken away": Fixture(
        "return F.pad(x.transpose(0, 2), (3, 0), mode='replicate')[:, :, 3:] + 1",
        two(tensor(5, 3, 34), tensor(40, 2, 33)),
    ),
    "turned and joined": Fixture(
        "y = x.transpose(0, 2); return torch.tanh(torch.cat([torch.sqrt(y.abs()), y], 2))",
        two(tensor(40, 3, 35), tensor(5, 2, 33)),
    ),
    "turned beside another": Fixture(
        "return (x.transpose(1, 2) * 2).contiguous() + torch.sigmoid(y)",
        tuple((tensor(b, r, c), tensor(b, c, r, name="y")) for b, r, c in ((2, 40, 35), (3, 5, 33))),
    ),
    "recurrent": Fixture("return self.m(x)[0]", two(tensor(3, 2, 4), tensor(3, 5, 4)), "self.m = nn.LSTM(4, 6)"),
    "triangles": Fixture("return torch.tril(x) + torch.triu(x, 1) * 2", two(tensor(5, 7), tensor(8, 8))),
    "patches": Fixture("return F.unfold(x, 3, padding=1, stride=2)", IMAGES),
    "bilinear form": Fixture(
        "return self.b(x, y)",
        ((tensor(6, 3), tensor(6, 4, name="y")), (tensor(2, 3), tensor(2, 4, name="y"))),
        "self.b = nn.Bilinear(3, 4, 5)",
    ),
    "neighbours": Fixture("return F.local_response_norm(x, 3)", IMAGES),
    "double": Fixture(
        "return torch.softmax(torch.exp(x) - 1, 1)", two(tensor(4, 37, dtype="float64"), tensor(4, 9, dtype="float64"))
    ),
    "constant": Fixture("return x * torch.tensor([1.0, 2.0, 3.0])", two(tensor(4, 3), tensor(7, 3))),
    "residual block": Fixture(
        "return F.relu(self.c2(F.relu(self.b1(self.c1(x)))) + x)",
        IMAGES,
        "self.c1 = nn.Conv2d(6, 6, 3, padding=1); self.b1 = nn.BatchNorm2d(6); self.c2 = nn.Conv2d(6, 6, 3, padding=1)",
    ),
    "encoder layer": Fixture(
        "return self.m(x)",
        two(tensor(5, 2, 8), tensor(7, 3, 8)),
        "self.m = nn.TransformerEncoderLayer(8, 2, 16); self.eval()",
    ),
}


def task_of(name: str) -> Task:
    fixture = FIXTURES[name]
    provenance = Provenance("directory:tests", "tests", "0", "references.py", "1-2", "Apache-2.0")
    return Task(f"task-{name}", SourceKind.COMPOSED, name, fixture.source, (), OperatorFamily.OTHER, 1,
                fixture.sets[0], provenance, "train", (), "")  # fmt: skip


def traces_of(name: str) -> tuple[Trace, ...]:
    """Traces with nothing but the shapes, which is all that the compiler reads of them."""
    from musadata.records import Bound

    return tuple(Trace(specs, (), (), 0, 0, 0.0, Bound.MEMORY) for specs in FIXTURES[name].sets)
