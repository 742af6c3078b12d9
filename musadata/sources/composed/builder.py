"""Building a module step by step: its constructor, its forward, and the current shape of its value."""

import ast
import math
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

Shape = tuple[int, ...]
Range = tuple[float, float]
ANY: Range = (-math.inf, math.inf)
TYPED = re.compile(  # what `dtype` is given to
    r"\b(?:torch\.randn?|nn\.(?:Linear|(?:RMS|Layer|Group|Batch|Instance)Norm(?:\dd)?|Conv(?:Transpose)?\dd|Embedding|(?:RNN|LSTM|GRU)(?:Cell)?))\("
)
LINE = 100  # a list longer than this is written over several lines


@dataclass
class Builder:
    """One `Model` under construction.

    `structure` decides the computation and `sizes` its sizes: the same structure can be drawn in other sizes.

    Attributes:
        shape: of the value `x`; its first axis is the batch.
        bounds: the range that `x` is known to lie in, so that no step is drawn that would be the identity.
        steps: the name of every decision, which together identify a structure.
        work: multiply-adds so far.
        dtype: of drawn values and parameters, "" for the default.
    """

    structure: random.Random
    sizes: random.Random
    shape: Shape = ()
    spatial: bool = False  # (batch, channels, …space) rather than (batch, …, features)
    bounds: Range = ANY
    steps: list[str] = field(default_factory=list)
    work: int = 0
    dtype: str = ""
    constants: dict[str, int] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    layers: list[tuple[str, str]] = field(default_factory=list)
    inputs: list[tuple[str, str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def pick(self, options: Sequence[str], weights: Sequence[float] | None = None) -> str:
        """Choose one of several options, and record it in the structure."""
        chosen = self.structure.choices(options, weights)[0]
        self.steps.append(chosen)
        return chosen

    def chance(self, probability: float) -> bool:
        """A structural yes or no."""
        return self.structure.random() < probability

    def note(self, step: str) -> None:
        self.steps.append(step)

    def size(self, options: Sequence[int]) -> int:
        return self.sizes.choice(options)

    def constant(self, name: str, value: int) -> str:
        """A top-level constant for a number; a suffix is added if another value has the name."""
        for number in range(1, 100):
            candidate = name if number == 1 else f"{name}{number}"
            if self.constants.setdefault(candidate, value) == value:
                return candidate
        raise AssertionError("a hundred sizes of one name")

    def argument(self, name: str, value: int) -> str:
        """A constant that the constructor takes."""
        found = self.constant(name, value)
        if found not in self.arguments:
            self.arguments.append(found)
        return found

    def layer(self, stem: str, text: str) -> str:
        """Add an attribute of the module; the expression that reads it in `forward`."""
        taken = [name for name, _ in self.layers]
        name = next(name for name in (stem, *(f"{stem}{number}" for number in range(2, 50))) if name not in taken)
        self.layers.append((name, text))
        return f"self.{name}"

    def parameter(self, stem: str, shape: str, scale: str = "") -> str:
        """A learned tensor of a shape in names or numbers: "out_channels, 1, 1"."""
        return self.layer(stem, f"nn.Parameter(torch.randn({shape}){scale})")

    def input(self, name: str, sizes: Sequence[str], draw: str = "torch.randn({})") -> str:
        """An argument of `forward`, with the expression that draws it."""
        taken = [known for known, _ in self.inputs]
        name = next(found for found in (name, *(f"{name}{number}" for number in range(2, 20))) if found not in taken)
        self.inputs.append((name, draw.format(", ".join(sizes))))
        return name

    def line(self, text: str) -> None:
        self.lines.append(text)

    def apply(self, expression: str, bounds: Range = ANY) -> None:
        """Assign an expression to `x`."""
        self.lines.append(f"x = {expression}")
        self.bounds = bounds

    def is_within(self, bounds: Range) -> bool:
        """Whether all of `x` is known to lie between these values."""
        return bounds[0] <= self.bounds[0] and self.bounds[1] <= bounds[1]

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    def text(self) -> str:
        """The whole reference."""
        *before, last = self.lines
        lines = [*before, f"return {last.removeprefix('x = ')}"]  # the last assignment is returned
        text = "\n".join(f"        {line}" for line in lines)
        layers = "\n".join(_assigned(name, _typed(value, self.dtype)) for name, value in self.layers)
        arguments = [name for name in self.arguments if re.search(rf"\b{name}\b", layers)]
        constructor = ", ".join(["self", *(f"{name}: int" for name in arguments)])
        init = f"    def __init__({constructor}):\n        super().__init__()\n{layers}\n\n" if layers else ""
        forward = ", ".join(["self", *(f"{name}: torch.Tensor" for name, _ in self.inputs)])
        returned = "torch.Tensor" if not _is_tuple(lines[-1]) else "tuple[torch.Tensor, ...]"
        body = f"class Model(nn.Module):\n{init}    def forward({forward}) -> {returned}:\n{text}"
        body = _numbered(_wrapped(body), self.layers)
        imports = "import torch\nimport torch.nn as nn\n"
        imports += "import torch.nn.functional as F\n" if "F." in body else ""
        imports = f"import math\n\n{imports}" if "math." in body else imports
        drawn = [_typed(draw, self.dtype) for _, draw in self.inputs]
        used = re.findall(r"[a-z_]\w*", " ".join([*drawn, *arguments]))
        constants = "".join(f"{name} = {value}\n" for name, value in self.constants.items() if name in used)
        functions = f"{_returned_list('get_inputs', drawn)}\n\n{_returned_list('get_init_inputs', arguments)}"
        return f"{imports}\n\n{body}\n\n\n{constants}\n\n{functions}"


def _is_tuple(statement: str) -> bool:
    (node,) = ast.parse(statement).body
    return isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple)


def _typed(text: str, dtype: str) -> str:
    """An expression in which random values and layers have a dtype."""
    for found in reversed(list(TYPED.finditer(text)) if dtype else []):
        depth, place = 1, found.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[place], 0)
            place += 1
        text = f"{text[: place - 1]}, dtype=torch.{dtype}{text[place - 1 :]}"
    return text


def _assigned(name: str, value: str) -> str:
    """The line of a layer; the arguments of a long one have a line of their own."""
    line = f"        self.{name} = {value}"
    if len(line) <= LINE or not value.endswith(")"):
        return line
    called, _, arguments = line.partition("(")
    return f"{called}(\n            {arguments[:-1]}\n        )"


def _returned_list(name: str, items: Sequence[str]) -> str:
    line = f"    return [{', '.join(items)}]"
    if len(line) > LINE:
        line = "    return [\n" + "".join(f"        {item},\n" for item in items) + "    ]"
    return f"def {name}():\n{line}\n"


def _wrapped(text: str) -> str:
    """The text with one argument per line in signatures that are too long."""
    written = []
    for line in text.split("\n"):
        found = re.match(r"    def (\w+)\((.*)\)(.*):$", line)
        if found and len(line) > LINE:
            arguments = "".join(f"        {argument},\n" for argument in found[2].split(", "))
            line = f"    def {found[1]}(\n{arguments}    ){found[3]}:"
        written.append(line)
    return "\n".join(written)


def _numbered(text: str, layers: Sequence[tuple[str, str]]) -> str:
    """`conv1` rather than `conv` where there is a `conv2`."""
    stems = Counter(re.sub(r"\d+$", "", name) for name, _ in layers)
    for name, _ in layers:
        if stems[name] > 1:
            text = re.sub(rf"\bself\.{name}\b", f"self.{name}1", text)
    return text
