"""Lowering a whole graph: node by node, deciding which values are kept in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from musadata.teacher.compiler.errors import Unsupported
from musadata.teacher.compiler.graph import Graph, GraphInput, Node, Reference
from musadata.teacher.compiler.lowering import contraction, elementwise, indexing, layout, pooling, reduction
from musadata.teacher.compiler.lowering.rules import RULES, Call, Results, Value
from musadata.teacher.compiler.program import Program
from musadata.teacher.compiler.scalar import Buffer, compute_type, literal

# The rules are registered when their modules are imported.
_MODULES = (contraction, elementwise, indexing, layout, pooling, reduction)

MOST_NODES = 300  # beyond it the kernels are too many to be read
SHARED_COST = 3  # a value with several readers is kept in memory from this cost on
LONGEST_COST = 24  # and every value from this one on


@dataclass(frozen=True)
class Lowered:
    """A graph as loops: what the host passes in, the loops in order, and the values that are returned."""

    graph: Graph
    inputs: tuple[tuple[GraphInput, Buffer], ...]  # only those that are read
    program: Program
    outputs: tuple[Value, ...]


def lower_graph(graph: Graph, *, fuse: bool) -> Lowered:
    """Lower a graph to loops. `fuse` computes pointwise values inside of their readers where that is reasonable.

    Raises:
        Unsupported: an operator has no lowering, or the graph is too large to make readable kernels.
    """
    if len(graph.nodes) > MOST_NODES:
        raise Unsupported("graph too large")
    program = Program(fuse)
    values: dict[str, Results] = {}
    inputs = []
    for item in graph.inputs:
        value, buffer = _input(item, program)
        values[item.node] = value
        if buffer is not None:
            inputs.append((item, buffer))
    readers = _readers(graph)
    for node in graph.nodes:
        results = _rule_of(node)(Call(_informed(node, graph), dict(values), program))
        values[node.name] = results
        mutated = node.arguments.get("self")
        if node.op.split(".")[0].endswith("_") and isinstance(mutated, Reference):
            values[mutated.node] = results  # whoever reads it later sees the new content
        if isinstance(results, Value) and _keep(results, readers[node.name], fuse):
            program.realise(results)
    return Lowered(graph, tuple(inputs), program, _outputs(graph, values, program))


def _rule_of(node: Node):  # type: ignore[no-untyped-def]
    name = node.op.split(".")[0]
    found = RULES.get(node.op) or RULES.get(name) or RULES.get(name.removesuffix("_"))
    if found is None:
        raise Unsupported(f"no lowering for aten.{node.op}")
    return found


def _input(item: GraphInput, program: Program) -> tuple[Value, Buffer | None]:
    if item.role == "constant" and len(item.values) == 1:
        number = literal(item.values[0], compute_type(item.type.dtype))
        return Value(item.name, item.type, lambda index: number), None
    name = program.fresh(item.name.replace(".", "_"))
    buffer = Buffer(name, item.type.shape, item.type.dtype, item.role, item.values)
    value = Value(name, item.type, lambda index: literal(0, "int64"), buffer=buffer)
    return value, None if item.role == "constant" else buffer


def _readers(graph: Graph) -> dict[str, int]:
    """How many times each node's result is read, outputs included."""
    counts = {node.name: 0 for node in graph.nodes} | {item.node: 0 for item in graph.inputs}
    for node in graph.nodes:
        for argument in node.arguments.values():
            for item in argument if isinstance(argument, tuple) else (argument,):
                if isinstance(item, Reference):
                    counts[item.node] += 1
    for output in graph.outputs:
        counts[output.node] += 1
    return counts


def _informed(node: Node, graph: Graph) -> Node:
    """The node without in-place writing, and with a note for pooling whether the positions of its maxima are read."""
    name, _, overload = node.op.partition(".")
    if name.endswith("_") and name not in RULES:  # functions of fresh tensors, once their readers are redirected
        return replace(node, op=f"{name[:-1]}.{overload}")
    if "with_indices" not in node.op:
        return node
    wants = any(
        other.op == "getitem" and other.arguments["0"].node == node.name and other.arguments["1"] == 1
        for other in graph.nodes
    )
    return replace(node, arguments={**node.arguments, "wants_indices": wants})


def _keep(value: Value, readers: int, fuse: bool) -> bool:
    if value.viewed is not None or value.buffer is not None:
        return False
    if not fuse:
        return value.cost > 0
    return value.cost >= LONGEST_COST or (readers > 1 and value.cost >= SHARED_COST)


def _outputs(graph: Graph, values: dict[str, Results], program: Program) -> tuple[Value, ...]:
    found: list[Value] = []
    for output in graph.outputs:
        value = values[output.node]
        assert isinstance(value, Value)
        if value.buffer is not None and value.buffer.role != "temporary":
            source = value  # an input that is returned as it is must still be a tensor of its own
            value = Value(f"{value.name}_copy", output.type, source.load, 1)
        found.append(value)
    return tuple(found)
