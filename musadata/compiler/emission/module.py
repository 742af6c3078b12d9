"""The Python side of a candidate: the reference's constructor, and a forward that calls the host function."""

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from musadata.compiler.emission.host import STATE_LISTS, HostFunction
from musadata.compiler.ir.captured_graph import Graph
from musadata.compiler.ir.printing import declaration_of

TEMPLATE = Path(__file__).parent.joinpath("templates/module.txt").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Module:
    """The Python around the CUDA C++ of a candidate, as the template has it.

    Attributes:
        declaration: of the host function, as a literal.
        name: of the extension.
        function: the host function that Python asks the extension for.
        definitions: what the reference defines beside its class.
        head: the class up to the statements of its forward.
        refusal: what refuses options that the kernels are not written for, if anything does.
        arguments: of the call of the host function.
        result: what is made of the call `{}`.
    """

    standard_imports: str
    torch_imports: str
    declaration: str
    name: str
    function: str
    definitions: str
    head: str
    refusal: str
    arguments: tuple[str, ...]
    result: str

    @property
    def call(self) -> str:
        """The call of the host function."""
        call = f"extension.{self.name}({', '.join(self.arguments)})"
        return call if len(call) <= 100 else f"extension.{self.name}(\n    " + ",\n    ".join(self.arguments) + ",\n)"

    @property
    def statements(self) -> str:
        """Of its forward."""
        return self.refusal + self.result.format(self.call)

    def around(self, cuda: str) -> str:
        """The whole candidate."""
        return TEMPLATE.format(cuda=cuda, forward=textwrap.indent(f"{self.statements}\n", "        "), **vars(self))


def write_module(graph: Graph, host: HostFunction) -> Module:
    """The Python of a candidate."""
    constructor, declaration = graph.constructor, declaration_of(host.routines[-1])
    imports = constructor["imports"].splitlines()
    standard = [line for line in imports if line.split()[1].partition(".")[0].rstrip(",") != "torch"]
    methods = f"{constructor['methods']}\n\n" if constructor["methods"] else ""
    return Module(
        standard_imports="".join(f"{line}\n" for line in (*standard, *[""] * bool(standard))),
        torch_imports="".join(f"{line}\n" for line in imports if line not in standard),
        declaration=f'"""\n{declaration}\n"""' if "\n" in declaration else f'"{declaration}"',
        name=host.name,
        function=host.name,
        definitions=f"{constructor['definitions']}\n\n\n" if constructor["definitions"] else "",
        head=f"class ModelNew({constructor['bases']}):\n{methods}    def forward({_arguments(graph)}):\n",
        refusal=_refusal(graph),
        arguments=_call_arguments(graph, host),
        result=_result(graph),
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


def _call_arguments(graph: Graph, host: HostFunction) -> tuple[str, ...]:
    names = {argument["spec"]: argument["name"] for argument in graph.arguments}
    inputs = [item for item, _ in host.parameters]
    return (
        *(names[item.name] if item.role == "argument" else state_path(item.name) for item in inputs),
        *(_attribute(graph.attributes[number]) for number in host.numbers),
        *(f"list(self.{STATE_LISTS[one]}())" for one in host.lists),
    )


def _result(graph: Graph) -> str:
    if graph.result == {"tensor": 0}:
        return "return {}"
    if len(graph.outputs) > 1 and graph.result == {"tuple": [{"tensor": i} for i in range(len(graph.outputs))]}:
        return "return tuple({})"
    targets = ", ".join(f"result{i}" for i in range(len(graph.outputs)))
    nested = _nested(graph.result).replace("{", "{{").replace("}", "}}")
    return f"{targets} = {{}}\nreturn {nested}"


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
