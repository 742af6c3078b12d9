"""Loading a reference and building its model. The code is not trusted: call this inside `musadata.sandbox` only."""

import linecache
import os
import pickle
import random
import sys
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import torch

PARTS = ("Model", "get_inputs", "get_init_inputs")
_MODULE = "musadata_reference"
_CUDA_FILES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvmap", "/dev/dxg")  # of its driver, on hosts of every kind
_torch_state, _python_state, _numpy_state = torch.get_rng_state, random.getstate, np.random.get_state


class BadReference(ValueError):
    """A text that is not a task in KernelBench's form."""


def load_reference(source: str) -> ModuleType:
    """Execute a reference as a module of its own and check that it has KernelBench's form.

    The module is importable while the process lives and its source is known to `inspect`, because dataclasses,
    TorchScript and pickling ask for either.

    Raises:
        BadReference: `Model` is not an `nn.Module` class, or one of the two input functions is missing.
        Exception: whatever the source raises.
    """
    module = ModuleType(_MODULE)
    file = f"<{_MODULE}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    module.__file__ = file
    sys.modules[_MODULE] = module
    exec(compile(source, file, "exec"), module.__dict__)
    missing = [part for part in PARTS if not callable(getattr(module, part, None))]
    if missing:
        raise BadReference(f"defines no {' nor '.join(missing)}")
    if not (isinstance(module.Model, type) and issubclass(module.Model, torch.nn.Module)):
        raise BadReference("Model is not an nn.Module")
    return module


def construct(reference: ModuleType, seed: int) -> tuple[torch.nn.Module, Any]:
    """`Model`, its parameters drawn from the seed, and the constructor arguments that it was given."""
    set_seed(seed)
    arguments = reference.get_init_inputs()
    return reference.Model(*arguments), arguments


def build_model(reference: ModuleType, seed: int) -> torch.nn.Module:
    """`Model` on the CPU, in the mode that its constructor leaves, with the same parameters in every process."""
    return construct(reference, seed)[0]


def set_seed(seed: int) -> None:
    """Seed every global generator that a reference may draw from."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    if _may_have_device():
        torch.manual_seed(seed)
    else:  # `torch.manual_seed` formats the stack for each kind of device that is not there, a tenth of a trace
        torch.default_generator.manual_seed(seed)


def random_state() -> tuple[object, ...]:
    """The states of the global generators; another one shows that something has been drawn."""
    return bytes(_torch_state().numpy()), _python_state(), pickle.dumps(_numpy_state())


def _may_have_device() -> bool:
    return torch.cuda.is_initialized() or _has_driver()


@cache
def _has_driver() -> bool:
    """Without asking CUDA itself: no fork of this process could use a device after that."""
    if torch.version.cuda is not None and any(map(os.path.exists, _CUDA_FILES)):
        return True
    return torch.xpu.is_available() or torch.mtia.is_available() or hasattr(torch, "musa")
