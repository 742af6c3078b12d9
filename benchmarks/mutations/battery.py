"""Whether a mutant differs from the original in any bit of any output, on far more inputs than a verification draws.

Runs in the sandbox. No difference proves nothing by itself: an entry in `equivalent.yaml` must also say why.
"""

import importlib
import os
from typing import Any

import torch

from musadata.records import InputSpec
from musadata.tracing.inputs import draw
from musadata.verifier.compilation.sources import CandidateSources
from musadata.verifier.protocol.message_encoding import ask_for
from musadata.verifier.protocol.messages import Compiled, CompileRequest, Refused
from musadata.verifier.protocol.pytree import flatten
from musadata.verifier.sandboxed.model_state import randomise, tensors_of

_SCALES = ((1.0, 0.0), (-3.0, 0.0), (0.01, 0.0), (1.0, 64.0), (-1e4, 0.0), (0.0, 0.0))
_SPECIAL = (float("nan"), float("-inf"))
_ORDERS = (("forward", 0xFF), ("reverse", 0x7B), ("random", 0x00))


def compare(
    original: str, mutant: str, init: list[Any], shape_sets: list[list[dict[str, Any]]], child: str, seeds: int
) -> str:
    """Where they differ, in words; empty if nowhere."""
    backend = importlib.import_module(child)
    backend.activate(_compile, fault_fd=os.open("faults", os.O_CREAT | os.O_WRONLY, 0o600))
    models = [_build(source, init) for source in (original, mutant)]
    _share_state(models)
    for number, shapes in enumerate(shape_sets):
        specs = [InputSpec(**{**spec, "shape": tuple(spec["shape"])}) for spec in shapes]
        for seed in range(seeds):
            for name, values in _variants(draw(specs, 1000 * number + seed)):
                for order, poison in _ORDERS:
                    first, second = (_call(backend, model, values, order, seed, poison) for model in models)
                    if first != second:
                        return f"shape set {number}, seed {seed}, {name}, {order} order"
    return ""


def _build(source: str, init: list[Any]) -> torch.nn.Module:
    namespace: dict[str, Any] = {"__name__": "candidate"}
    exec(compile(source, "candidate", "exec"), namespace)
    return namespace["ModelNew"](*init).cuda()


def _share_state(models: list[torch.nn.Module]) -> None:
    randomise(models[0], 5)
    state = tensors_of(models[0])
    with torch.no_grad():
        for name, tensor in tensors_of(models[1]).items():
            tensor.copy_(state[name])


def _variants(values: list[Any]) -> list[tuple[str, list[Any]]]:
    def change(function: Any) -> list[Any]:
        return [function(v) if torch.is_tensor(v) and v.dtype.is_floating_point else v for v in values]

    variants = [(f"x*{a}+{b}", change(lambda v, a=a, b=b: v * a + b)) for a, b in _SCALES]
    return variants + [(f"with {s}", change(lambda v, s=s: _with_special(v, s))) for s in _SPECIAL]


def _with_special(value: torch.Tensor, special: float) -> torch.Tensor:
    changed = value.clone()
    changed.view(-1)[:: max(1, changed.numel() // 5)] = special
    return changed


def _call(backend: Any, model: torch.nn.Module, values: list[Any], order: str, seed: int, poison: int) -> object:
    backend.configure(order=order, seed=seed, poison=poison, null_kernels=False)
    try:
        with torch.no_grad():
            structure, leaves = flatten(model(*[v.cuda() if torch.is_tensor(v) else v for v in values]))
    except Exception as error:
        return type(error).__name__
    return structure, [(str(leaf.dtype), tuple(leaf.shape), _bytes(leaf)) for leaf in leaves]


def _bytes(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())


def _compile(sources: CandidateSources) -> str:
    answer = ask_for(CompileRequest(sources), Compiled, Refused)
    if isinstance(answer, Compiled):
        return answer.path
    raise RuntimeError(answer)
