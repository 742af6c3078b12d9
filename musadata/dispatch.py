"""Watching what a module dispatches, without what PyTorch itself would first import for that."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_DYNAMO = "torch._dynamo"


class DispatchMode(TorchDispatchMode):
    """What every mode here derives from.

    To keep its compiler away from a mode, PyTorch imports torch._dynamo when the mode is first used: 1 to 3 seconds, in
    every forked process. Nothing is compiled under these.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


def check_without_compiler() -> None:
    """Let PyTorch check plain conditions, as unpooling does, without the compiler's symbols: a second to import."""
    check = torch._check_with

    def checked(error: type[BaseException], condition: Any, message: Any) -> None:
        if condition is not True:
            check(error, condition, message)

    torch._check_with = checked  # type: ignore[assignment]


class _StandIn(ModuleType):
    """What PyTorch asks torch._dynamo for when it wants a function of its own to be left alone: the function as it is.
    All else is answered by the real module."""

    def disable(self, function: Any, *_: Any, **__: Any) -> Any:
        return function

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(_DYNAMO) is self:
            del sys.modules[_DYNAMO]
        return getattr(importlib.import_module(_DYNAMO), name)


@contextmanager
def without_dynamo() -> Iterator[None]:
    """Nothing is compiled in this block: torch._dynamo is not imported only to keep its compiler away from what PyTorch
    decomposes operators into, which takes 1 to 3 seconds."""
    stand_in = None if _DYNAMO in sys.modules else _StandIn(_DYNAMO)
    if stand_in is not None:
        sys.modules[_DYNAMO] = stand_in
    try:
        yield
    finally:
        if stand_in is not None and sys.modules.get(_DYNAMO) is stand_in:
            del sys.modules[_DYNAMO]
