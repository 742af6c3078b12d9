"""Inside the sandbox: what a reference's process and a candidate's do on a device alike: they make models there, digest
their state, and free memory."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from musadata.records import InputSpec
from musadata.sandbox.child import describe_error
from musadata.tasks.reference_loading import set_seed
from musadata.verifier.protocol import messages
from musadata.verifier.protocol.tensors import DTYPES
from musadata.verifier.sandboxed.device_inputs import draw_on
from musadata.verifier.sandboxed.model_state import tensors_of, unfilled_memory_known
from musadata.verifier.sandboxed.window import bytes_of

KEPT_SHARE = 1 / 64  # of the device's memory, by each process of a reference
_PART = 1 << 24  # words that are digested at a time


def load_kernels(device: str) -> None:
    """Make the context, and have PyTorch load the kernels that every process needs which makes a model and its inputs
    on a device: that takes the driver's time, and is best done before others wait for it."""
    if device == "cpu":
        return
    digest_state(construct_on(device, lambda: torch.nn.Linear(2, 2), 0))
    draw_on(device, [InputSpec("x", "uniform", "float32", (4,), 0.0, 1.0)], 0)
    getattr(torch, device).synchronize()


def construct_on(device: str, make: Callable[[], torch.nn.Module], seed: int) -> torch.nn.Module:
    """A model whose parameters are made on the device; on the CPU first where its constructor needs that."""
    with unfilled_memory_known():
        try:
            set_seed(seed)
            with torch.device(device):
                model = make()
        except Exception as error:
            if lacks_memory(error):  # the CPU would draw other values, and the device have no room for them either
                raise
            set_seed(seed)
            model = make()
    return model.to(device)


def digest_state(model: torch.nn.Module) -> dict[str, str]:
    """Digests of parameters and buffers by name, made on their device; none of those with NaN. See
    `model_state.construct_seeded`."""
    named = tensors_of(model)
    if not named:
        return {}
    # One transfer for all: a device that others use, too, takes milliseconds for each.
    facts = torch.stack([torch.stack([_digest(tensor), tensor.isnan().any().long()]) for tensor in named.values()])
    return {
        name: f"{total} {tuple(tensor.shape)} {tensor.dtype}"
        for (name, tensor), (total, has_nan) in zip(named.items(), facts.tolist(), strict=True)
        if not has_nan
    }


def _digest(tensor: torch.Tensor) -> torch.Tensor:
    """The sum of its words, or bytes, each times an odd number that depends on its place; in int64, which wraps."""
    total = torch.zeros((), dtype=torch.int64, device=tensor.device)
    raw = bytes_of(tensor.detach().contiguous())
    if len(raw) % 8 == 0:
        raw = (raw if raw.storage_offset() % 8 == 0 else raw.clone()).view(torch.int64)
    for start in range(0, len(raw), _PART):
        part = raw[start : start + _PART].long()
        total += (part * (torch.arange(start, start + len(part), device=raw.device) * 0x9E3779B97F4A7C1 | 1)).sum()
    return total


def find_problem(leaf: Any, device: str) -> str:
    """What is wrong with an output as an object, whatever its values; "" for nothing."""
    if type(leaf) not in (torch.Tensor, torch.nn.Parameter):
        return f"a {type(leaf).__name__}, not a plain tensor"
    if leaf.layout != torch.strided or str(leaf.dtype).removeprefix("torch.") not in DTYPES:
        return "not a dense tensor"
    return "" if leaf.device.type == device else f"on {leaf.device.type}, not on the device of the inputs"


def free_memory(device: str, kept_share: float = 0.0) -> None:
    """Give memory of the device that no tensor holds back to other processes, unless it is less than a share of all
    that there is, and half of it is free: each time takes tens of milliseconds on a device that others use, too."""
    if device != "cuda":
        return
    unused = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    kept = 0 if lacks_room(device) else kept_share * torch.cuda.get_device_properties(0).total_memory
    if unused > kept:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def lacks_room(device: str) -> bool:
    """Whether less than half of a device's memory is free: processes that wait keep nothing then."""
    if device != "cuda":
        return False
    free, total = torch.cuda.mem_get_info()
    return 2 * free < total


def describe_failure(error: BaseException) -> messages.ErrorFacts:
    """What an exception says; a lack of memory by its name, not by the assertion in which PyTorch asks NVML."""
    facts = messages.ErrorFacts(**describe_error(error))
    if "nvmlInit" not in facts.message:
        return facts
    return replace(facts, error_type=torch.OutOfMemoryError.__name__, message="CUDA out of memory.")


def lacks_memory(error: Exception) -> bool:
    """Also where PyTorch cannot say so, as it asks NVML, which a sandbox lacks."""
    return isinstance(error, torch.OutOfMemoryError) or "nvmlInit" in str(error)
