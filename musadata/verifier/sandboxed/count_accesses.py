"""Inside the sandbox: call a candidate once and count what its kernels do to memory.

The candidate shares this process, so the counts are facts about a program that was accepted before, never a verdict.
"""

import copy
import importlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from musadata.records import InputSpec
from musadata.rows import restore
from musadata.tasks.reference_loading import load_reference
from musadata.tracing.inputs import draw
from musadata.verifier.sandboxed.execute import compile_outside, load_candidate, say_error
from musadata.verifier.sandboxed.model_state import construct_seeded

_SEED = 0
_MOST_TEXT = 4 << 20


def count_accesses(
    source: str,
    reference: str,
    inputs: Sequence[dict[str, Any]],
    windows: Mapping[str, int],
    most: int,
    backend_name: str,
) -> dict[str, str]:
    """Import the candidate, build `ModelNew` with the reference's arguments, and call it once on inputs of these specs.

    Returns {"counts": text of `access_counts.read_counts`} or {"why": what failed}. `windows`, `most`: see the
    backend's `count_accesses`.
    """
    backend = importlib.import_module(backend_name)
    backend.activate(compile_outside, fault_fd=os.open("faults", os.O_CREAT | os.O_WRONLY, 0o600))
    backend.load_counter()
    try:
        arguments = load_reference(reference).get_init_inputs()
        kind = load_candidate(source).ModelNew
        model, _ = construct_seeded(lambda: kind(*copy.deepcopy(arguments)), _SEED)
        model = model.to(backend.DEVICE).eval()
        values = [_move(value, backend.DEVICE) for value in draw([restore(InputSpec, one) for one in inputs], _SEED)]
        backend.configure(order="forward", check="off")
        backend.count_accesses(most, windows)
        backend.begin_call()
        with torch.no_grad():
            model(*values)
        backend.end_call()
    except BaseException as error:
        return {"why": say_error(error)}
    return {"counts": backend.take_counts()[:_MOST_TEXT]}


def _move(value: Any, device: str) -> Any:
    return value.to(device) if isinstance(value, torch.Tensor) else value
