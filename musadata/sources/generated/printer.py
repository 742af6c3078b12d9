"""Printing a graph as readable source in KernelBench's form."""

import ast
from collections import Counter
from collections.abc import Sequence

from musadata.sources.generated.graph_drawing import Graph, Node
from musadata.sources.generated.spec import Shape, Spec

_LINE = 88  # a nested call longer than this gets a line of its own


def print_graph(graph: Graph) -> str:
    """A module with `Model`, `get_inputs` and `get_init_inputs`."""
    return _Printer(graph).text()


def name_graph(graph: Graph) -> str:
    """The operators in order, for people: "Conv2d-Relu-Mean"."""
    return "-".join(type(node.spec).__name__ for node in graph.nodes if node.spec)


class _Printer:
    def __init__(self, graph: Graph):
        self.nodes = graph.nodes
        self.readers = Counter(operand for node in graph.nodes for operand in node.operands)
        self.last_reader = {operand: index for index, node in enumerate(graph.nodes) for operand in node.operands}
        stems = {index: node.spec.layer_name for index, node in enumerate(graph.nodes) if node.spec}
        self.layers = _number({index: stem for index, stem in stems.items() if stem})
        self.names = _name_sources(graph.nodes)  # value -> the expression that reads it
        self.pending: dict[int, str] = {}  # values without a name of their own, for their one reader
        self.bound: dict[str, int] = {}  # local name -> the value that it holds
        self.lines: list[str] = []

    def text(self) -> str:
        arguments = [index for index, node in enumerate(self.nodes) if node.spec is None and not node.learned]
        arguments.sort(key=lambda index: (not self.names[index].startswith("x"), _first_use(self.nodes, index)))
        self.bound = {self.names[index]: index for index in arguments}
        self._write_forward()
        body = _indent(self._constructor()) if self.layers or self._parameters() else ""
        constructor = f"    def __init__(self):\n        super().__init__()\n{body}\n" if body else ""
        signature = _signature([self.names[index] for index in arguments])
        inputs = _list([_draw(self.nodes[index]) for index in arguments])
        uses_f = any("F." in line for line in self.lines)
        return (
            "import torch\nimport torch.nn as nn\n"
            + ("import torch.nn.functional as F\n" if uses_f else "")
            + f"\n\nclass Model(nn.Module):\n{constructor}"
            + f"{signature}\n{_indent(self.lines)}"
            + f"\n\ndef get_inputs():\n    return {inputs}\n"
            + "\n\ndef get_init_inputs():\n    return []\n"
        )

    def _parameters(self) -> list[int]:
        return [index for index, node in enumerate(self.nodes) if node.spec is None and node.learned]

    def _constructor(self) -> list[str]:
        lines = [f"self.{name} = {_spec(self.nodes[index]).layer()}" for index, name in self.layers.items()]
        for index in self._parameters():
            lines.append(f"{self.names[index]} = nn.Parameter({self._initial_value(index)})")
        return lines

    def _initial_value(self, index: int) -> str:
        shape = self.nodes[index].shape
        if not self.names[index].startswith("self.weight"):
            return _randn(shape)
        return f"{_randn(shape)} * {round(shape[-2] ** -0.5, 3)}"  # keeps a product's deviation near 1

    def _write_forward(self) -> None:
        last = len(self.nodes) - 1
        for index, node in enumerate(self.nodes):
            if node.spec is None:
                continue
            expression = self._expression(index, node)
            if index == last:
                self.lines.append(f"return {expression}")
            elif self._may_nest(index, expression):
                self.pending[index] = expression
            else:
                self._bind(index, expression)

    def _expression(self, index: int, node: Node) -> str:
        """The value's expression, with pending expressions nested if the result is short."""
        head = [f"self.{self.layers[index]}"] if index in self.layers else []
        waiting = [operand for operand in node.operands if operand in self.pending]
        nested = [
            f"({self.pending[operand]})" if operand in waiting else self.names[operand] for operand in node.operands
        ]
        text = self._write(node, [*head, *nested])
        if waiting and (len(text) > _LINE or _reads_twice(node, head)):
            for operand in waiting:
                self._bind(operand, self.pending[operand])
            text = self._write(node, [*head, *(self.names[operand] for operand in node.operands)])
        for operand in waiting:
            del self.pending[operand]
        return text

    def _write(self, node: Node, operands: Sequence[str]) -> str:
        """The operator's expression, without `torch.abs` around values that are never negative."""
        text = _spec(node).expression(operands)
        first = self.nodes[node.operands[0]].spec
        if first and first.bounds[0] >= 0:
            text = text.replace(f"torch.abs({operands[-len(node.operands)]})", operands[-len(node.operands)])
        return ast.unparse(ast.parse(text, mode="eval"))  # without needless parentheses

    def _may_nest(self, index: int, expression: str) -> bool:
        """Whether the value has one reader, the very next operator, and is short: `F.relu(self.conv(x))`."""
        following = next(later for later in range(index + 1, len(self.nodes)) if self.nodes[later].spec)
        reads = self.nodes[following].operands
        crowded = any(operand in self.pending for operand in reads)
        return self.readers[index] == 1 and index in reads and expression.count("(") <= 1 and not crowded

    def _bind(self, index: int, expression: str) -> None:
        name = self._choose_name(index)
        self.names[index], self.bound[name] = name, index
        self.lines.append(f"{name} = {expression}")

    def _choose_name(self, index: int) -> str:
        stem = _spec(self.nodes[index]).result
        operand = self.nodes[index].operands[0]
        reused = self.names.get(operand, "")
        if stem == "x":
            stem = reused if reused.isidentifier() and self._is_dead(reused, index) else "out"
        candidates = [stem, *(f"{stem}{number}" for number in range(2, 20))]
        return next(name for name in candidates if self._is_dead(name, index))

    def _is_dead(self, name: str, index: int) -> bool:
        """Whether nothing after `index` reads the value of a name."""
        return name not in self.bound or self.last_reader[self.bound[name]] <= index


def _signature(arguments: Sequence[str]) -> str:
    typed = [f"{name}: torch.Tensor" for name in arguments]
    line = f"    def forward(self, {', '.join(typed)}) -> torch.Tensor:"
    if len(line) <= _LINE:
        return line
    listed = "".join(f"        {text},\n" for text in ["self", *typed])
    return f"    def forward(\n{listed}    ) -> torch.Tensor:"


def _list(values: Sequence[str]) -> str:
    line = f"[{', '.join(values)}]"
    return line if len(line) <= _LINE else "[\n" + "".join(f"        {value},\n" for value in values) + "    ]"


def _spec(node: Node) -> Spec:
    assert node.spec is not None
    return node.spec


def _reads_twice(node: Node, head: list[str]) -> bool:
    """Whether the operator's text names an operand more than once."""
    marks = [f"mark{position}_" for position in range(len(node.operands))]
    text = _spec(node).expression([*head, *marks])
    return any(text.count(mark) > 1 for mark in marks)


def _name_sources(nodes: Sequence[Node]) -> dict[int, str]:
    """Names of parameters and of `forward`'s arguments, by their use."""
    learned: dict[int, str] = {}
    arguments: dict[int, str] = {}
    sources = [index for index, node in enumerate(nodes) if node.spec is None]
    for index in sorted(sources, key=lambda index: _first_use(nodes, index)):
        reader, place = _first_use(nodes, index)
        stem = _spec(nodes[reader]).constant_names[:place][-1] if place else ""
        learns = nodes[index].learned
        (learned if learns else arguments)[index] = stem or ("constant" if learns else "x")
    names = {index: f"self.{name}" for index, name in _number(learned).items()}
    return names | _number(arguments)


def _first_use(nodes: Sequence[Node], index: int) -> tuple[int, int]:
    """The first operator that reads a value, and as which of its operands."""
    reader = next(later for later in range(index + 1, len(nodes)) if index in nodes[later].operands)
    return reader, nodes[reader].operands.index(index)


def _number(stems: dict[int, str]) -> dict[int, str]:
    """`conv`, or `conv1` and `conv2` where there are two."""
    count, seen = Counter(stems.values()), Counter[str]()
    names = {}
    for index, stem in stems.items():
        seen[stem] += 1
        names[index] = f"{stem}{seen[stem]}" if count[stem] > 1 else stem
    return names


def _draw(node: Node) -> str:
    if node.high:
        return (
            f"torch.randint(0, {node.high}, ({', '.join(map(str, node.shape))}{',' if len(node.shape) == 1 else ''}))"
        )
    return _randn(node.shape)


def _randn(shape: Shape) -> str:
    return f"torch.randn({', '.join(map(str, shape))})"


def _indent(lines: Sequence[str]) -> str:
    return "".join(f"        {line}\n" for line in lines)
