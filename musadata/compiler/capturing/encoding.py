"""From a traced `torch.fx` graph to plain JSON values: nodes, arguments, shapes as expressions of the inputs' sizes."""

import math
import operator
from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch.fx import GraphModule, Node
from torch.utils._sympy import functions as sizes

from musadata.compiler.capturing.asked_conditions import AskedShapes
from musadata.compiler.capturing.integer_attributes import IntegerAttribute
from musadata.compiler.ir.lowering_errors import Unsupported, check_readable
from musadata.records import InputSpec

LARGEST_CONSTANT = 64


class GraphEncoder:
    """Encodes one traced graph.

    Sizes are numbers or nested lists: `["size", name]`, `["+"|"*"|"max"|"min", a, b, …]`, `["//"|"%", a, b]`.
    `symbols` says for every symbol of the shape environment which dimension of which argument it is; `attributes` holds
    those that stand for an attribute of the model, with its value.
    """

    def __init__(
        self,
        traced: GraphModule,
        environment: AskedShapes,
        symbols: dict[Any, tuple[int, int]],
        attributes: dict[Any, tuple[IntegerAttribute, int]],
    ):
        self._traced, self._environment = traced, environment
        self._symbols, self._attributes = symbols, attributes
        self._names = {symbol: f"s{at[0]}_{at[1]}" for symbol, at in symbols.items()}
        self._names |= {symbol: f"a{number}" for number, symbol in enumerate(attributes)}

    def check_guards(self, shape_sets: Sequence[Sequence[InputSpec]]) -> None:
        """Refuse a graph that tracing has specialised to sizes that not every set of shapes has.

        What the reference's own code asks counts, and of PyTorch's questions equalities, and that a size is not some
        number of 2 or more. The others guard choices of PyTorch's own that the kernels do not share, above all what a
        size of 1 would mean for strides.
        """
        for number, specs in enumerate(shape_sets):
            values = {symbol: specs[argument].shape[dim] for symbol, (argument, dim) in self._symbols.items()}
            values |= {symbol: self._values(symbol, shape_sets)[number] for symbol in self._attributes}
            for condition in (*self._decisive_guards, *self._environment.conditions):
                if condition.xreplace(values) not in (True, sympy.true):
                    raise Unsupported("the graph depends on the input's sizes")
            for symbol, value in values.items():
                known = self._environment.replace(symbol)
                if known.xreplace(values) != value:
                    raise Unsupported("the graph depends on the input's sizes")

    def _values(self, symbol: Any, shape_sets: Sequence[Sequence[InputSpec]]) -> list[int]:
        """An attribute's value in each set of shapes."""
        attribute, value = self._attributes[symbol]
        return list(attribute.values) or [value] * len(shape_sets)

    @property
    def _decisive_guards(self) -> list[Any]:
        return [guard.expr for guard in self._environment.guards if _is_decisive(guard.expr)]

    def sizes(self, shape_sets: Sequence[Sequence[InputSpec]]) -> list[dict[str, Any]]:
        """Every symbolic size: its name, where it stands, and its value in each set of shapes. Those that attributes
        hold come first, with the least value that they may have."""
        found: list[dict[str, Any]] = [
            {
                "name": self._names[symbol],
                "attribute": attribute.path,
                "least": attribute.least,
                "values": self._values(symbol, shape_sets),
            }
            for symbol, (attribute, _) in self._attributes.items()
        ]
        for symbol, (argument, dim) in self._symbols.items():
            values = [specs[argument].shape[dim] for specs in shape_sets]
            found.append({"name": self._names[symbol], "argument": argument, "dim": dim, "values": values})
        return found

    def conditions(self) -> list[Any]:
        """What the graph needs of sizes, because the reference's code asks for it: `[relation, left, right]`. Of
        attributes it needs the equalities that PyTorch asks for, too."""
        found = []
        attributes = set(self._attributes)
        equalities = [
            self._environment.replace(guard)
            for guard in self._decisive_guards
            if isinstance(guard, sympy.Eq) and not attributes.isdisjoint(guard.free_symbols)
        ]
        for condition in (*self._environment.conditions, *equalities):
            if condition in (True, sympy.true):
                continue
            if not isinstance(condition, sympy.core.relational.Relational):
                raise Unsupported("a condition on sizes")
            found.append([condition.rel_op, self._expression(condition.lhs), self._expression(condition.rhs)])
        return found

    def graph(self, placeholders: list[tuple[str, str]]) -> dict[str, Any]:
        """Constants, nodes in order and outputs; `placeholders` gives (role, name) of each tensor that is an input.

        Raises:
            Unsupported: it is too large, or holds what has no form.
        """
        graph = self._traced.graph
        inputs = [
            node for node in graph.nodes if node.op == "placeholder" and isinstance(node.meta["val"], torch.Tensor)
        ]
        wanted = {graph.output_node()}  # and the nodes that it depends on
        for node in reversed(graph.nodes):
            wanted.update(node.all_input_nodes if node in wanted else ())
        named = dict(zip(inputs, placeholders, strict=True))
        constants, nodes, tensors = [], [], []
        for node in graph.nodes:
            if node in named and node in wanted:
                role, name = named[node]
                tensors.append({"node": node.name, "role": role, "name": name, **self._tensor(node.meta["val"])})
            elif node.op == "get_attr" and node in wanted:
                constants.append(self._constant(node))
            elif node.op == "call_function" and node in wanted and not _is_size(node.meta.get("val")):
                nodes.append(self._node(node))
        check_readable(len(nodes))
        returned: Any = graph.output_node().args[0]
        outputs = [self._output(node) for node in returned]
        return {"inputs": tensors, "constants": constants, "nodes": nodes, "outputs": outputs}

    def _node(self, node: Node) -> dict[str, Any]:
        value = node.meta["val"]
        many = isinstance(value, (tuple, list))
        results = value if many else [value]
        target = node.target
        op = "getitem" if target is operator.getitem else str(target).removeprefix("aten.").removeprefix("musadata.")
        if not isinstance(target, torch._ops.OpOverload) and target is not operator.getitem:
            raise Unsupported(f"no lowering for {getattr(target, '__name__', target)}")
        arguments = _with_defaults(node) if isinstance(target, torch._ops.OpOverload) else dict(enumerate(node.args))
        return {
            "name": node.name,
            "op": op,
            "arguments": {str(key): self._argument(item) for key, item in arguments.items()},
            "tensors": [self._tensor(item) if isinstance(item, torch.Tensor) else None for item in results],
            "many": many,
        }

    def _output(self, node: Any) -> dict[str, Any]:
        value = node.meta["val"]
        return {"node": node.name, "stride": [self._size(s) for s in value.stride()], **self._tensor(value)}

    def _tensor(self, tensor: torch.Tensor) -> dict[str, Any]:
        if tensor.is_sparse or tensor.dtype.is_complex or tensor.layout != torch.strided:
            raise Unsupported("complex or sparse tensors")
        return {"shape": [self._size(size) for size in tensor.shape], "dtype": _dtype(tensor.dtype)}

    def _constant(self, node: Node) -> dict[str, Any]:
        tensor = getattr(self._traced, str(node.target))
        if tensor.numel() > LARGEST_CONSTANT:
            raise Unsupported("a large constant tensor inside forward")
        values = [_number(value) for value in tensor.detach().flatten().tolist()]
        return {"node": node.name, "shape": list(tensor.shape), "dtype": _dtype(tensor.dtype), "values": values}

    def _argument(self, value: Any) -> Any:
        if isinstance(value, Node):
            inner = value.meta["val"]
            return self._number_or_size(inner) if _is_size(inner) else {"node": value.name}
        if isinstance(value, (list, tuple)):
            return [self._argument(item) for item in value]
        if isinstance(value, torch.dtype):
            return {"dtype": _dtype(value)}
        if isinstance(value, (torch.device, torch.layout, torch.memory_format)):
            return None
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return self._number_or_size(value)
        if isinstance(value, float):
            return _number(value)
        if value is None or isinstance(value, (bool, int, str)):
            return value
        raise Unsupported(f"an argument of type {type(value).__name__}")

    def _number_or_size(self, value: Any) -> Any:
        if isinstance(value, torch.SymBool):
            raise Unsupported("a condition on sizes")
        if isinstance(value, torch.SymFloat):
            return {"real": self._real(self._environment.simplify(value.node.expr))}
        return {"size": self._size(value)} if isinstance(value, torch.SymInt) else value

    def _size(self, size: Any) -> Any:
        if isinstance(size, int):
            return size
        return self._expression(self._environment.simplify(size.node.expr))

    def _expression(self, expression: Any) -> Any:
        if isinstance(expression, sympy.Integer):
            return int(expression)
        if expression in self._names:
            return ["size", self._names[expression]]
        for kinds, sign in _SIGNS:
            if isinstance(expression, kinds):
                return [sign, *(self._expression(part) for part in expression.args)]
        if isinstance(expression, sympy.Pow) and isinstance(expression.exp, sympy.Integer) and expression.exp > 0:
            return ["*", *([self._expression(expression.base)] * int(expression.exp))]
        raise Unsupported("a size that is no integer formula of the input's sizes")

    def _real(self, expression: Any) -> Any:
        """A floating-point formula of sizes: a number, `["int", size]`, or `["+"|"*"|"/"|"**", a, b, …]`."""
        if isinstance(expression, (sympy.Float, sympy.Rational)):
            return float(expression)
        if isinstance(expression, sizes.ToFloat) or expression.is_integer:
            integer = expression.args[0] if isinstance(expression, sizes.ToFloat) else expression
            return ["int", self._expression(integer)]
        for kinds, sign in _REAL_SIGNS:
            if isinstance(expression, kinds):
                return [sign, *(self._real(part) for part in expression.args)]
        if type(expression).__name__ in ("OpaqueUnaryFn_sqrt", "sqrt"):
            return ["**", self._real(expression.args[0]), 0.5]
        raise Unsupported("a floating-point number computed from sizes")


_REAL_SIGNS: tuple[tuple[Any, str], ...] = (
    (sympy.Add, "+"),
    (sympy.Mul, "*"),
    ((sizes.IntTrueDiv, sizes.FloatTrueDiv), "/"),
    ((sympy.Pow, sizes.FloatPow), "**"),
)
_SIGNS: tuple[tuple[Any, str], ...] = (
    (sympy.Add, "+"),
    (sympy.Mul, "*"),
    ((sizes.FloorDiv, sizes.CleanDiv), "//"),
    ((sizes.Mod, sizes.PythonMod, sympy.Mod), "%"),
    ((sympy.Max, sizes.Max), "max"),
    ((sympy.Min, sizes.Min), "min"),
)


def _with_defaults(node: Node) -> dict[str, Any]:
    """All arguments of an aten call by the names of its schema, defaults included."""
    values: dict[str, Any] = {}
    assert isinstance(node.target, torch._ops.OpOverload)
    for index, argument in enumerate(node.target._schema.arguments):
        if index < len(node.args) and not argument.kwarg_only:
            values[argument.name] = node.args[index]
        elif argument.name in node.kwargs:
            values[argument.name] = node.kwargs[argument.name]
        elif argument.has_default_value():
            values[argument.name] = argument.default_value
    return values


def _is_decisive(guard: Any) -> bool:
    if isinstance(guard, sympy.Ne):
        return any(isinstance(side, sympy.Integer) and side > 1 for side in guard.args)
    return isinstance(guard, sympy.Eq)


def _is_size(value: Any) -> bool:
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool, int, float))


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _number(value: Any) -> Any:
    """A JSON number; infinities and not-a-number as `{"float": text}`."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return value
