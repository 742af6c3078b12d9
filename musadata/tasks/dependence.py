"""Whether a reference's outputs depend on all its inputs and parameters."""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch

from musadata.tasks.checked_reference import Unfit
from musadata.tasks.reference_loading import set_seed

Run = Callable[[Sequence[Any]], list[torch.Tensor]]
_equal, _autograd_grad = torch.equal, torch.autograd.grad
_FEW_ROWS = 4
_VISIBLE = 1e-4  # of the output's largest value; a smaller change is rounding, which no test can check
# The same share where all inputs are drawn anew: with less, a constant would be within many a tolerance. A single
# number is excepted, since a mean of many values varies less.
_HARDLY = 1e-2


def check_inputs_matter(
    run: Run, specs: list[dict[str, Any]], draws: list[list[Any]], results: list[list[torch.Tensor]]
) -> None:
    """Every tensor among the inputs changes some output visibly.

    Raises:
        Unfit: "ignores_input".
    """
    tensors = [index for index, spec in enumerate(specs) if spec["kind"] != "literal"]
    if not tensors:
        raise Unfit("no_inputs")
    for index in tensors:
        values = [draw[index] for draw in draws[1:]]
        if all(bool(_equal(value, draws[0][index])) for value in values):  # get_inputs never varies it
            values = _perturb(draws[0][index])
        variants = [[*draws[0][:index], value, *draws[0][index + 1 :]] for value in values]
        if not any(_visible(results[0], _run_or_none(run, variant)) for variant in variants):
            raise Unfit("ignores_input", specs[index]["name"])


def check_varies(outputs: Sequence[torch.Tensor]) -> None:
    """An output changes with the inputs.

    Raises:
        Unfit: "constant_output".
    """
    share = _HARDLY if outputs[0].numel() > 1 else _VISIBLE
    if not any(_differs(outputs[0], other, share) for other in outputs[1:]):
        raise Unfit("constant_output", "it is the same for all inputs, or nearly so")


def check_rows_matter(run: Run, draws: list[list[Any]], outputs: list[torch.Tensor]) -> None:
    """The last half of every input's rows changes some output: `outputs[0]`, `outputs[1]` were meant for a list, and
    so was what reads two sizes from an input. Integers and masks among the inputs may choose rows.

    Raises:
        Unfit: "reads_few_rows".
    """
    if any(isinstance(value, torch.Tensor) and not value.dtype.is_floating_point for value in draws[0]):
        return
    for index, (value, other) in enumerate(zip(draws[0], draws[1], strict=True)):
        if not isinstance(value, torch.Tensor) or value.dim() == 0 or len(value) < _FEW_ROWS:
            continue
        if other.shape != value.shape:
            continue
        half = len(value) // 2
        mixed = value.clone()
        mixed[half:] = other[half:]
        if bool(_equal(mixed, value)):
            continue
        results = _run_or_none(run, [*draws[0][:index], mixed, *draws[0][index + 1 :]])
        if results is not None and len(results) == len(outputs) and all(map(_equal, outputs, results)):
            raise Unfit("reads_few_rows", f"of shape {tuple(value.shape)}")


def _run_or_none(run: Run, inputs: list[Any]) -> list[torch.Tensor] | None:
    """The outputs; None if the reference rejects the changed input, which shows that it reads it."""
    try:
        return run(inputs)
    except Unfit:
        return None


def _perturb(value: torch.Tensor) -> list[torch.Tensor]:
    """Another value of the same kind; none if there is no safe one."""
    if value.dtype == torch.bool:
        return [~value]
    if value.is_floating_point():
        steps = torch.arange(1, value.numel() + 1, dtype=value.dtype).reshape(value.shape) / value.numel()
        return [value + steps]
    flipped = value.flatten().flip(0).reshape(value.shape)
    return [] if bool(_equal(flipped, value)) else [flipped]


def _visible(outputs: list[torch.Tensor], others: list[torch.Tensor] | None, share: float = _VISIBLE) -> bool:
    if others is None or len(others) != len(outputs):
        return True
    return any(_differs(output, other, share) for output, other in zip(outputs, others, strict=True))


def _differs(output: torch.Tensor, other: torch.Tensor, share: float) -> bool:
    if output.shape != other.shape or not output.is_floating_point():
        return not bool(_equal(output, other))
    scale = float(output.abs().max())
    return float((output.double() - other.double()).abs().max()) > share * scale


def check_parameters_matter(module: ModuleType, run: Run, model: torch.nn.Module, inputs: list[Any], seed: int) -> None:
    """Every parameter changes some output, if only in the last bit, once all parameters are random.

    One backward pass shows it for most; the others are changed one by one.

    Raises:
        Unfit: "ignores_parameter".
    """
    parameters = dict(model.named_parameters())
    if not parameters:
        return
    set_seed(seed + 2000)
    with torch.no_grad():
        for parameter in parameters.values():
            if parameter.is_floating_point():
                parameter.add_(torch.randn(parameter.shape).to(parameter.dtype), alpha=0.1)
    doubtful = _without_gradient(model, parameters, inputs)
    with torch.no_grad():
        outputs = run(inputs) if doubtful else []
        for name in doubtful:
            if not _changes(run, parameters[name], inputs, outputs):
                raise Unfit("ignores_parameter", name)


def _without_gradient(
    model: torch.nn.Module, parameters: dict[str, torch.nn.Parameter], inputs: list[Any]
) -> list[str]:
    wanted = {name: parameter for name, parameter in parameters.items() if parameter.requires_grad}
    try:
        outputs = [leaf for leaf in torch.utils._pytree.tree_leaves(model(*inputs)) if leaf.requires_grad]
        weights = [torch.linspace(0.5, 1.5, leaf.numel()).reshape(leaf.shape).to(leaf.dtype) for leaf in outputs]
        total = sum((leaf * weight).sum() for leaf, weight in zip(outputs, weights, strict=True))
        gradients = _autograd_grad(total, list(wanted.values()), allow_unused=True)
    except Exception:  # not differentiable, or under no_grad: then each is tried
        return list(parameters)
    moved = {name for name, gradient in zip(wanted, gradients, strict=True) if gradient is not None and gradient.any()}
    return [name for name in parameters if name not in moved]


def _changes(run: Run, parameter: torch.nn.Parameter, inputs: list[Any], outputs: list[torch.Tensor]) -> bool:
    kept = parameter.detach().clone()
    if parameter.is_floating_point():
        parameter.add_(torch.randn(parameter.shape).to(parameter.dtype))
    else:
        parameter.copy_(parameter.flatten().flip(0).reshape(parameter.shape))
    others = _run_or_none(run, inputs)
    parameter.copy_(kept)
    return others is None or not all(bool(_equal(a, b)) for a, b in zip(outputs, others, strict=True))
