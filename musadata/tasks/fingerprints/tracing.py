"""The graph fingerprint of a benchmark's task at its published size, without its memory. Runs inside the sandbox."""

from itertools import chain
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from musadata.dispatch import without_dynamo
from musadata.tasks.checked_reference import Unfit, construct, describe, draw_inputs, load
from musadata.tasks.operator_recording import GraphRecorder, TooLarge

_NO_LIMIT = 1 << 62


def trace(source: str) -> dict[str, Any]:
    """`{"graph": ...}`, or `{"problem": ...}` where the task does not run here.

    Fake tensors know shapes only; a task that reads a value while it is built is run for real, if memory allows.
    """
    problem = ""
    for fake in (True, False):
        try:
            return {"graph": _trace(source, fake)}
        except Unfit as unfit:
            problem = str(unfit)
            if unfit.reason == "does_not_load":
                break
        except TooLarge as error:
            return {"problem": str(error)}
        except Exception as error:  # whatever the benchmark does that fake tensors cannot
            problem = describe(error)
    return {"problem": problem}


def _trace(source: str, fake: bool) -> str:
    with FakeTensorMode(allow_non_fake_inputs=True) if fake else torch.no_grad(), torch.no_grad(), without_dynamo():
        module = load(source)
        model, inputs = construct(module, 0).eval(), draw_inputs(module, 0)
        tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
        recorder = GraphRecorder(tensors, chain(model.parameters(), model.buffers()), _NO_LIMIT)
        with recorder:
            result = model(*inputs)
        recorder.finish(result)
    return recorder.graph.fingerprint()
