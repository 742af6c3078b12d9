"""Values that a repository's own code handed to its modules, as expressions of a reference. Runs inside the sandbox."""

import dataclasses
import enum
import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch import nn

GIVEN = "_harvested_arguments"  # attribute of a module: what its constructor was given
MAX_TEXT = 2000  # characters of one argument
MAX_ELEMENTS = 1 << 22  # of a tensor
MAX_ITEMS = 64  # of a sequence or mapping
MAX_DEPTH = 6
PLACES = (("nn", nn), ("F", nn.functional), ("torch", torch))


class Inexpressible(Exception):
    """A value that no expression of a reference makes."""


class Writer:
    """Writes values as expressions; `names` are those of the repository that they read, with the file of each."""

    def __init__(self, own: Callable[[str], str | None]):
        """`own`: the file of the repository that was imported as a module of this name; None for any other module."""
        self._own = own
        self.names: dict[str, str] = {}

    def text(self, value: Any) -> str:
        """Raises:
        Inexpressible: there is none, or it is too long.
        """
        text = self._text(value, 0)
        if len(text) > MAX_TEXT:
            raise Inexpressible(type(value).__name__)
        return text

    def arguments(self, name: str, positional: Iterable[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call, positional ones under `name`.

        Raises:
            Inexpressible: one has no expression.
        """
        given = [self.text(item) for item in positional]
        return {name: given, f"{name}_keywords": [[key, self.text(item)] for key, item in keywords.items()]}

    def _text(self, value: Any, depth: int) -> str:
        if depth > MAX_DEPTH:
            raise Inexpressible("nested too deeply")
        if isinstance(value, enum.Enum):
            return self._text(value.value, depth)
        if isinstance(value, float) and not math.isfinite(value):
            return f"float('{float(value)}')"
        if value is None or value is ... or isinstance(value, (bool, int, float, str)):
            return repr(_plain(value))
        if isinstance(value, (torch.Tensor, nn.Parameter)):
            return tensor_text(value)
        if isinstance(value, (list, tuple, dict, set, range)):
            return self._collection(value, depth + 1)
        if isinstance(value, (torch.dtype, torch.device)):
            return repr(value) if isinstance(value, torch.dtype) else "torch.device('cpu')"
        if isinstance(value, partial):
            return self._call("partial", (value.func, *value.args), value.keywords, depth)
        if isinstance(value, nn.Module):
            positional, keywords = vars(value)[GIVEN]
            return self._call(self._name(type(value)), positional, keywords, depth)
        if isinstance(value, type) or callable(value):
            return self._name(value)
        if hasattr(value, "item") and getattr(value, "size", 0) == 1:  # a number of NumPy
            return self._text(value.item(), depth + 1)
        if self._own(type(value).__module__) and dataclasses.is_dataclass(value):
            fields = {item.name: getattr(value, item.name) for item in dataclasses.fields(value) if item.init}
            return self._call(self._name(type(value)), (), fields, depth)
        if hasattr(value, "__dict__") and self._own(type(value).__module__):
            return self._call("SimpleNamespace", (), self._fields(value, depth + 1), depth)
        raise Inexpressible(type(value).__name__)

    def _fields(self, value: Any, depth: int) -> dict[str, Any]:
        """What an object holds that can be written; a configuration holds much that nobody reads."""
        found: dict[str, Any] = {}
        for name, item in vars(value).items():
            try:
                self._text(item, depth)
            except Inexpressible:
                continue
            found |= {name: item} if name.isidentifier() and not name.startswith("_") else {}
        return found

    def _collection(self, value: Any, depth: int) -> str:
        if isinstance(value, range):
            return repr(value)
        if len(value) > MAX_ITEMS:
            raise Inexpressible(f"{len(value)} items")
        if isinstance(value, dict):
            pairs = [f"{self._text(key, depth)}: {self._text(item, depth)}" for key, item in value.items()]
            return f"{{{', '.join(pairs)}}}"
        texts = ", ".join(self._text(item, depth) for item in value)
        if isinstance(value, list):
            return f"[{texts}]"
        if isinstance(value, set):
            return f"{{{texts}}}" if value else "set()"
        return f"({texts},)" if len(value) == 1 else f"({texts})"

    def _call(self, name: str, positional: Any, keywords: Mapping[str, Any], depth: int) -> str:
        texts = [self._text(item, depth + 1) for item in positional]
        texts += [f"{key}={self._text(item, depth + 1)}" for key, item in keywords.items()]
        return f"{name}({', '.join(texts)})"

    def _name(self, value: Any) -> str:
        name = getattr(value, "__name__", "")
        for place, module in PLACES:
            if name and getattr(module, name, None) is value:
                return f"{place}.{name}"
        file = self._own(getattr(value, "__module__", None) or "")
        is_top = isinstance(value, (type, FunctionType)) and value.__qualname__ == name
        if file is None or not is_top or self.names.get(name, file) != file:
            raise Inexpressible(f"{type(value).__name__} {name}")
        self.names[name] = file
        return name


def _plain(value: Any) -> Any:
    """The value as its builtin type: classes derived from `str` and `int` write themselves otherwise."""
    kinds: tuple[type, ...] = (bool, int, float, str)
    return next((kind(value) for kind in kinds if isinstance(value, kind)), value)


def tensor_text(value: torch.Tensor) -> str:
    """An expression that draws a tensor of this shape, type and range."""
    is_plain = value.layout == torch.strided and not value.is_quantized and not value.is_complex()
    if not is_plain or not 0 < value.numel() <= MAX_ELEMENTS:
        raise Inexpressible(f"tensor {value.dtype}")
    shape, kind = tuple(value.shape), str(value.dtype)
    low, high = (float(part) for part in value.detach().float().aminmax())
    if value.dtype == torch.bool:
        return f"torch.rand({shape}) > 0.5"
    typed = "" if kind in ("torch.float32", "torch.int64") else f", dtype={kind}"
    if not value.is_floating_point():
        return f"torch.randint({min(0, int(low))}, {int(high) + 1}, {shape}{typed})"
    return f"torch.{'rand' if low >= 0 and high <= 1 else 'randn'}({shape}{typed})"
