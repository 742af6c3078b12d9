"""Lowering a whole graph: node by node, deciding which values are kept in memory."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

from musadata.compiler.ir.captured_graph import Graph, GraphInput, Node, Reference
from musadata.compiler.ir.index_formulas import not_negative, product
from musadata.compiler.ir.lowering_errors import Unsupported, check_readable
from musadata.compiler.ir.program import Program
from musadata.compiler.ir.scalar import Buffer, compute_type, literal
from musadata.compiler.lowering import (
    attention,
    contraction,
    elementwise,
    indexing,
    interpolation,
    layout,
    losses,
    pooling,
    recurrence,
    reduction,
)
from musadata.compiler.lowering.concatenation import append_concatenations
from musadata.compiler.lowering.rules import RULES, Call, Results, Rule, Value

# The rules are registered when their modules are imported.
_MODULES = (
    attention,
    contraction,
    elementwise,
    indexing,
    interpolation,
    layout,
    losses,
    pooling,
    recurrence,
    reduction,
)

SHARED_COST = 3  # a value with several readers is kept in memory from this cost on
LONGEST_COST = 24  # and every value from this one on


@dataclass(frozen=True)
class Lowered:
    """A graph as loops: what the host passes in, the loops in order, and the values that are returned."""

    inputs: tuple[tuple[GraphInput, Buffer], ...]  # only those that are read
    program: Program
    outputs: tuple[Value, ...]


def lower_graph(graph: Graph, *, alike: bool = False, fused: bool = True) -> Lowered:
    """Lower a graph to loops. Values that are read once are computed where they are read; others have a loop, and where
    operators are lowered `alike` those that reductions read. If not `fused`, every result that is computed has a loop.

    Raises:
        Unsupported: an operator has no lowering, or the graph is too large to make readable kernels.
    """
    check_readable(len(graph.nodes))
    appended: frozenset[str] = frozenset()
    if alike:
        nodes, appended = append_concatenations(graph.nodes)
        graph = replace(graph, nodes=nodes)
    program = Program(alike)
    program.reserve(graph.attributes)
    values: dict[str, Results] = {}
    inputs = []
    arguments = {item.name for item in graph.inputs if item.role == "argument"}
    for item in graph.inputs:
        value, buffer = _input(item, program, arguments)
        values[item.node] = value
        if buffer is not None:
            inputs.append((item, buffer))
    readers = _readers(graph)
    finishing: set[str] = set()
    for node in graph.nodes:
        program.node = node.name
        _keep_broadcast(node, values, program)
        results = _rule_of(node)(Call(_with_index_use(node, graph), dict(values), program))
        values[node.name] = results
        if not isinstance(results, Value):
            continue
        if _finishes_contraction(node, finishing):
            finishing.add(node.name)
        is_reduced = alike and any(map(_reduces, readers[node.name]))
        readers_count = len(readers[node.name]) + is_reduced
        if node.name in appended:
            program.stored.append(program.materialize(results))
        elif (
            (not fused and results.cost and results.viewed is None)
            or _keep(results, readers_count)
            or _ends_kernel(node, results, finishing, readers)
        ):
            program.materialize(results)
        elif alike and _reduces(node) and results.viewed is None and results.cost < SHARED_COST:
            program.materialize(results)  # a mean is finished where its sum is found, and read as any other tensor
    return Lowered(tuple(inputs), program, _outputs(graph, values, program))


def _keep_broadcast(node: Node, values: Mapping[str, Results], program: Program) -> None:
    """Keep what a pointwise operator would compute for several of its elements anew."""
    if not _is_pointwise(node) or node.types[0] is None:
        return
    for name in _read_by(node):
        value = values[name]
        while isinstance(value, Value) and value.viewed is not None:
            value = value.viewed
        if not isinstance(value, Value) or value.cost < SHARED_COST:
            continue
        if not not_negative(product(value.shape) - product(node.types[0].shape)):
            program.materialize(value)


def _rule_of(node: Node) -> Rule:
    found = RULES.get(node.op) or RULES.get(node.op.split(".")[0])
    if found is None:
        raise Unsupported(f"no lowering for aten.{node.op}")
    return found


def _input(item: GraphInput, program: Program, arguments: Set[str]) -> tuple[Value, Buffer | None]:
    """A tensor that the graph reads. A parameter named like an argument of `forward` is told from it by `self_`."""
    if item.role == "constant" and len(item.values) == 1:
        number = literal(item.values[0], compute_type(item.type.dtype))
        return Value(item.name, item.type, lambda index: number), None
    plain = item.name.replace(".", "_")
    name = program.fresh(f"self_{plain}" if item.role == "state" and plain in arguments else plain)
    buffer = Buffer(name, item.type.shape, item.type.dtype, item.role, item.values)
    return Value.stored(name, item.type, buffer), None if item.role == "constant" else buffer


def _readers(graph: Graph) -> dict[str, list[Node | None]]:
    """Who reads each node's result, once for each time that it is read; None stands for an output of the graph."""
    readers: dict[str, list[Node | None]] = {node.name: [] for node in graph.nodes}
    readers |= {item.node: [] for item in graph.inputs}
    for node in graph.nodes:
        for name in _read_by(node):
            readers[name].append(node)
    for output in graph.outputs:
        readers[output.node].append(None)
    return readers


def _read_by(node: Node) -> list[str]:
    """The nodes whose results a node reads."""
    lists = [value if isinstance(value, tuple) else (value,) for value in node.arguments.values()]
    return [item.node for items in lists for item in items if isinstance(item, Reference)]


def _is_pointwise(node: Node | None) -> bool:
    return node is not None and _rule_of(node).__module__ == elementwise.__name__


def _reduces(node: Node | None) -> bool:
    return node is not None and _rule_of(node).__module__ in (pooling.__name__, reduction.__name__)


def _finishes_contraction(node: Node, finishing: set[str]) -> bool:
    """Whether a node is a matrix product or convolution, or a pointwise function of one: a bias, an activation."""
    if _rule_of(node).__module__ == contraction.__name__:
        return True
    return _is_pointwise(node) and any(name in finishing for name in _read_by(node))


def _ends_kernel(node: Node, value: Value, finishing: set[str], readers: dict[str, list[Node | None]]) -> bool:
    """Whether a product's bias and activation are all applied here, so that its kernel stores the finished result."""
    if node.name not in finishing or not value.cost or value.viewed is not None or value.buffer is not None:
        return False
    return not all(_is_pointwise(reader) for reader in readers[node.name])


def _with_index_use(node: Node, graph: Graph) -> Node:
    """The node; for max pooling with an argument `wants_indices` that says whether the positions are read."""
    if "with_indices" not in node.op:
        return node
    wants = any(
        other.op == "getitem" and other.arguments["0"].node == node.name and other.arguments["1"] == 1
        for other in graph.nodes
    )
    return replace(node, arguments={**node.arguments, "wants_indices": wants})


def _keep(value: Value, readers: int) -> bool:
    if value.viewed is not None or value.buffer is not None:
        return False
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
