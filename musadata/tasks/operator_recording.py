"""Recording every aten operator that a reference dispatches. Runs inside the sandbox."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from musadata.dispatch import DispatchMode
from musadata.tasks.operator_graph import ValueGraph, attributes_of, is_silent, normal_name, order_of_axes, permuted

MAX_OPERATORS = 2000  # a loop unrolled in Python, such as a recurrent network over a long sequence, is no kernel


class TooLarge(Exception):
    """A tensor has more elements than a task may hold, or there are more operators than that."""


@dataclass(frozen=True)
class OperatorCall:
    """One dispatched operator. `names`: what the recorder called each operand before the call."""

    function: Any
    arguments: Any
    keywords: dict[str, Any]
    operands: list[torch.Tensor]
    names: list[Any]
    result: Any
    produced: list[torch.Tensor]


class OperatorRecorder(ABC, DispatchMode):
    """Records operators by name ("aten.mul.Tensor"), in order.

    Use it without gradients, so that composite operators arrive decomposed. A subclass must keep every tensor that it
    names alive: tensors are told apart by `id`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operators: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        operands = tensors_in((args, keywords))
        names = [self.name_operand(tensor) for tensor in operands]
        result = func(*args, **keywords)
        self.operators.append(str(func))
        self.record(OperatorCall(func, args, keywords, operands, names, result, tensors_in(result)))
        return result

    @abstractmethod
    def name_operand(self, tensor: torch.Tensor) -> Any:
        """What the recorder calls a tensor that an operator is about to read."""

    @abstractmethod
    def record(self, call: OperatorCall) -> None:
        """Note one operator, after it has run."""


def tensors_in(tree: Any) -> list[torch.Tensor]:
    """The tensors in nested containers."""
    if isinstance(tree, torch.Tensor):
        return [tree]
    if type(tree) in _LEAVES:  # most arguments; PyTorch's walk costs ten times as much as looking
        return []
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


_LEAVES = frozenset({int, float, bool, str, type(None), torch.dtype, torch.device})


class GraphRecorder(OperatorRecorder):
    """Records the graph of values, and bounds the number of operators and the size of their results."""

    def __init__(self, inputs: Iterable[torch.Tensor], state: Iterable[torch.Tensor], max_elements: int):
        super().__init__()
        self.broadcasts = False
        self.graph = ValueGraph()
        self._max_elements = max_elements
        self._known: dict[int, tuple[torch.Tensor, int, int]] = {}  # id -> tensor (kept alive), value, when it was made
        self._writes: list[tuple[int, int, int]] = []  # storage, when, value written
        for role, tensors in (("input", inputs), ("state", state)):
            for tensor in tensors:
                self._remember(tensor, self.graph.add_leaf(role))

    def finish(self, result: Any) -> None:
        """Mark what the reference returned."""
        self.graph.outputs = [self.name_operand(tensor) for tensor in tensors_in(result)]

    def record(self, call: OperatorCall) -> None:
        """Raises: TooLarge."""
        if len(self.operators) > MAX_OPERATORS:
            raise TooLarge(f"more than {MAX_OPERATORS} operators")
        for tensor in call.produced:
            if tensor.numel() > self._max_elements:
                raise TooLarge(f"{call.function} made a tensor of shape {tuple(tensor.shape)}")
        shapes = {tensor.shape for tensor in call.operands}
        self.broadcasts |= len(shapes) > 1 and bool(call.produced) and _broadcast(shapes) == call.produced[0].shape
        self._add_to_graph(call)

    def _add_to_graph(self, call: OperatorCall) -> None:
        schema = call.function._schema
        name = normal_name(schema.name)
        if is_silent(name, call.arguments, call.result):
            self._remember(call.result, call.names[0])
            return
        if name == "permute":
            value, axes = permuted(self.graph.keys, call.names[0], order_of_axes(call.arguments))
            self._remember(call.result, self.graph.add(name, (axes,), [value]) if axes else value)
            return
        value = self.graph.add(name, attributes_of(name, schema, call.arguments, call.keywords), call.names)
        for position, tensor in enumerate(call.produced):
            self._remember(tensor, value if len(call.produced) == 1 else self.graph.add("item", (position,), [value]))
        for position, argument in enumerate(schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                given = call.arguments
                written = given[position] if position < len(given) else call.keywords.get(argument.name)
                if isinstance(written, torch.Tensor):
                    self._remember(written, value)
                    self._writes.append((_storage(written), len(self.operators), value))

    def _remember(self, tensor: torch.Tensor, value: int) -> None:
        self._known[id(tensor)] = (tensor, value, len(self.operators))

    def name_operand(self, tensor: torch.Tensor) -> int:
        """The value that a tensor holds now; what was written through another view of its memory counts."""
        if id(tensor) not in self._known:
            self._remember(tensor, self.graph.add_leaf("constant"))
        _, value, made = self._known[id(tensor)]
        if self._writes:
            storage = _storage(tensor)
            later = [written for place, when, written in self._writes if place == storage and when > made]
            if later:
                value = self.graph.add("written", (), [value, *later])
        return value


def _broadcast(shapes: Iterable[torch.Size]) -> torch.Size | None:
    try:
        return torch.broadcast_shapes(*shapes)
    except RuntimeError:
        return None


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
