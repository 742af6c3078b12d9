"""Loading a reference and drawing from it. Its code is not trusted: call this inside the sandbox only."""

import linecache
import random
import sys
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

_MODULE = "musadata_probed_reference"
_PARTS = ("Model", "get_inputs", "get_init_inputs")


class Unfit(Exception):
    """Why a draft is no task. `reason` is short and countable."""

    def __init__(self, reason: str, detail: str = ""):
        self.reason, self.detail = reason, detail
        super().__init__(f"{reason}: {detail}")


def failure(reason: str, error: Exception) -> Unfit:
    """An exception of the reference as the reason to drop it; a failed allocation in torch looks like any other."""
    return Unfit("memory" if "allocate memory" in str(error) else reason, describe(error))


def load(source: str) -> ModuleType:
    """Execute the reference as an importable module.

    Raises:
        Unfit: it does not load, or does not have KernelBench's form.
    """
    module = ModuleType(_MODULE)
    file = f"<{_MODULE}>"
    module.__file__ = file
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    sys.modules[_MODULE] = module
    try:
        exec(compile(source, file, "exec"), module.__dict__)
    except Exception as error:
        raise failure("does_not_load", error) from error
    missing = [part for part in _PARTS if not callable(getattr(module, part, None))]
    if missing:
        raise Unfit("bad_form", f"defines no {' nor '.join(missing)}")
    if not (isinstance(module.Model, type) and issubclass(module.Model, torch.nn.Module)):
        raise Unfit("bad_form", "Model is not an nn.Module")
    return module


def construct(module: ModuleType, seed: int) -> torch.nn.Module:
    """`Model` in evaluation mode, with parameters drawn from the seed.

    Raises:
        Unfit: it fails, or is given a module, which no candidate in another process could be given.
    """
    set_seed(seed)
    try:
        arguments = module.get_init_inputs()
        model: torch.nn.Module = module.Model(*arguments)
    except Exception as error:
        raise failure("construction_fails", error) from error
    if any(isinstance(leaf, torch.nn.Module) for leaf in tree_leaves(list(arguments))):
        raise Unfit("module_argument", "a constructor argument is a module")
    return model.eval()


def draw_inputs(module: ModuleType, seed: int) -> list[Any]:
    """One call of `get_inputs`: tensors and plain values, one per argument of `forward`."""
    set_seed(seed)
    try:
        inputs = module.get_inputs()
    except Exception as error:
        raise failure("inputs_fail", error) from error
    if not isinstance(inputs, (list, tuple)):
        raise Unfit("bad_form", "get_inputs returns no list")
    return list(inputs)


def set_seed(seed: int) -> None:
    """Seed every generator that a reference may draw from."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def describe(error: BaseException) -> str:
    """One line without addresses or paths, since it goes into a row."""
    text = " ".join(str(error).split())[:200]
    return f"{type(error).__name__}: {text}" if text and "0x" not in text and "/" not in text else type(error).__name__
