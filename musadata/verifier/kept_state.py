"""Inside the sandbox: what a candidate keeps from one call of its forward to the next, and could count its calls with.

Finds what changes in Python's values, the environment and files. What C++ keeps is the checker's affair, and what a
tensor holds nobody's: kernels may leave in their scratch what they like.
"""

import collections
import functools
import itertools
import operator
import os
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

_DEEPEST = 6
_MOST_ELEMENTS = 64  # of one container
_PLAIN = (bool, int, float, complex, str, bytes)
_CONTAINERS = (list, tuple, dict, set, collections.deque, collections.OrderedDict, collections.defaultdict)


def kept_state(module: types.ModuleType, model: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """By a phrase that says where it is kept, what would differ if it had changed.

    `module` is the candidate's program, `tensors` what it is called with.
    """
    places: dict[str, Any] = {"the program": vars(module), "ModelNew": vars(type(model))}
    places |= {f"the module {name or 'ModelNew'}": vars(part) for name, part in model.named_modules()}
    places |= {f"input {name}": vars(tensor) for name, tensor in tensors.items()}
    walk = _Walk(module.__name__)
    for place, attributes in places.items():
        for name, value in list(attributes.items()):
            walk.visit(f"{name} of {place}", value)
    files = sorted((str(path), path.stat().st_size) for path in Path().rglob("*") if path.is_file())
    return {**walk.found, "the environment": dict(os.environ), "a file": files}


class _Walk:
    """Follows values into what holds them, each but once."""

    def __init__(self, module: str):
        self.found: dict[str, list[Any]] = {}
        self._module = module
        self._seen: dict[int, Any] = {}  # with the values: the id of one that is gone is soon another's

    def visit(self, place: str, value: Any, depth: int = 0) -> None:
        plain = _plain_part(value)
        if plain is not None:
            self.found.setdefault(place, []).append(plain)
        if isinstance(value, _PLAIN) or depth == _DEEPEST or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        for part in itertools.islice(self._parts(value), _MOST_ELEMENTS):
            self.visit(place, part, depth + 1)

    def _parts(self, value: Any) -> Iterator[Any]:
        """What a value holds, where a candidate could have put it."""
        if isinstance(value, dict):
            yield from list(value.values())
        elif isinstance(value, _CONTAINERS):
            yield from list(value)
        elif isinstance(value, types.FunctionType):
            yield from (value.__defaults__ or (), value.__kwdefaults__ or {}, vars(value))
            yield from (cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType())
        elif isinstance(value, types.GeneratorType):
            yield from list(value.gi_frame.f_locals.values()) if value.gi_frame else ()
        elif isinstance(value, functools.partial):
            yield from (value.args, value.keywords)
        elif isinstance(value, types.MethodType):
            yield value.__func__
        elif self._is_own(value):
            yield dict(vars(value))

    def _is_own(self, value: Any) -> bool:
        """Whether it is the candidate's: a class, an object of one, its extension, or something to put values into."""
        if isinstance(value, torch.nn.Module):
            return False  # each is a place of its own
        if isinstance(value, types.ModuleType):
            return sys.modules.get(value.__name__) is not value
        kind = value if isinstance(value, type) else type(value)
        own = kind.__module__ == self._module or kind in (types.SimpleNamespace, torch.Tensor, torch.nn.Parameter)
        return own and hasattr(value, "__dict__")


def _plain_part(value: Any) -> Any:
    """What of a value can be compared: itself, how much it holds, or how far it has come."""
    if isinstance(value, _PLAIN):
        return repr(value)  # NaN is not itself
    if type(value) in _CONTAINERS:
        return len(value)
    if isinstance(value, torch.Tensor):
        return tuple(value.shape)
    if isinstance(value, itertools.count):
        return repr(value)
    if isinstance(value, types.GeneratorType):
        return value.gi_frame.f_lasti if value.gi_frame else -1
    if isinstance(value, Iterator):
        return operator.length_hint(value, 0)
    return None
