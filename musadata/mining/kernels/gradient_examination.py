"""Executing a reference with gradients. Runs inside the sandbox."""

from typing import Any

import torch

from musadata.mining.arguments.attempt_execution import AttemptRunner


def examine_gradient(reference: str) -> dict[str, Any] | None:
    """The fields of a reference's `Gradient`, None if it has none.

    None for modules with parameters, too: a gradient does not depend on each of them.
    """
    runner = AttemptRunner(reference, 1)
    model = runner.load()(*runner.space["get_init_inputs"]())
    inputs = [item.requires_grad_() if _is_float(item) else item for item in runner.space["get_inputs"]()]
    returned = model(*[item.clone() if _is_float(item) else item for item in inputs])
    whole = isinstance(returned, torch.Tensor)
    outputs = dict(enumerate([returned] if whole or not isinstance(returned, (tuple, list)) else returned))
    leading = {place: item for place, item in outputs.items() if _is_float(item) and item.requires_grad}
    given = {place: item for place, item in enumerate(inputs) if _is_float(item)}
    if not leading or not given or any(True for _ in model.parameters()):
        return None
    ones = [torch.ones_like(item) for item in leading.values()]
    found = torch.autograd.grad(list(leading.values()), list(given.values()), ones, allow_unused=True)
    reached = [place for place, item in zip(given, found, strict=True) if item is not None]
    draws = [f"torch.randn({tuple(item.shape)}, dtype={item.dtype})" for item in leading.values()]
    draws = [text.replace(", dtype=torch.float32", "") for text in draws]
    return {"inputs": reached, "outputs": list(leading), "draws": draws, "whole": whole} if reached else None


def _is_float(item: Any) -> bool:
    return isinstance(item, torch.Tensor) and item.is_floating_point()
