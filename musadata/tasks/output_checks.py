"""What each output of a reference must be; a reference returns those that are, if it has others as well.

The torch functions used for the checks are bound on import, before any reference has run.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from musadata.mining.reading.results import parts
from musadata.tasks.checked_reference import Unfit, load
from musadata.tasks.constructor_text import return_parts
from musadata.tasks.dependence import check_varies

_equal, _isfinite, _unique = torch.equal, torch.isfinite, torch.unique
_SAMPLE = 1 << 16  # values of an output that are checked for repetition
_MOSTLY = 0.9
_VANISHING = 1e-6  # of the largest input


def choose_outputs(
    module: ModuleType, source: str, model: torch.nn.Module, draws: Sequence[Sequence[Any]], name: str
) -> tuple[ModuleType, str]:
    """The reference and its text, which returns only those outputs that can be checked if there are such and others.

    None, numbers, masks that no input changes, inputs that are handed back and objects around tensors are no reason to
    lose what else a module computes. `name`: what the class that returns all is called then.
    """
    try:
        with torch.no_grad():
            calls = [_call(model, inputs) for inputs in draws]
    except Exception:  # whatever the reference raises: it fails the checks that follow
        return module, source
    places = [place for place, _ in parts(calls[0][1])]
    results = [dict(parts(result)) for _, result in calls]
    kept = [place for place in places if _is_checkable(place, [given for given, _ in calls], results, draws)]
    if not kept or len(kept) == len(tree_leaves(calls[0][1])):
        return module, source
    text = return_parts(source, kept, name)
    return load(text), text


def _call(model: torch.nn.Module, inputs: Sequence[Any]) -> tuple[list[Any], Any]:
    given = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
    return given, model(*given)


def _is_checkable(
    place: str, given: list[list[Any]], results: list[dict[str, Any]], draws: Sequence[Sequence[Any]]
) -> bool:
    outputs = [result.get(place) for result in results]
    try:
        for output, inputs in zip(outputs, given, strict=True):
            check_output(output, inputs)
        check_values(outputs, draws)
    except Unfit:
        return False
    return True


def check_output(output: Any, inputs: Sequence[Any]) -> None:
    """One result of one call.

    Raises:
        Unfit: it is no tensor that candidates can return, is empty, or is a view of an input.
    """
    if not isinstance(output, torch.Tensor):
        raise Unfit("not_a_tensor", type(output).__name__)
    if output.layout != torch.strided or output.is_quantized or output.is_complex():
        raise Unfit("unsupported_output", str(output.dtype))
    if output.numel() == 0:
        raise Unfit("empty_output")
    memory = output.untyped_storage().data_ptr()
    for value in inputs:
        if isinstance(value, torch.Tensor) and value.untyped_storage().data_ptr() == memory:
            raise Unfit("unchanged_input", "an output is a view of an input")


def check_values(outputs: Sequence[Any], draws: Sequence[Sequence[Any]]) -> None:
    """One result of several calls.

    Raises:
        Unfit: it is not finite, hardly varies in itself or with the inputs, vanishes, or is an input.
    """
    for output, inputs in zip(outputs, draws, strict=True):
        if output.is_floating_point() and not bool(_isfinite(output).all()):
            raise Unfit("not_finite")
        _check_variety(output)
        _check_scale(output, inputs)
        if any(_is_copy(output, value) for value in inputs):
            raise Unfit("unchanged_input")
    check_varies(outputs)


def _check_variety(output: torch.Tensor) -> None:
    sample = output.flatten()[:: max(1, output.numel() // _SAMPLE)]
    if not bool(sample.any()):
        raise Unfit("all_zero")
    if output.numel() == 1:
        return
    counts = _unique(sample, return_counts=True)[1]
    if len(counts) == 1:
        raise Unfit("constant")
    if len(sample) >= 16 and int(counts.max()) > _MOSTLY * len(sample):
        raise Unfit("mostly_one_value")


def _check_scale(output: torch.Tensor, inputs: Sequence[Any]) -> None:
    """Reject what vanishes, as with a scale that is initialized to almost zero: any small answer would pass."""
    if output.is_floating_point():
        sizes = [float(value.abs().max()) for value in inputs if _is_floating(value)]
        if float(output.abs().max()) <= _VANISHING * max(sizes, default=1.0):
            raise Unfit("vanishing_output")


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel() > 0


def _is_copy(output: torch.Tensor, value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or value.numel() != output.numel() or value.dtype != output.dtype:
        return False
    return bool(_equal(output.flatten(), value.flatten()))
