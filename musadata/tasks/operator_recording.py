"""Watching a reference run: every aten operator that it dispatches, and the graph that they form."""

from collections.abc import Iterable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from musadata.dispatch import DispatchMode
from musadata.tasks.operator_graph import ValueGraph, attributes_of, is_silent, normal_name

MAX_OPERATORS = 2000  # a loop unrolled in Python, such as a recurrent network over a long sequence, is no kernel


class TooLarge(Exception):
    """A tensor has more elements than a task may hold, or there are more operators than that."""


class Recorder(DispatchMode):
    """Records operators by name ("aten.mul.Tensor") and the value graph, up to a bound on the size of tensors.

    Use it without gradients, so that composite operators arrive decomposed.
    """

    def __init__(self, inputs: Iterable[torch.Tensor], state: Iterable[torch.Tensor], max_elements: int):
        super().__init__()
        self.operators: list[str] = []
        self.broadcasts = False
        self.graph = ValueGraph()
        self._max_elements = max_elements
        self._now = 0
        self._known: dict[int, tuple[torch.Tensor, int, int]] = {}  # id -> tensor (kept alive), value, when it was made
        self._writes: list[tuple[int, int, int]] = []  # storage, when, value written
        for tensor in inputs:
            self._remember(tensor, self.graph.add_leaf("input"))
        for tensor in state:
            self._remember(tensor, self.graph.add_leaf("state"))

    def finish(self, outputs: Iterable[torch.Tensor]) -> None:
        """Mark what the reference returned."""
        self.graph.outputs = [self._value(tensor) for tensor in outputs]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        operands = [leaf for leaf in tree_leaves((args, named)) if isinstance(leaf, torch.Tensor)]
        values = [self._value(tensor) for tensor in operands]
        result = func(*args, **named)
        self._now += 1
        self.operators.append(str(func))
        if len(self.operators) > MAX_OPERATORS:
            raise TooLarge(f"more than {MAX_OPERATORS} operators")
        produced = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        for tensor in produced:
            if tensor.numel() > self._max_elements:
                raise TooLarge(f"{func} made a tensor of shape {tuple(tensor.shape)}")
        shapes = {tensor.shape for tensor in operands}
        self.broadcasts |= len(shapes) > 1 and bool(produced) and _broadcast(shapes) == produced[0].shape
        self._record(func, args, named, values, result, produced)
        return result

    def _record(self, func: Any, args: Any, named: Any, values: list[int], result: Any, produced: list[Any]) -> None:
        schema = func._schema
        name = normal_name(schema.name)
        if is_silent(name, args, result):
            self._remember(result, values[0])
            return
        value = self.graph.add(name, attributes_of(name, schema, args, named), values)
        for position, tensor in enumerate(produced):
            self._remember(tensor, value if len(produced) == 1 else self.graph.add("item", (position,), [value]))
        for position, argument in enumerate(schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                written = args[position] if position < len(args) else named.get(argument.name)
                if isinstance(written, torch.Tensor):
                    self._remember(written, value)
                    self._writes.append((_storage(written), self._now, value))

    def _remember(self, tensor: torch.Tensor, value: int) -> None:
        self._known[id(tensor)] = (tensor, value, self._now)

    def _value(self, tensor: torch.Tensor) -> int:
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
