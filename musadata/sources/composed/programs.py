"""Whole modules as people write them: attention with a cache, experts, scans, quantized products, spectra."""

import re
from pathlib import Path
from typing import Any

import yaml

from musadata.sources.composed.builder import ANY, Builder
from musadata.sources.composed.chain_operators import SMOOTH, written

PROGRAMS: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("programs.yaml").read_text(encoding="utf-8")
)
NARROW = 0.6  # share of the programs for half types that are drawn in one


def program(builder: Builder) -> None:
    """One of the listed programs, in drawn sizes, with one of each of its options."""
    name = builder.pick(list(PROGRAMS))
    entry = PROGRAMS[name]
    chosen = {part: choices[builder.pick(list(choices))] for part, choices in entry.get("options", {}).items()}
    code = entry["code"].format(**chosen)
    if "activation[" in code:
        function = builder.pick(SMOOTH)
        code = re.sub(r"activation\[(.*)\]", lambda found: written(function, found[1]), code)
    if entry.get("half") and builder.chance(NARROW):
        builder.dtype = builder.pick(["float16", "bfloat16"])
    layers = {stem: text.format(**chosen) for stem, text in entry.get("layers", {}).items()}
    constructor = " ".join(layers.values())
    for size, values in entry["sizes"].items():
        bind = builder.argument if re.search(rf"\b{size}\b", constructor) else builder.constant
        bind(size, builder.size(values))
    for stem, text in layers.items():
        builder.layer(stem, text)
    for argument, draw in entry["inputs"].items():
        builder.input(argument, [], draw.format(**chosen))
    builder.lines += code.splitlines()
    builder.bounds = ANY
