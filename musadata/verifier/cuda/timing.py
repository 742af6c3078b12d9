"""Inside the sandbox, on a real device: how long a forward takes.

Device events around each call; the L2 cache is flushed before it and its inputs are written anew, so nothing that was
kept helps; warm-up goes on until the median is steady.
"""

import importlib
import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

_FLUSH_BYTES = 256 << 20
_WARM_UP_SECONDS_MS = 200.0
_REPETITIONS = 50


def time_candidate(source: str, plan: dict[str, Any]) -> list[float]:
    """Milliseconds of each repetition of the candidate's forward on the first input set."""
    from musadata.verifier import execute

    backend = importlib.import_module(plan["backend"])
    backend.activate(execute._compile, fault_fd=os.open("faults", os.O_CREAT | os.O_WRONLY, 0o600))
    run = execute._prepare(source, plan, backend, {"calls": []})
    assert run is not None
    return _measure(run.model, _inputs(plan))


def time_reference(source: str, plan: dict[str, Any], compiled: bool) -> list[float]:
    """The same for the reference, as it stands or through `torch.compile`."""
    from musadata.tracing.reference import load_reference
    from musadata.verifier.cuda.device import look_for_device
    from musadata.verifier.model_state import tensors_of
    from musadata.verifier.plain_values import decode
    from musadata.verifier.tensors import unpack_torch

    look_for_device()
    torch.manual_seed(plan["seed"])
    model: Any = load_reference(source).Model(*decode(plan["init"])).cuda().eval()
    own = tensors_of(model)
    with torch.no_grad():
        for name, value in unpack_torch(Path("state").read_bytes()).items():
            own[name].copy_(value)
    return _measure(torch.compile(model) if compiled else model, _inputs(plan))


def _inputs(plan: dict[str, Any]) -> tuple[list[Any], list[torch.Tensor]]:
    """Arguments on the device, and fresh values for those that are tensors, also there."""
    from musadata.verifier.plain_values import decode
    from musadata.verifier.tensors import unpack_torch

    given = unpack_torch(Path("inputs0").read_bytes())
    arguments: list[Any] = []
    for number, literal in enumerate(plan["sets"][0]["literals"]):
        arguments.append(given[str(number)].cuda() if literal is None else decode(literal["value"]))
    return arguments, [value.clone() for value in arguments if isinstance(value, torch.Tensor)]


def _measure(forward: Callable[..., Any], inputs: tuple[list[Any], list[torch.Tensor]]) -> list[float]:
    arguments, fresh = inputs
    tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
    flush = torch.empty(_FLUSH_BYTES, dtype=torch.uint8, device="cuda")

    def once() -> float:
        for target, value in zip(tensors, fresh, strict=True):
            target.copy_(value)
        flush.zero_()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        forward(*arguments)
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end))

    with torch.no_grad():
        _warm_up(once)
        return [once() for _ in range(_REPETITIONS)]


def _warm_up(once: Callable[[], float]) -> None:
    """Until two batches of ten agree within 2 %, or 200 ms of kernels have run."""
    spent, last = 0.0, 0.0
    while spent < _WARM_UP_SECONDS_MS:
        batch = [once() for _ in range(10)]
        now = statistics.median(batch)
        if last and abs(now - last) <= 0.02 * last:
            return
        spent, last = spent + sum(batch), now
