"""Inside the sandbox: whether a candidate has replaced functions that its run and its report rely on."""

import json
import os
import threading
from dataclasses import replace
from types import ModuleType
from typing import Any

import torch

from musadata.verifier.protocol.messages import CandidateFacts
from musadata.verifier.sandboxed import measured_run
from musadata.verifier.sandboxed.audit import Audit
from musadata.verifier.sandboxed.dispatch_watch import BUILTIN


def _watched(reporter: ModuleType) -> list[tuple[Any, str]]:
    """Functions that a candidate must not replace."""
    tensor = ("copy_", "cpu", "cuda", "clone", "detach", "contiguous", "__eq__", "data_ptr")
    functions = ("allclose", "equal", "empty", "empty_like", "zeros", "from_numpy", "no_grad", "Tensor")
    places: list[tuple[Any, tuple[str, ...]]] = [
        (torch, functions),
        (torch.Tensor, tensor),
        (torch.nn.Module, ("__call__", "named_parameters", "named_buffers", "cuda", "eval")),
        (torch.cuda, ("Event", "synchronize")),
        (torch.cuda.Event, ("record", "elapsed_time")),
        (json, ("dumps", "loads")),
        (os, ("write",)),
        (reporter, ("pack",)),
        (measured_run, ("put_chunk", "redraw", "flatten", "DispatchWatch")),
        (threading, ("active_count",)),
    ]
    return [(place, name) for place, names in places for name in names]


def _python_operators() -> list[str]:
    """PyTorch's own operators that have an implementation in Python, as "aten/clone/CUDA"."""
    return sorted(name for name in torch.library._impls if name.split("/")[0] in BUILTIN)


class IntegrityGuard:
    """Functions as they were before the candidate was imported.

    `program` is the file name of the candidate's text; `reporter` is the module that packs its results.
    """

    def __init__(self, program: str, reporter: ModuleType) -> None:
        self._originals = [(place, name, getattr(place, name)) for place, name in _watched(reporter)]
        self._operators = frozenset(_python_operators())
        self._audit = Audit(program)

    def check(self, facts: CandidateFacts) -> CandidateFacts:
        """The facts, with what the candidate has replaced and started so far."""
        replaced = [
            f"{getattr(place, '__name__', place)}.{name}"
            for place, name, original in self._originals
            if getattr(place, name, None) is not original
        ]
        replaced += [name for name in _python_operators() if name not in self._operators]
        threads = max(self._audit.threads, threading.active_count() - 1)
        return replace(facts, tampered=tuple(replaced), threads=threads)
