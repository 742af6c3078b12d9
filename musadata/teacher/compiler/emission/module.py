"""The Python side of a candidate: state under the reference's names, and a forward that calls the host function."""

import textwrap
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from musadata.teacher.compiler.emission.host import HostFunction
from musadata.teacher.compiler.ir.captured_graph import Graph

TEMPLATE = Path(__file__).parent.joinpath("templates/module.txt").read_text(encoding="utf-8")


def write_module(graph: Graph, host: HostFunction, cuda: str) -> str:
    """The whole candidate."""
    initializer = textwrap.indent(_initializer(graph), "    ")
    return TEMPLATE.format(
        imports="import torch.nn.functional as F\n" if " F." in initializer else "",
        cuda=cuda,
        declaration=f'"""\n{host.declaration}\n"""' if "\n" in host.declaration else f'"{host.declaration}"',
        name=host.name,
        function=host.name,
        initializer=initializer,
        arguments="".join(f", {argument['name']}" for argument in graph.arguments),
        forward=textwrap.indent(_forward(graph, host), "        "),
    )


def _forward(graph: Graph, host: HostFunction) -> str:
    names = {argument["spec"]: argument["name"] for argument in graph.arguments}
    inputs = [item for item, _ in host.parameters]
    arguments = [names[item.name] if item.role == "argument" else state_path(item.name) for item in inputs]
    call = f"extension.{host.name}({', '.join(arguments)})"
    if len(call) > 100:
        call = f"extension.{host.name}(\n    " + ",\n    ".join(arguments) + ",\n)"
    if graph.result == {"tensor": 0}:
        return f"return {call}"
    if len(graph.outputs) > 1 and graph.result == {"tuple": [{"tensor": i} for i in range(len(graph.outputs))]}:
        return f"return tuple({call})"
    targets = ", ".join(f"result{i}" for i in range(len(graph.outputs)))
    return f"{targets} = {call}\nreturn {_nested(graph.result)}"


def _nested(result: Any) -> str:
    if "tensor" in result:
        return f"result{result['tensor']}"
    if "value" in result:
        return repr(result["value"])
    if "dict" in result:
        return "{" + ", ".join(f"{key!r}: {_nested(item)}" for key, item in result["dict"].items()) + "}"
    items = [_nested(item) for item in result.get("tuple", result.get("list"))]
    if "list" in result:
        return f"[{', '.join(items)}]"
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def state_path(name: str) -> str:
    """The Python expression for a state-dict name: layers.0.weight is self.layers[0].weight."""
    text = "self"
    for part in name.split("."):
        if part.isidentifier():
            text += f".{part}"
        else:
            text += f"[{part}]" if text != "self" else f"._modules[{part!r}]"
    return text


def _initializer(graph: Graph) -> str:
    source = graph.initializer["source"]
    if source:
        return source.rstrip() + "\n"
    if not graph.state and graph.initializer["parameters"] == "self":
        return ""
    lines = [f"def __init__({graph.initializer['parameters']}):", "    super().__init__()"]
    lines += [f"    {line}" for line in _holders(graph.state)]
    return "\n".join(lines) + "\n"


def _holders(state: Sequence[Mapping[str, Any]]) -> list[str]:
    """Statements that make every parameter and buffer, inside of plain modules that only hold them."""
    lines: list[str] = []
    if any("." in entry["name"] for entry in state):
        lines.append("# Plain modules that hold the parameters under the names of the reference's state dict.")
    made: set[str] = set()
    children = _children(state)
    for entry in state:
        *owners, leaf = entry["name"].split(".")
        for depth in range(len(owners)):
            path = ".".join(owners[: depth + 1])
            if path not in made:
                made.add(path)
                lines.append(_holder(path, children[path]))
        lines.append(_tensor(".".join(owners), leaf, entry))
    return [line for line in lines if line]


def _children(state: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The names directly inside of each module, in order."""
    children: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for entry in state:
        parts = entry["name"].split(".")
        for depth in range(1, len(parts)):
            children[".".join(parts[:depth])][parts[depth]] = None
    return {path: list(names) for path, names in children.items()}


def _holder(path: str, children: Sequence[str]) -> str:
    """The statement that makes one plain module; numbered children live in a list."""
    numbers = [int(name) for name in children if not name.isidentifier()]
    if not numbers and not path.split(".")[-1].isidentifier():
        return ""  # its parent, a list, makes it
    container = f"nn.ModuleList([nn.Module() for _ in range({max(numbers) + 1})])" if numbers else "nn.Module()"
    return f"{state_path(path)} = {container}"


def _tensor(owner: str, leaf: str, entry: Mapping[str, Any]) -> str:
    shape = ", ".join(map(str, entry["shape"])) if entry["shape"] else "()"
    dtype = "" if entry["dtype"] == "float32" else f", dtype=torch.{entry['dtype']}"
    tensor = f"torch.empty({shape}{dtype})"
    holder = state_path(owner) if owner else "self"
    if entry["role"] == "parameter":
        trains = "" if entry["trains"] else ", requires_grad=False"
        if not leaf.isidentifier():
            return f'{holder}.register_parameter("{leaf}", nn.Parameter({tensor}{trains}))'
        return f"{holder}.{leaf} = nn.Parameter({tensor}{trains})"
    kept = "" if entry["persistent"] else ", persistent=False"
    return f'{holder}.register_buffer("{leaf}", {tensor}{kept})'
