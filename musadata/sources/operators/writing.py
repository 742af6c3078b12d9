"""From an entry of the inventory to a reference in KernelBench's form."""

import random
import re
from hashlib import sha256

from musadata.sources.operators.inventory import Operator

# What a size may be, as in models that a CPU can still execute.
SIZES = {
    "batch": (4, 8, 16, 32),
    "rows": (64, 100, 128, 192, 256),
    "features": (64, 96, 128, 200, 256, 384, 512),
    "hidden": (32, 48, 64, 80, 96, 128),
    "length": (24, 32, 48, 50, 64, 100),
    "channels": (8, 16, 24, 32),
    "out_channels": (8, 12, 16, 24, 32),
    "height": (14, 16, 20, 24, 28, 32),
    "width": (14, 16, 20, 24, 28, 32),
    "depth": (6, 8, 10),
    "heads": (2, 4, 8),
    "head_dim": (16, 24, 32),
    "classes": (10, 20, 50, 100),
    "vocabulary": (50, 100, 200, 500),
    "count": (6, 12, 20, 33),
}
KINDS = {
    "normal": "torch.randn({})",
    "positive": "torch.rand({}) + 0.1",
    "unit": "torch.rand({})",
    "open": "torch.rand({}) * 0.9 + 0.05",
    "signed": "torch.rand({}) * 1.8 - 0.9",
    "bool": "torch.rand({}) > 0.5",
    "bits": "torch.randint(0, 1024, ({},))",
}


def write_operator(operator: Operator, seed: int) -> str:
    """The reference, with sizes that depend on the seed and the operator's name."""
    digest = sha256(f"operators/{seed}/{operator.name}/{operator.expression}".encode()).digest()
    sizes = random.Random(int.from_bytes(digest[:8], "big"))
    chosen = {name: sizes.choice(options) for name, options in SIZES.items()}
    names, drawn = [], []
    for text in operator.inputs:
        name, kind, *axes = text.split()
        names.append(name)
        drawn.append(_draw(kind, axes))
    layer, expression = operator.layer, operator.expression
    stated = " ".join([*drawn, layer])
    used = [name for name in SIZES if re.search(rf"\b{name}\b", stated)]
    arguments = [name for name in used if re.search(rf"\b{name}\b", layer)]
    constructor = ""
    if layer:
        stem = re.search(r"self\.(\w+)", expression)
        parameters = "".join(f", {name}: int" for name in arguments)
        constructor = f"    def __init__(self{parameters}):\n        super().__init__()\n"
        constructor += f"        self.{stem[1] if stem else 'layer'} = {layer}\n\n"
    typed = ", ".join(f"{name}: torch.Tensor" for name in names)
    imports = "import torch\nimport torch.nn as nn\n" + (
        "import torch.nn.functional as F\n" if "F." in expression else ""
    )
    constants = "".join(f"{name} = {chosen[name]}\n" for name in used)
    return (
        f"{imports}\n\nclass Model(nn.Module):\n{constructor}"
        f"    def forward(self, {typed}) -> torch.Tensor:\n        return {expression}\n\n\n{constants}\n\n"
        f"def get_inputs():\n    return [{', '.join(drawn)}]\n\n\n"
        f"def get_init_inputs():\n    return [{', '.join(arguments)}]\n"
    )


def _draw(kind: str, axes: list[str]) -> str:
    """ "normal" and the other kinds, or "below:N" for integers in [0, N)."""
    shape = ", ".join(axes)
    if kind.startswith("below:"):
        return f"torch.randint(0, {kind.removeprefix('below:')}, ({shape}{',' if len(axes) == 1 else ''}))"
    if kind == "bits" and len(axes) > 1:
        return f"torch.randint(0, 1024, ({shape}))"
    return KINDS[kind].format(shape)
