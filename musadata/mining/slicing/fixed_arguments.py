"""Subclasses that fix arguments which name something of the repository, so that it becomes a part of the slice."""

import ast
import builtins
from collections.abc import Mapping
from types import MappingProxyType

from musadata.mining.reading.parsing import Definition, Import, ParsedModule, parse_beside
from musadata.mining.slicing.constructors import find_constructor
from musadata.mining.slicing.definition_index import PackageIndex
from musadata.mining.slicing.evidence import Example

SUFFIX = "__constructed"  # of the module that holds the subclass
KNOWN_IMPORTS = {
    "torch": "import torch",
    "nn": "from torch import nn",
    "F": "import torch.nn.functional as F",
    "math": "import math",
    "partial": "from functools import partial",
    "SimpleNamespace": "from types import SimpleNamespace",
}
KNOWN = frozenset(KNOWN_IMPORTS) | frozenset(dir(builtins))


def fix_arguments(
    index: PackageIndex,
    module: ParsedModule,
    definition: Definition,
    example: Example,
    number: int | str,
    elsewhere: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Definition, Example] | None:
    """A subclass whose constructor fixes the arguments that name something of the repository.

    Args:
        number: tells subclasses of one class apart.
        elsewhere: names that the arguments read of other files -> the modules of these.
    """
    constructor = find_constructor(index, definition)
    if len(example.init) > len(constructor.names):
        return None
    by_name = dict(zip(constructor.names, example.init, strict=False)) | dict(example.init_keywords)
    if not by_name.keys() <= set(constructor.names) or any(text.startswith("*") for text in by_name.values()):
        return None
    mined = {name: text for name, text in by_name.items() if not free_names(text) <= KNOWN}
    open_ones = [name for name in constructor.names if name in constructor.required and name not in by_name]
    shown = [name for name in by_name if name not in mined]
    own = [*open_ones, *shown]
    handed = [name for name in constructor.names if name in {*open_ones, *by_name}]
    if constructor.by_position and handed != list(constructor.names[: len(handed)]):
        return None
    given = [mined.get(name, name) if constructor.by_position else f"{name}={mined.get(name, name)}" for name in handed]
    read = {name for text in mined.values() for name in free_names(text)}
    names = sorted({definition.names[0], *(read - KNOWN)})
    imports = [line for name, line in KNOWN_IMPORTS.items() if name in read]
    lines = [*imports, "", "", f"class {definition.names[0]}{SUFFIX}({definition.names[0]}):"]
    lines += [
        f"    def __init__(self{''.join(f', {name}' for name in own)}):",
        f"        super().__init__({', '.join(given)})",
        "",
    ]
    text = "\n".join(lines)
    made = parse_beside(module, f"{SUFFIX}_{definition.names[0]}_{number}", text, names)
    made.bindings |= {name: Import(place, name) for name, place in elsewhere.items() if name in read}
    index.add(made)
    rest = () if open_ones else tuple(by_name[name] for name in shown)
    return made.classes()[0], Example(rest, (), example.inputs, example.input_keywords, example.evidence)


def free_names(text: str) -> set[str]:
    """The names that an expression reads and does not bind."""
    nodes = list(ast.walk(ast.parse(text, mode="eval")))
    bound = {item.id for item in nodes if isinstance(item, ast.Name) and not isinstance(item.ctx, ast.Load)}
    bound |= {item.arg for item in nodes if isinstance(item, ast.arg)}
    return {item.id for item in nodes if isinstance(item, ast.Name)} - bound
