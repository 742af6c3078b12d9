"""The harness that most projects use, in short: what a cheat must fool before it is worth testing against.

One process, seeds that everybody knows, the declared shapes and values only, the reference first, and `torch.allclose`
with 1e-2. Runs in the sandbox.
"""

import importlib
import os
from typing import Any

import torch

from musadata.verifier.compilation.sources import CandidateSources
from musadata.verifier.protocol import messages
from musadata.verifier.protocol.message_encoding import ask_for

TRIALS = 3


def accepts(reference: str, candidate: str, child: str) -> bool:
    """Whether such a harness takes the candidate for correct. `child` is the backend's module."""
    _renew_thread_pool()
    faults = os.open("faults", os.O_CREAT | os.O_WRONLY, 0o600)
    importlib.import_module(child).activate(_compile, fault_fd=faults)
    reference_space, candidate_space = _run(reference), _run(candidate)
    arguments = reference_space["get_init_inputs"]()
    torch.manual_seed(42)
    model = reference_space["Model"](*arguments).cuda()
    torch.manual_seed(42)
    new_model = candidate_space["ModelNew"](*arguments).cuda()
    for trial in range(TRIALS):
        torch.manual_seed(trial)
        inputs = [value.cuda() if torch.is_tensor(value) else value for value in reference_space["get_inputs"]()]
        with torch.no_grad():
            expected = model(*inputs)
            found = new_model(*inputs)
        torch.cuda.synchronize()
        if not _close(expected, found):
            return False
    return True


def _renew_thread_pool() -> None:
    """Use PyTorch's thread pool once, before a candidate does.

    The first use after a fork replaces the pool. If two threads of a candidate do that at the same time, one of them
    finds no pool: "Invalid thread pool!" in ParallelOpenMP.cpp.
    """
    torch.set_num_threads(torch.get_num_threads())


def _run(source: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "program"}
    exec(compile(source, "program", "exec"), namespace)
    return namespace


def _close(expected: torch.Tensor, found: Any) -> bool:
    if expected.shape != found.shape:
        return False
    return torch.allclose(expected.cpu().float(), found.cpu().float(), atol=1e-2, rtol=1e-2)


def _compile(sources: CandidateSources) -> str:
    answer = ask_for(messages.CompileRequest(sources), messages.Compiled, messages.Refused)
    if isinstance(answer, messages.Refused):
        raise RuntimeError(answer.reason)
    return answer.path
