"""Pieces of code that composed modules are put together from, by name: `snippets.yaml`."""

import re
from pathlib import Path
from typing import Any

import yaml

from musadata.sources.composed.builder import ANY, Builder
from musadata.sources.composed.chain_operators import written

SNIPPETS: dict[str, dict[str, dict[str, Any]]] = yaml.safe_load(
    Path(__file__).with_name("snippets.yaml").read_text(encoding="utf-8")
)


def write_snippet(builder: Builder, recipe: str, name: str, activation: str = "", **names: str) -> None:
    """Add a snippet's inputs, layers and code to a module. `names`: what comes into its braces."""
    builder.lines += snippet_code(builder, recipe, name, activation, **names)
    builder.bounds = ANY


def snippet_code(builder: Builder, recipe: str, name: str, activation: str = "", **names: str) -> list[str]:
    """The lines of a snippet whose inputs and layers are added; one of its options is drawn."""
    snippet = SNIPPETS[recipe][name]
    if options := snippet.get("options"):
        names["option"] = options[builder.pick(list(options))]
    for argument, draw in snippet.get("inputs", {}).items():
        builder.input(argument, [], draw.format(**names))
    for stem, text in snippet.get("layers", {}).items():
        builder.layer(stem, text.format(**names))
    code: str = snippet["code"].format(**names)
    code = re.sub(r"activation\[(.*)\]", lambda found: written(activation, found[1]), code)
    return code.splitlines()
