"""Top-level functions of tensors as modules whose `forward` calls them."""

import ast
import re
from collections.abc import Iterator

from musadata.mining.reading.dotted_names import dotted_name
from musadata.mining.reading.parsing import Definition, ParsedModule, parse_beside
from musadata.mining.slicing.definition_index import PackageIndex

SUFFIX = "__function"  # of the module that holds such a class
OF_TORCH = ("torch", "F", "nn")
MAKING = re.compile(r"\.(arange|zeros|ones|full|empty|eye|linspace|logspace|tensor|device|Generator|rand\w*)$")
PRIVATE = ("_", "test", "main")


def tensor_functions(module: ParsedModule) -> Iterator[Definition]:
    """The functions of a file that compute with arguments by functions of torch, or say that these are tensors."""
    for binding in dict.fromkeys(module.bindings.values()):
        node = binding.node if isinstance(binding, Definition) else None
        if isinstance(node, ast.FunctionDef) and not node.name.startswith(PRIVATE) and _is_of_tensors(node):
            yield binding  # type: ignore[misc]


def _is_of_tensors(node: ast.FunctionDef) -> bool:
    own = [*node.args.posonlyargs, *node.args.args]
    inner = [item for statement in node.body for item in ast.walk(statement)]
    returns = any(isinstance(item, ast.Return) and item.value is not None for item in inner)
    if not own or not returns or node.decorator_list or any(isinstance(item, ast.Yield) for item in inner):
        return False
    if any(item.annotation is not None and "Tensor" in ast.unparse(item.annotation) for item in own):
        return True
    names, calls = {item.arg for item in own}, (item for item in inner if isinstance(item, ast.Call))
    called = [(dotted_name(call.func) or "", call.args) for call in calls]
    computed = [given for name, given in called if name.split(".")[0] in OF_TORCH and not MAKING.search(name)]
    return any(isinstance(item, ast.Name) and item.id in names for given in computed for item in given)


def as_module(index: PackageIndex, module: ParsedModule, definition: Definition) -> Definition:
    """A class whose `forward` takes what the function takes, without what has no plain default."""
    node = definition.node
    assert isinstance(node, ast.FunctionDef)
    positional = [*node.args.posonlyargs, *node.args.args]
    required = positional[: len(positional) - len(node.args.defaults)]
    defaults = [
        *zip(positional[len(required) :], node.args.defaults, strict=True),
        *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
    ]
    texts = {item.arg: ast.unparse(value) for item, value in defaults if value is not None and is_plain(value)}
    texts |= {item.arg: "" for item, value in defaults if value is None}
    taken = [item.arg for item in required] + [name for name, text in texts.items() if not text]
    optional = [(name, text) for name, text in texts.items() if text]
    parameters = ", ".join(["self", *taken, *(f"{name}={text}" for name, text in optional)])
    given = ", ".join([*(item.arg for item in required), *(f"{name}={name}" for name in texts)])
    name = node.name
    text = (
        f"from torch import nn\n\n\nclass {name}{SUFFIX}(nn.Module):\n"
        f"    def forward({parameters}):\n        return {name}({given})\n"
    )
    made = parse_beside(module, f"{SUFFIX}_{name}", text, [name])
    index.add(made)
    return made.classes()[0]


def is_plain(value: ast.expr) -> bool:
    try:
        ast.literal_eval(value)
    except ValueError:
        return False
    return True
