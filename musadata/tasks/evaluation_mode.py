"""Whether a reference's results depend on evaluation mode. Runs inside the sandbox.

Models are judged in the mode that their constructor leaves, as KernelBench's harness does: training mode, unless the
constructor says otherwise. Dropout draws random numbers there and batch norms take the batch's own statistics, so a
task's reference ends its constructor with `self.eval()` where that matters, and its candidates do the same.
"""

import copy
from collections.abc import Sequence
from itertools import chain
from typing import Any

import torch

from musadata.tasks.operator_recording import GraphRecorder, TooLarge, tensors_in


def is_training(model: torch.nn.Module) -> bool:
    """Whether any part of the model is in training mode."""
    return any(part.training for part in model.modules())


def is_same_call(model: torch.nn.Module, other: torch.nn.Module, inputs: Sequence[Any], seed: int, limit: int) -> bool:
    """Whether two models dispatch the same operators and return the same bits for the same random numbers.

    Raises:
        TooLarge: a tensor has more than `limit` elements, or there are too many operators.
    """
    return _record(model, inputs, seed, limit) == _record(other, inputs, seed, limit)


def _record(
    model: torch.nn.Module, inputs: Sequence[Any], seed: int, limit: int
) -> tuple[list[str], list[bytes]] | None:
    """The operators that a call dispatches, and the bytes of what it returns; None if it fails."""
    given = copy.deepcopy(list(inputs))
    recorder = GraphRecorder(tensors_in(given), chain(model.parameters(), model.buffers()), limit)
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # attention takes it in evaluation mode only, for the same result
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad(), recorder:
            torch.default_generator.manual_seed(seed)
            result = model(*given)
        tensors = (tensor.detach().contiguous() for tensor in tensors_in(result))
        return recorder.operators, [tensor.flatten().view(torch.uint8).numpy().tobytes() for tensor in tensors]
    except TooLarge:
        raise
    except Exception:  # the reference may raise anything
        return None
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
