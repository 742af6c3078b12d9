"""Inside the sandbox: constructor arguments as JSON and back, to pass them from the reference to the candidate."""

import base64
import math
from types import SimpleNamespace
from typing import Any

from musadata.verifier.protocol.tensors import pack, unpack_torch


class NotPlain(Exception):
    """A value that has no JSON form here."""


def encode(value: Any) -> Any:
    """A value as JSON: numbers, strings, containers, tensors, functions and classes of torch, and objects that
    only hold such values.

    Raises:
        NotPlain: the value is, or holds, anything else.
    """
    import torch

    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, torch.Size) or type(value) is tuple:
        return {"tuple": [encode(item) for item in value]}
    if isinstance(value, list):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {"dict": [[encode(key), encode(item)] for key, item in value.items()]}
    if isinstance(value, torch.dtype):
        return {"torch": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    if isinstance(value, torch.Tensor):
        return {"tensor": base64.b64encode(pack({"": value})).decode(), "grad": value.requires_grad}
    return _encode_name(value)


def _encode_name(value: Any) -> Any:
    import torch

    module, name = getattr(value, "__module__", "") or "", getattr(value, "__qualname__", "")
    for space in ("torch", "torch.nn", "torch.nn.functional"):
        if (module.startswith("torch") or module == "") and name and _look_up(f"{space}.{name}") is value:
            return {"name": f"{space}.{name}"}
    if isinstance(value, torch.nn.Module) or module.startswith("torch"):
        raise NotPlain(f"a constructor argument is a {type(value).__name__}, which cannot be passed on")
    return _encode_configuration(value)


def _encode_configuration(value: Any) -> Any:
    """An object, or a class, that only holds values; a candidate gets another object with the same attributes."""
    held = {name: getattr(value, name) for name in dir(value) if not name.startswith("_")}
    if not held or any(map(callable, held.values())):
        raise NotPlain(f"a constructor argument is a {type(value).__name__}, which cannot be passed on")
    return {"namespace": [[name, encode(item)] for name, item in held.items()]}


def _look_up(path: str) -> Any:
    import torch

    found: Any = torch
    for part in path.split(".")[1:]:
        found = getattr(found, part, None)
    return found


def decode(value: Any) -> Any:
    """The inverse of `encode`."""
    import torch

    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content), *_) = value.items()
    if kind == "tensor":
        return unpack_torch(base64.b64decode(content))[""].requires_grad_(value["grad"])
    decoders = {
        "float": float,
        "complex": lambda parts: complex(*parts),
        "tuple": lambda items: tuple(decode(item) for item in items),
        "dict": lambda items: {decode(key): decode(item) for key, item in items},
        "torch": lambda name: getattr(torch, name),
        "device": torch.device,
        "name": _look_up,
        "namespace": lambda items: SimpleNamespace(**{name: decode(item) for name, item in items}),
    }
    return decoders[kind](content)
