"""From an entry of the inventory to a reference in KernelBench's form."""

import random
import re
from hashlib import sha256
from pathlib import Path

import yaml

from musadata.sources.operators.inventory import Operator

_INPUTS = yaml.safe_load(Path(__file__).with_name("inputs.yaml").read_text(encoding="utf-8"))
SIZES: dict[str, list[int]] = _INPUTS["sizes"]
KINDS: dict[str, str] = _INPUTS["kinds"]


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
    imports = "import torch\nimport torch.nn as nn\n"
    imports += "import torch.nn.functional as F\n" if "F." in expression else ""
    constants = "".join(f"{name} = {chosen[name]}\n" for name in used)
    return (
        f"{imports}\n\nclass Model(nn.Module):\n{constructor}"
        f"    def forward(self, {typed}) -> {operator.returns}:\n        return {expression}\n\n\n{constants}\n\n"
        f"def get_inputs():\n    return [{', '.join(drawn)}]\n\n\n"
        f"def get_init_inputs():\n    return [{', '.join(arguments)}]\n"
    )


def _draw(kind: str, axes: list[str]) -> str:
    """ "normal" and the other kinds, or "below:N" for integers in [0, N)."""
    shape = ", ".join(axes)
    if kind.startswith("below:"):
        return f"torch.randint(0, {kind.removeprefix('below:')}, ({shape}{',' if len(axes) == 1 else ''}))"
    drawn = KINDS[kind].format(shape)
    return drawn.replace(",)", ")") if len(axes) > 1 else drawn
