"""Loading a reference whose every failure is a reason to reject it. Call this inside the sandbox only."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from musadata.errors import Rejection
from musadata.tasks import reference_loading
from musadata.tasks.operator_recording import TooLarge


class Unfit(Rejection):
    """A draft that cannot be a task."""


@contextmanager
def rejecting(reason: str) -> Iterator[None]:
    """Raise `Unfit` in place of an exception of the reference. A failed allocation in torch is a RuntimeError."""
    try:
        yield
    except (Unfit, TooLarge, MemoryError):
        raise
    except Exception as error:
        raise Unfit("memory" if "allocate memory" in str(error) else reason, describe(error)) from error


def load(source: str) -> ModuleType:
    """Execute the reference as an importable module.

    Raises:
        Unfit: it does not load, or does not have KernelBench's form.
    """
    try:
        with rejecting("does_not_load"):
            return reference_loading.load_reference(source)
    except Unfit as unfit:
        if isinstance(unfit.__cause__, reference_loading.BadReference):
            raise Unfit("bad_form", str(unfit.__cause__)) from unfit
        raise


def construct(module: ModuleType, seed: int) -> torch.nn.Module:
    """`Model` in the mode that its constructor leaves, with parameters drawn from the seed.

    Raises:
        Unfit: it fails, or takes a module as an argument, which cannot be passed to a candidate in another process.
    """
    with rejecting("construction_fails"):
        model, arguments = reference_loading.construct(module, seed)
    if any(isinstance(leaf, torch.nn.Module) for leaf in tree_leaves(list(arguments))):
        raise Unfit("module_argument", "a constructor argument is a module")
    return model


def draw_inputs(module: ModuleType, seed: int) -> list[Any]:
    """One call of `get_inputs`: tensors and plain values, one per argument of `forward`."""
    reference_loading.set_seed(seed)
    with rejecting("inputs_fail"):
        inputs = module.get_inputs()
    if not isinstance(inputs, (list, tuple)):
        raise Unfit("bad_form", "get_inputs returns no list")
    return list(inputs)


def describe(error: BaseException) -> str:
    """One line without addresses or paths, since it goes into a row."""
    text = " ".join(str(error).split())[:200]
    return f"{type(error).__name__}: {text}" if text and "0x" not in text and "/" not in text else type(error).__name__
