"""The Python side of a candidate: the reference's constructor, and a forward that calls the host function."""

import re
import textwrap
from pathlib import Path
from typing import Any

from musadata.compiler.emission.host import STATE_LISTS, HostFunction
from musadata.compiler.ir.captured_graph import Graph

TEMPLATE = Path(__file__).parent.joinpath("templates/module.txt").read_text(encoding="utf-8")


def write_module(graph: Graph, host: HostFunction, cuda: str) -> str:
    """The whole candidate."""
    constructor = graph.constructor
    imports = constructor["imports"].splitlines()
    standard = [line for line in imports if not re.match(r"(import|from) torch\b", line)]
    return TEMPLATE.format(
        standard_imports="".join(f"{line}\n" for line in standard) + "\n" * bool(standard),
        torch_imports="".join(f"{line}\n" for line in imports if line not in standard),
        cuda=cuda,
        declaration=f'"""\n{host.declaration}\n"""' if "\n" in host.declaration else f'"{host.declaration}"',
        name=host.name,
        function=host.name,
        definitions=f"{constructor['definitions']}\n\n\n" if constructor["definitions"] else "",
        bases=constructor["bases"],
        methods=f"{constructor['methods']}\n\n" if constructor["methods"] else "",
        arguments=_arguments(graph),
        forward=textwrap.indent(_refusal(graph) + _forward(graph, host), "        "),
    )


_DIFFERS = {"None": "{name} is not None", "True": "not {name}", "False": "{name}"}


def _arguments(graph: Graph) -> str:
    """All parameters of the reference's forward."""
    names = [argument["name"] for argument in graph.arguments]
    names += [f"{option['name']}={option['default']}" for option in graph.options if not option["keyword"]]
    keywords = [f"{option['name']}={option['default']}" for option in graph.options if option["keyword"]]
    listed = ["self", *names, *(["*", *keywords] if keywords else [])]
    text = ", ".join(listed)
    return text if len(text) <= 90 else "\n" + "".join(f"        {name},\n" for name in listed) + "    "


def _refusal(graph: Graph) -> str:
    """Statements that refuse options and constructor arguments that the kernels are not written for."""
    literals = [argument for argument in graph.arguments if not argument["dtype"]]
    fixed = {argument["name"]: argument["literal"] for argument in literals}
    fixed |= {option["name"]: option["default"] for option in graph.options}
    fixed |= {_attribute(path): value for path, value in graph.fixed.items()}
    if not fixed:
        return ""
    tests = [_DIFFERS.get(value, "{name} != {value}").format(name=name, value=value) for name, value in fixed.items()]
    test = " or ".join(tests)
    if len(test) > 90:
        test = "(\n    " + "\n    or ".join(tests) + "\n)"
    return f'if {test}:\n    raise ValueError("the kernels are not written for these options")\n'


def _forward(graph: Graph, host: HostFunction) -> str:
    names = {argument["spec"]: argument["name"] for argument in graph.arguments}
    inputs = [item for item, _ in host.parameters]
    arguments = [names[item.name] if item.role == "argument" else state_path(item.name) for item in inputs]
    arguments += [_attribute(graph.attributes[number]) for number in host.numbers]
    arguments += [f"list(self.{STATE_LISTS[one]}())" for one in host.lists]
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


def _attribute(path: str) -> str:
    """The Python expression for an attribute, or an item of one."""
    name, bracket, item = path.partition("[")
    return state_path(name) + bracket + item


def state_path(name: str) -> str:
    """The Python expression for a state-dict name: layers.0.weight is self.layers[0].weight."""
    text = "self"
    for part in name.split("."):
        if part.isidentifier():
            text += f".{part}"
        else:
            text += f"[{part}]" if text != "self" else f"._modules[{part!r}]"
    return text
