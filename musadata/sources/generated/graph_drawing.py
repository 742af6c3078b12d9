"""Drawing one graph with NNSmith's concolic generator, reproducible from its seed in any process and any order."""

import math
import random
from dataclasses import dataclass, replace

import z3
from nnsmith.abstract.op import AbsOpBase, Constant, Input, Placeholder
from nnsmith.abstract.tensor import AbsTensor
from nnsmith.error import ConstraintError, InternalError
from nnsmith.gir import GraphIR, InstIR
from nnsmith.graph_gen import ConcolicGen

from musadata.records import OperatorFamily
from musadata.sources.generated.opset import GRAPHS, OPERATORS, THEMES, operator_weights
from musadata.sources.generated.spec import F32, Shape, Spec

MIN_INPUT, MAX_INPUT = 1 << 10, 1 << 16  # elements of the first input
MAX_TENSOR = 1 << 18  # elements of any tensor
MAX_GRAPH_WORK = 1 << 22  # multiply-adds of one graph
_TRIES_PER_NODE = 8
_SOLVER_STEPS = 2_000_000  # z3's own resource count, which unlike a clock gives the same answer everywhere
_NEVER_MS = 1 << 30  # disables NNSmith's time limit, which would not reproduce
_REUSE = 0.35  # probability that a binary operator takes both operands from the graph
_NEWEST = 4  # weight of the newest value as an operand, so that graphs get deep


class NoGraph(Exception):
    """The seed yields no usable graph; the message is a countable reason."""


@dataclass(frozen=True)
class Node:
    """One value: an operator and the values that it reads, by position in the graph. Inputs read nothing."""

    spec: Spec | None
    operands: tuple[int, ...]
    shape: Shape
    learned: bool = False  # for a value without operator: a parameter rather than an argument of `forward`
    high: int = 0  # for an index tensor: its values lie in [0, high)


@dataclass(frozen=True)
class Graph:
    """A computation in order of execution; the last node is its result."""

    nodes: tuple[Node, ...]

    def work(self) -> int:
        return sum(node.spec.work() for node in self.nodes if node.spec)


def draw_graph(seed: int, max_nodes: int) -> Graph:
    """The cone of the deepest output of the graph of `seed`.

    NNSmith draws from Python's global generator, which is seeded here.

    Raises:
        NoGraph: with the reason "no operators" or "too much work".
    """
    z3.z3._main_ctx = None  # a new context: learned clauses of an older one would change the solutions
    z3.set_param("rlimit", _SOLVER_STEPS)
    generator = _Generator(seed)
    generator.abstract_gen(max_node_size=max_nodes, max_gen_millisec=_NEVER_MS)
    graph = generator.result()
    if len([node for node in graph.nodes if node.spec]) < 1:
        raise NoGraph("no operators")
    if graph.work() > MAX_GRAPH_WORK:
        raise NoGraph("too much work")
    return graph


class _Generator(ConcolicGen):
    """NNSmith's concolic generator with weighted operators, realistic shapes and no clock."""

    def __init__(self, seed: int):
        self._tries = 0
        self._given: dict[str, int] = {}  # inputs that cannot be learned, with the bound of those that are indices
        super().__init__(OPERATORS, seed % 2**31, init_fp=True, forward_prob=1.0, max_elem_per_tensor=MAX_TENSOR)

    def make_random_concrete_placeholder(self, rank: int, dtype: object = None) -> Placeholder:
        """The first input, drawn after NNSmith has seeded the generator: its shape follows the theme of the graph."""
        self.theme = random.choices(list(THEMES), weights=list(THEMES.values()))[0]
        self._weights = operator_weights(self.theme)
        return Placeholder(AbsTensor(list(_draw_shape(self.theme)), F32))

    def pick_next_op_type(self) -> type[Spec]:
        return random.choices(self.op_candidates, weights=self._weights)[0]

    def extra_exit_check(self, max_node_size: int) -> bool:
        self._tries += 1
        return self._tries > _TRIES_PER_NODE * max_node_size

    def try_insert_node_type(self, node_t: type[AbsOpBase], max_tensor_pick_time: int = 3) -> bool:
        try:
            return bool(super().try_insert_node_type(node_t, max_tensor_pick_time))
        except InternalError:  # NNSmith checks some shapes with assertions of its own
            return False

    def filter_rank_dtype(self, ndims: object, dtype: object, candidates: list[str]) -> list[str]:
        found: list[str] = super().filter_rank_dtype(ndims, dtype, candidates)
        return found + found[-1:] * _NEWEST

    def try_forward_insert(self, op: AbsOpBase) -> bool:
        if op.n_input() == 1 or (not op.needs_fresh and random.random() < _REUSE):
            return bool(super().try_forward_insert(op))
        return self._insert_with_fresh_operands(op)

    def _insert_with_fresh_operands(self, op: Spec) -> bool:
        """Give an operator one value of the graph, and new inputs for the rest."""
        first = self.pick_var_group(op.inp_ranks[:1], [op.in_dtypes[0][:1]])[0]
        fresh = op.fresh_operands(tuple(self.ir.vars[first].shape))
        inputs = [self.forward_insert_node(Placeholder(AbsTensor(list(one.shape), one.dtype)), []) for one in fresh]
        try:
            inserted = self.try_forward_insert_at(op, [first, *(one.retval() for one in inputs)])
        except ConstraintError:
            inserted = False
        for one, drawn in zip(inputs, fresh, strict=True):
            if inserted and op.needs_fresh:
                self._given[one.retval()] = drawn.high
            elif not inserted:
                self.placeholders.remove(one.retval())
                self.ir.remove_unused(one)
        return inserted

    def try_forward_insert_at(self, node: Spec, input_vars: list[str]) -> bool:
        if len(set(input_vars)) < len(input_vars):  # x - x is no computation
            return False
        maker = self.ir.find_inst_by_id(InstIR.var_inst_idx(input_vars[0])[0])
        before = maker.iexpr.op
        if not node.repeats and type(before) is type(node):
            return False
        if isinstance(before, Spec) and node.is_identity_after(before):
            return False
        return bool(super().try_forward_insert_at(node, input_vars))

    def result(self) -> Graph:
        """The cone of the deepest output, one that holds work of the graph's theme if there is any."""
        return _cone(self.ir, self._given, self.theme)


def _draw_shape(theme: OperatorFamily) -> Shape:
    layouts = GRAPHS["layouts"].get(theme) or GRAPHS["matrices"] + GRAPHS["images"]
    weights = [weight for weight, _ in layouts]
    while True:
        _, axes = random.choices(layouts, weights=weights)[0]
        shape = tuple(random.choice(sizes) for sizes in axes)
        if MIN_INPUT <= math.prod(shape) <= MAX_INPUT:
            return shape


def _cone(ir: GraphIR, given: dict[str, int], theme: OperatorFamily) -> Graph:
    """The nodes that the deepest output needs, renumbered; at least one input is an argument of `forward`."""
    makers = {instruction.retval(): instruction for instruction in ir.insts}
    depth: dict[str, int] = {}
    themed: set[str] = set()
    for name, instruction in makers.items():
        operands = instruction.iexpr.args
        depth[name] = 1 + max((depth[operand] for operand in operands), default=-1)
        if getattr(instruction.iexpr.op, "family", None) is theme or themed.intersection(operands):
            themed.add(name)
    deepest = max(ir.leaf_var(), key=lambda name: (name in themed, depth[name], InstIR.var_inst_idx(name)))
    needed, pending = set(), [deepest]
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            pending.extend(makers[name].iexpr.args)
    order = [name for name in makers if name in needed]
    order.append(order.pop(order.index(deepest)))
    position = {name: index for index, name in enumerate(order)}
    nodes = _without_batched_parameters([_node(makers[name], position, given.get(name)) for name in order])
    if not any(node.spec is None and not node.learned and not node.high for node in nodes):
        first = next(index for index, node in enumerate(nodes) if node.spec is None and not node.high)
        nodes[first] = Node(None, (), nodes[first].shape)
    return Graph(tuple(nodes))


def _without_batched_parameters(nodes: list[Node]) -> list[Node]:
    """Make arguments of parameters that have the batch's axis: models have none, and no size could vary beside them."""
    batched = set()
    for node in nodes:
        is_product = len(node.shape) == 2 and node.spec is not None and node.spec.work() > 0
        for operand in () if is_product else node.operands:
            shape, others = nodes[operand].shape, [nodes[other].shape for other in node.operands if other != operand]
            if any(len(other) == len(shape) and other[:1] == shape[:1] != (1,) for other in others):
                batched.add(operand)
    return [replace(node, learned=node.learned and index not in batched) for index, node in enumerate(nodes)]


def _node(instruction: InstIR, position: dict[str, int], given: int | None) -> Node:
    operation = instruction.iexpr.op
    shape = tuple(int(size) for size in operation.output_like[0].shape)
    if isinstance(operation, (Input, Constant)):
        return Node(None, (), shape, learned=isinstance(operation, Constant) and given is None, high=given or 0)
    return Node(operation, tuple(position[operand] for operand in instruction.iexpr.args), shape)
