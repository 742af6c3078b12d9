"""The captured graph as dataclasses, with every size a formula over a few named sizes."""

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from musadata.compiler.ir.conditions import Condition, conditions_of
from musadata.compiler.ir.index_formulas import (
    Index,
    Operation,
    Size,
    divide,
    join_halves,
    number,
    of,
    operate,
    product,
)
from musadata.compiler.ir.scalar import RESERVED_NAMES, Given, free_name
from musadata.operators import column


@dataclass(frozen=True)
class TensorType:
    """Shape and dtype of a value."""

    shape: tuple[Index, ...]
    dtype: str


@dataclass(frozen=True)
class Node:
    """One call of an aten operator. `arguments` are by schema name; `types` holds one entry per result."""

    name: str
    op: str
    arguments: Mapping[str, Any]
    types: tuple[TensorType | None, ...]


@dataclass(frozen=True)
class Reference:
    """An argument that is another node's result."""

    node: str


@dataclass(frozen=True)
class Real:
    """A floating-point argument that is computed from sizes. `sign`: int (of a size), +, *, /, ** or a number."""

    sign: str
    parts: tuple[Any, ...]


@dataclass(frozen=True)
class GraphInput:
    """A tensor that the graph reads. `role`: argument (of forward), state, or constant, whose values then are given."""

    node: str
    role: str
    name: str
    type: TensorType
    values: tuple[Any, ...] = ()


@dataclass(frozen=True)
class GraphOutput:
    """A tensor that the graph returns."""

    node: str
    type: TensorType
    stride: tuple[Index, ...]


@dataclass(frozen=True)
class SizeOrigin:
    """Where the host takes a named size from: a dimension of a tensor, a formula of other sizes, or an attribute of the
    model. `role` and `tensor` are those of the graph's input."""

    name: str
    role: str = ""
    tensor: str = ""
    dim: int = -1
    formula: Index | None = None
    hints: tuple[int, ...] = ()  # its value in each set of shapes
    attribute: str = ""
    least: int = 1  # that kernels are made for


@dataclass(frozen=True)
class Graph:
    """A captured reference. `conditions` must hold for its sizes. `result` nests the outputs; `options` are forward's
    arguments that are not passed, and `state` and `constructor` are as `capture` wrote them."""

    arguments: tuple[Mapping[str, Any], ...]
    options: tuple[Mapping[str, Any], ...]
    numbers: Mapping[str, str]  # names of those that kernels are given, and the attributes that hold them
    fixed: Mapping[str, str]  # values of attributes that the kernels are written for
    shaped: frozenset[str]  # parameters and buffers whose shapes depend on an argument of the constructor
    inputs: tuple[GraphInput, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[GraphOutput, ...]
    sizes: tuple[SizeOrigin, ...]
    conditions: tuple[Condition, ...]
    state: tuple[Mapping[str, Any], ...]
    constructor: Mapping[str, str]
    result: Any

    def hints(self) -> list[dict[str, int]]:
        """The named sizes' values, one mapping per set of shapes."""
        sets = len(self.sizes[0].hints) if self.sizes else 1
        return [{size.name: size.hints[i] for size in self.sizes} for i in range(sets)]

    @property
    def attributes(self) -> dict[str, str]:
        """Names of numbers and integers that kernels are given, and the attributes of the model that hold them."""
        return {**self.numbers, **{size.name: size.attribute for size in self.sizes if size.attribute}}

    def sizes_for(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
        """The named sizes' values for other shapes of forward's arguments; none if a tensor has no shape there."""
        values: dict[str, int] = {}
        for size in self.sizes:
            if size.formula is not None:
                values[size.name] = size.formula.evaluate(values)
            elif size.attribute:
                values[size.name] = size.hints[0]
            elif size.role == "argument" and size.tensor in shapes:
                values[size.name] = shapes[size.tensor][size.dim]
            else:
                return {}
        return values


def parse_graph(captured: Mapping[str, Any], known: Iterable[str] = ()) -> Graph:
    """The graph from what `capture.capture` returned. The attributes in `known` are not given but written in."""
    names = _readable_names([entry["name"] for entry in captured["nodes"]])
    captured = _renamed(captured, names)
    sizes = _SizeTable(captured, frozenset(known))
    inputs = [GraphInput(item["node"], item["role"], item["name"], sizes.type_of(item)) for item in captured["inputs"]]
    for item in captured["constants"]:
        name, values = item["node"].strip("_"), tuple(map(_plain, item["values"]))
        inputs.append(GraphInput(item["node"], "constant", name, sizes.type_of(item), values))
    nodes = tuple(
        Node(
            entry["name"],
            entry["op"],
            {key: sizes.argument(value) for key, value in entry["arguments"].items()},
            tuple(None if item is None else sizes.type_of(item) for item in entry["tensors"]),
        )
        for entry in captured["nodes"]
    )
    nodes = _without_repeats(nodes, {entry["node"] for entry in captured["outputs"]})
    outputs = tuple(
        GraphOutput(entry["node"], sizes.type_of(entry), tuple(sizes.formula(s) for s in entry["stride"]))
        for entry in captured["outputs"]
    )
    return Graph(
        tuple(captured["arguments"]),
        tuple(captured["options"]),
        {name: path for path, name in sizes.numbers.items()},
        {**captured["fixed"], **sizes.written},
        frozenset(captured["shaped"]),
        tuple(inputs),
        nodes,
        outputs,
        tuple(sizes.origins.values()),
        sizes.conditions(),
        tuple(captured["state"]),
        captured["constructor"],
        captured["result"],
    )


def _without_repeats(nodes: Sequence[Node], returned: Collection[str]) -> tuple[Node, ...]:
    """The nodes without those that do the same as one before; what is returned stays a tensor of its own."""
    kept: dict[object, Node] = {}
    same: dict[str, str] = {}

    def renamed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(renamed, value))
        return Reference(same.get(value.node, value.node)) if isinstance(value, Reference) else value

    for node in nodes:
        arguments = {key: renamed(value) for key, value in node.arguments.items()}
        typed = tuple((key, type(value), value) for key, value in sorted(arguments.items()))
        key = node.name if node.name in returned else (node.op, node.types, typed)
        first = kept.setdefault(key, replace(node, arguments=arguments))
        if first.name != node.name:
            same[node.name] = first.name
    return tuple(kept.values())


def _readable_names(names: list[str]) -> dict[str, str]:
    """Short names that a person would use, numbered from 2 where one occurs again."""
    counts: dict[str, int] = {}
    readable = {}
    for name in names:
        plain = re.sub(r"_\d+$", "", name)
        plain = str(column("called").get(plain, plain)).strip("_")
        counts[plain] = counts.get(plain, 0) + 1
        digit = "_" if plain[-1].isdigit() else ""
        readable[name] = plain if counts[plain] == 1 else f"{plain}{digit}{counts[plain]}"
    return readable


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Captured JSON with its nodes renamed, in definitions and references."""
    if isinstance(value, dict):
        renamed = {key: _renamed(item, names) for key, item in value.items()}
        if isinstance(value.get("node"), str):
            renamed["node"] = names.get(value["node"], value["node"])
        if "op" in value:
            renamed["name"] = names[value["name"]]
        return renamed
    return [_renamed(item, names) for item in value] if isinstance(value, list) else value


_MATRIX, _IMAGE, _VOLUME = "batch rows cols", "batch channels height width", "batch channels depth height width"
_DIMENSION_NAMES = ("", "length", "rows cols", _MATRIX, _IMAGE, _VOLUME)


def dimension_names(rank: int) -> tuple[str, ...]:
    """Usual names of a tensor's sizes."""
    known = _DIMENSION_NAMES[rank].split() if rank < len(_DIMENSION_NAMES) else [f"size{i}" for i in range(rank)]
    return tuple(known)


@dataclass
class _SizeTable:
    """Gives every dimension that is no plain product of sizes a name of its own, so that formulas stay short."""

    captured: Mapping[str, Any]
    known: frozenset[str]
    numbers: dict[str, str] = field(default_factory=dict)  # names by attribute
    written: dict[str, str] = field(default_factory=dict)
    origins: dict[str, SizeOrigin] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._parsed: dict[str, Index] = {}
        self._derived: list[tuple[Index, Index]] = []
        self._cache: dict[str, Index] = {}
        self._multiples: list[Condition] = []
        tensors = [("argument", one["spec"], one["rank"]) for one in self.captured["arguments"]]
        tensors += [("state", one["name"], len(one["shape"])) for one in self.captured["state"]]
        mentioned = json.dumps([self.captured[part] for part in ("inputs", "nodes", "outputs", "conditions")])
        for entry in self.captured["sizes"]:
            if json.dumps(["size", entry["name"]]) not in mentioned:
                continue  # known to equal another one, which goes by the plainer name then
            if "attribute" in entry:
                self._add_attribute(entry)
                continue
            role, tensor, rank = tensors[entry["argument"]]
            dim = entry["dim"]
            is_argument = role == "argument"
            name = self._fresh(dimension_names(rank)[dim] if is_argument else f"{tensor.split('.')[-1]}_size{dim}")
            self._parsed[entry["name"]] = of(Size(name))
            self.origins[name] = SizeOrigin(name, role, tensor, dim, None, tuple(entry["values"]))
        for whole, part in dict(_split_sizes(self.captured)).items():
            size = self._parsed[whole].atom
            if isinstance(size, Size) and all(value % part == 0 for value in self.origins[size.name].hints):
                self._split(whole, size, part)

    def _split(self, whole: str, size: Size, part: int) -> None:
        """Make a size a multiple of what views split it into, for which the graph is then made only."""
        cells, rest = divide(of(size), number(part))
        name = self._fresh(f"{size.name}_cells")
        self.origins[name] = SizeOrigin(name, formula=cells, hints=self._values(cells))
        self._parsed[whole] = of(Size(name)) * part
        self._multiples.append(Condition("==", rest, number(0)))

    def _add_attribute(self, entry: Mapping[str, Any]) -> None:
        path, values = entry["attribute"], tuple(entry["values"])
        if path in self.known:
            self.written[path] = repr(values[0])
            self._parsed[entry["name"]] = number(values[0])
            return
        name = self._number_name(path)
        self._parsed[entry["name"]] = of(Size(name, entry["least"]))
        self.origins[name] = SizeOrigin(name, hints=values, attribute=path, least=entry["least"])

    def type_of(self, entry: Mapping[str, Any]) -> TensorType:
        names = dimension_names(len(entry["shape"]))
        shape = tuple(self._dimension(size, f"out_{name}") for size, name in zip(entry["shape"], names, strict=True))
        return TensorType(shape, entry["dtype"])

    def argument(self, value: Any) -> Any:
        """An operator's argument: references, sizes (as `Index`), dtypes (as `torch` names) and numbers."""
        if isinstance(value, list):
            return tuple(self.argument(item) for item in value)
        if isinstance(value, dict):
            if "given" in value:
                return self._given(value["given"], value["value"])
            if "node" in value:
                return Reference(value["node"])
            if "size" in value:
                return self.formula(value["size"])
            if "real" in value:
                return self._real(value["real"])
            return value["dtype"] if "dtype" in value else float(value["float"])
        return value

    def _given(self, path: str, value: Any) -> Any:
        if path in self.known:
            self.written[path] = repr(value)
            return value
        if path not in self.numbers:
            self.numbers[path] = self._number_name(path)
        return Given(self.numbers[path], is_integer=isinstance(value, int))

    def _number_name(self, path: str) -> str:
        plain = re.sub(r"\W+", "_", path.split(".")[-1]).strip("_")
        plain = plain if len(plain) > 1 else f"{plain}_value"
        return free_name({*self.numbers.values(), *self.origins, *RESERVED_NAMES}, plain)

    def _real(self, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        sign, *parts = value
        return Real(sign, (self.formula(parts[0]),) if sign == "int" else tuple(self._real(part) for part in parts))

    def conditions(self) -> tuple[Condition, ...]:
        return (*conditions_of(self.captured["conditions"], self.formula, self.hints()), *self._multiples)

    def hints(self) -> list[dict[str, int]]:
        """The values of all sizes so far, one mapping per set of shapes."""
        sets = len(next(iter(self.origins.values())).hints) if self.origins else 0
        return [{origin.name: origin.hints[i] for origin in self.origins.values()} for i in range(sets)]

    def formula(self, size: Any) -> Index:
        """A size or stride as a formula of named sizes."""
        key = repr(size)
        if key not in self._cache:
            self._cache[key] = self._factor(self._parse(size))
        return self._cache[key]

    def _dimension(self, size: Any, name: str) -> Index:
        formula = self.formula(size)
        if len(formula.terms) <= 1 and all(isinstance(atom, Size) for m, _ in formula.terms for atom in m):
            return formula
        fresh = self._fresh(name)
        self.origins[fresh] = SizeOrigin(fresh, formula=formula, hints=self._values(formula))
        named = of(Size(fresh, _least(formula)))
        self._derived.append((self._parse(size), named))
        self._cache.clear()
        return named

    def _values(self, formula: Index) -> tuple[int, ...]:
        """The formula's value in each set of shapes."""
        return tuple(formula.evaluate(sizes) for sizes in self.hints())

    def _factor(self, formula: Index) -> Index:
        """Divide derived sizes out of a polynomial: (s - 2) * (t - 2) becomes out_height * out_width."""
        if len(formula.terms) <= 1 and not any(isinstance(a, Operation) for m, _ in formula.terms for a in m):
            return formula
        for expanded, named in self._derived:
            if formula == expanded:
                return named
            quotient, rest = divide(formula, expanded)
            if rest == number(0) and not any(
                isinstance(a, Operation) and a.right == expanded for a in quotient.atoms()
            ):
                return self._factor(quotient) * named
        return formula

    def _parse(self, size: Any) -> Index:
        if isinstance(size, int):
            return number(size)
        kind, *parts = size
        if kind == "size":
            return self._parsed[parts[0]]
        formulas = [self._parse(part) for part in parts]
        if kind == "+":
            return join_halves(sum(formulas[1:], formulas[0]))
        if kind == "*":
            return product(formulas)
        if kind in ("max", "min"):
            known = self._decided(kind, formulas)
            if known is not None:
                return known
        return operate(kind, formulas[0], formulas[1])

    def _decided(self, kind: str, formulas: list[Index]) -> Index | None:
        """The operand that a maximum or minimum with a number is for every set of shapes: max(1, width - 1)."""
        fixed = [f for f in formulas if f.constant is not None]
        moving = [f for f in formulas if f.constant is None]
        if len(fixed) != 1 or len(moving) != 1:
            return None
        limit = fixed[0].constant or 0
        good = all(value >= limit if kind == "max" else value <= limit for value in self._values(moving[0]))
        return moving[0] if good else None

    def _fresh(self, name: str) -> str:
        return free_name(self.origins, name)


def _least(formula: Index) -> int:
    """The least value of a formula of sizes where all add to it, as of batch + 3; else 1."""
    total = 0
    for monomial, coefficient in formula.terms:
        sizes = [atom.least for atom in monomial if isinstance(atom, Size)]
        if coefficient < 0 or len(sizes) < len(monomial):
            return 1
        total += coefficient * math.prod(sizes)
    return total


def _split_sizes(captured: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Sizes that views split into a quotient and the number that it is by; such views are of multiples only."""
    shapes = {item["node"]: item["shape"] for item in (*captured["inputs"], *captured["constants"])}
    for node in captured["nodes"]:
        wanted, source = node["arguments"].get("size"), node["arguments"].get("self")
        if "view" in node["op"] and isinstance(wanted, list) and isinstance(source, dict):
            plain = [one["size"] if isinstance(one, dict) and "size" in one else one for one in wanted]
            for one, other in (*pairwise(plain), *pairwise(plain[::-1])):
                match one:
                    case ["//", ["size", name], int(part)] if part == other and ["size", name] in shapes.get(
                        source.get("node"), ()
                    ):
                        yield name, part
        if node["tensors"] and node["tensors"][0]:
            shapes[node["name"]] = node["tensors"][0]["shape"]


def _plain(value: Any) -> Any:
    return float(value["float"]) if isinstance(value, dict) else value
