"""Detecting whether a call has changed a module: an unchanged one can be reused for the next attempt.

Buffers that a call wrote to, and attributes that it set, are put back: the statistics of normalization layers and
counters of calls had every large network built anew.

Runs inside the sandbox.
"""

import enum
import functools
import types
from collections.abc import Iterable
from operator import is_
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

MINED = "mined"  # `__name__` of mined code
MAX_COPIED = 1 << 20  # elements of all copied buffers
MAX_ITEMS = 100_000  # comparing more takes longer than most constructors
_TORCH = (torch.dtype, torch.device, torch.layout, torch.memory_format)
_PLAIN = (int, float, complex, str, bytes, bool, type(None), type, range, slice, types.BuiltinFunctionType)
_LEAVES = (*_PLAIN, *_TORCH, enum.Enum)
_EXACT_LEAVES = frozenset([*_PLAIN, *_TORCH])


class Snapshot:
    """Every object reachable from a value, by identity, and the version counters of tensors."""

    def __init__(self, value: Any):
        self.complete = True  # whether all reachable state could be read
        self._containers: list[tuple[Any, tuple[Any, ...], tuple[Any, ...]]] = []  # with its items, and keys
        self._tensors: list[torch.Tensor] = []
        seen: set[int] = set()
        waiting: list[Any] = [value]
        while waiting and self.complete:
            self.complete = len(waiting) + len(seen) < MAX_ITEMS
            item = waiting.pop()
            if type(item) not in _EXACT_LEAVES and id(item) not in seen:
                seen.add(id(item))
                waiting.extend(self._open(item))
        self._versions = [tensor._version for tensor in self._tensors]
        self._copies = _copied_buffers(value) if isinstance(value, nn.Module) else {}

    def restore(self) -> bool:
        """Whether every object is the same one again, and every tensor has its value again."""
        if not self.complete:
            return False
        for noted in self._containers:
            if not _is_same(noted):
                if type(noted[0]).__module__ == MINED:  # its methods may do more than a list's
                    return False
                _put_back(*noted)
        changed = [n for n, tensor in enumerate(self._tensors) if tensor._version != self._versions[n]]
        copies = [self._copies.get(id(self._tensors[n])) for n in changed]
        for n, copy in zip(changed, copies, strict=True):
            tensor = self._tensors[n]
            if copy is None or copy.shape != tensor.shape:
                return False
            with torch.no_grad():
                tensor.copy_(copy)
            self._versions[n] = tensor._version
        return True

    def _open(self, value: Any) -> Iterable[Any]:
        """The objects that a value holds; mutable containers are recorded."""
        if isinstance(value, dict):
            return self._note(value, tuple(value.values()))
        if isinstance(value, torch.Tensor):
            self._tensors.append(value)
            return ()
        if isinstance(value, nn.Module) or type(value).__module__ == MINED or type(value) is types.SimpleNamespace:
            attributes = getattr(value, "__dict__", None)
            self.complete &= attributes is not None
            return self._note(attributes, tuple(attributes.values())) if attributes is not None else ()
        if isinstance(value, (list, set)):
            return self._note(value, tuple(value))
        if isinstance(value, (tuple, frozenset)):
            return value
        if isinstance(value, types.FunctionType):
            return [cell.cell_contents for cell in value.__closure__ or ()]
        if isinstance(value, types.MethodType):
            return [value.__self__]
        if isinstance(value, functools.partial):
            return [value.func, *value.args, *value.keywords.values()]
        self.complete &= isinstance(value, _LEAVES)
        return ()

    def _note(self, container: Any, items: tuple[Any, ...]) -> tuple[Any, ...]:
        self._containers.append((container, items, tuple(container) if isinstance(container, dict) else ()))
        return items


def _copied_buffers(model: nn.Module) -> dict[int, torch.Tensor]:
    """Copies of the buffers by the buffers' ids; none if they are large."""
    buffers = [item for item in model.buffers() if not is_lazy(item)]
    if sum(item.numel() for item in buffers) > MAX_COPIED:
        return {}
    return {id(item): item.clone() for item in buffers}


def _is_same(noted: tuple[Any, tuple[Any, ...], tuple[Any, ...]]) -> bool:
    container, items, _ = noted
    now = container.values() if isinstance(container, dict) else container
    return len(container) == len(items) and all(map(is_, now, items))


def _put_back(container: Any, items: tuple[Any, ...], keys: tuple[Any, ...]) -> None:
    """Give a dictionary, list or set the items that it had."""
    container.clear()
    if isinstance(container, dict):
        container.update(zip(keys, items, strict=True))
    elif isinstance(container, list):
        container.extend(items)
    else:
        container.update(items)
