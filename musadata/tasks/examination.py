"""The filters that a reference must pass. Runs inside the sandbox: `examine` is the child's side of `probe`.

The torch functions used for the checks are bound on import, before any reference has run; a reference that changes
torch itself is rejected.
"""

from collections.abc import Sequence
from itertools import chain
from types import ModuleType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from musadata.tasks.checked_reference import Unfit, construct, draw_inputs, load, rejecting
from musadata.tasks.constructor_text import end_constructor_with
from musadata.tasks.dependence import check_inputs_matter, check_parameters_matter, check_rows_matter
from musadata.tasks.evaluation_mode import is_same_call, is_training
from musadata.tasks.input_specs import infer_specs
from musadata.tasks.operator_recording import GraphRecorder, TooLarge
from musadata.tasks.outside_effects import watch_effects
from musadata.tasks.recognition import recognize
from musadata.tasks.reference_loading import random_state, set_seed

_equal, _isfinite, _unique, _eval = torch.equal, torch.isfinite, torch.unique, torch.nn.Module.eval
_DRAWS = 3
_SAMPLE = 1 << 16  # values of an output that are checked for repetition
_MOSTLY = 0.9
_VANISHING = 1e-6  # of the largest input
_REBOUND = frozenset({"manual_seed"})  # torch._dynamo wraps it when somebody imports it


def examine(source: str, seed: int, max_elements: int) -> dict[str, Any]:
    """Facts about a reference, or `{"reason": ..., "detail": ...}` with the first filter that it does not pass.

    The fact `reference` is its text, with `self.eval()` at the end of the constructor where the mode matters.
    """
    try:
        with watch_effects() as effects:
            facts = _examine(source, seed, max_elements)
        if effects:
            raise Unfit("effects_outside", effects[0])
        return facts
    except Unfit as unfit:
        return {"reason": unfit.reason, "detail": unfit.detail}
    except TooLarge as error:
        return {"reason": "too_large", "detail": str(error)}


def _examine(source: str, seed: int, max_elements: int) -> dict[str, Any]:
    torch_before = _snapshot_torch()
    module, source = _settle_mode(load(source), source, seed, max_elements)
    model, twin = construct(module, seed), construct(module, seed)
    _check_constructions(model, twin)
    draws = [draw_inputs(module, seed + 1 + index) for index in range(_DRAWS)]
    specs = infer_specs(model, draws)
    _check_sizes(model, draws[0], max_elements)
    with torch.no_grad():
        recorder, outputs = run_recorded(model, draws[0], max_elements)
        _check_repeats(model, twin, draws[0], outputs, seed)
        results = [outputs, *(run(model, draw) for draw in draws[1:])]
        _check_values(results, draws)
        check_inputs_matter(lambda inputs: run(model, inputs), specs, draws, results)
        check_rows_matter(lambda inputs: run(model, inputs), draws, outputs)
    check_parameters_matter(module, lambda inputs: run(model, inputs), model, draws[0], seed)
    _check_untouched(torch_before)
    if not recorder.operators:
        raise Unfit("no_operators")
    return {
        "reference": source,
        "operators": recorder.operators,
        "broadcasts": recorder.broadcasts,
        "recognized": [family.value for family in recognize(recorder.graph, all(one.dim() == 0 for one in outputs))],
        "graph_fingerprint": recorder.graph.fingerprint(),
        "inputs": specs,
    }


def _settle_mode(module: ModuleType, source: str, seed: int, limit: int) -> tuple[ModuleType, str]:
    """The reference and its text, which leaves evaluation mode if that makes a difference."""
    model = construct(module, seed)
    if not is_training(model):
        return module, source
    inputs = draw_inputs(module, seed + 1)
    _check_sizes(model, inputs, limit)
    with rejecting("construction_fails"):
        other = _eval(construct(module, seed))
    if is_same_call(model, other, inputs, seed, limit):
        return module, source
    text = end_constructor_with(source)
    module = load(text)
    if is_training(construct(module, seed)):
        raise Unfit("training_mode", "the constructor cannot be made to leave evaluation mode")
    return module, text


def run(model: torch.nn.Module, inputs: Sequence[Any]) -> list[torch.Tensor]:
    """The tensors that `forward` returns, in order; the inputs are copied first.

    Raises:
        Unfit: it fails, returns something else than tensors, or changes its inputs.
    """
    copies = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
    with rejecting("does_not_run"):
        result = model(*copies)
    for copy, value in zip(copies, inputs, strict=True):
        if isinstance(value, torch.Tensor) and not _same(copy, value):
            raise Unfit("changes_input")
    outputs = tree_leaves(result)
    if not outputs or not all(isinstance(output, torch.Tensor) for output in outputs):
        raise Unfit("not_a_tensor", ", ".join(sorted({type(output).__name__ for output in outputs})))
    for output in outputs:
        _check_output(output, copies)
    return [output.detach() for output in outputs]


def _check_output(output: torch.Tensor, inputs: Sequence[Any]) -> None:
    if output.layout != torch.strided or output.is_quantized or output.is_complex():
        raise Unfit("unsupported_output", str(output.dtype))
    if output.numel() == 0:
        raise Unfit("empty_output")
    memory = output.untyped_storage().data_ptr()
    for value in inputs:
        if isinstance(value, torch.Tensor) and value.untyped_storage().data_ptr() == memory:
            raise Unfit("unchanged_input", "an output is a view of an input")


def run_recorded(model: torch.nn.Module, inputs: Sequence[Any], limit: int) -> tuple[GraphRecorder, list[torch.Tensor]]:
    """One run in which operators are recorded; inputs are copied here so that the recorder knows them."""
    copies = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
    tensors = [value for value in copies if isinstance(value, torch.Tensor)]
    recorder = GraphRecorder(tensors, chain(model.parameters(), model.buffers()), limit)
    with rejecting("does_not_run"), recorder:
        result = model(*copies)
    recorder.finish(result)
    return recorder, run(model, inputs)


def _check_sizes(model: torch.nn.Module, inputs: Sequence[Any], limit: int) -> None:
    for tensor in chain(model.parameters(), model.buffers(), inputs):
        if isinstance(tensor, torch.Tensor) and tensor.numel() > limit:
            raise Unfit("too_large", f"a tensor of shape {tuple(tensor.shape)}")


def _check_constructions(model: torch.nn.Module, twin: torch.nn.Module) -> None:
    state, twin_state = model.state_dict(), twin.state_dict()
    if list(state) != list(twin_state) or not _all_same(state.values(), twin_state.values()):
        raise Unfit("nondeterministic", "two constructions from one seed differ")


def _check_repeats(
    model: torch.nn.Module, twin: torch.nn.Module, inputs: Sequence[Any], outputs: list[torch.Tensor], seed: int
) -> None:
    """The same state and inputs give the same bits: again, under another global seed, and in a second construction."""
    fresh = twin.state_dict()
    set_seed(seed + 1000)
    drawn = random_state()
    again = run(model, inputs)
    if not _all_same(fresh.values(), model.state_dict().values()):
        raise Unfit("keeps_state", "forward changes parameters or buffers")
    if not _all_same(outputs, again):
        raise Unfit("nondeterministic", "two calls differ")
    if drawn != random_state():  # with weights that hide it, such as a scale of zero
        raise Unfit("nondeterministic", "forward draws random numbers")
    if not _all_same(outputs, run(twin, inputs)):
        raise Unfit("nondeterministic", "two constructions give different outputs")


def _check_values(results: list[list[torch.Tensor]], draws: list[list[Any]]) -> None:
    if len({len(outputs) for outputs in results}) > 1:
        raise Unfit("outputs_vary", "the number of outputs depends on the values of the inputs")
    for outputs, inputs in zip(results, draws, strict=True):
        for output in outputs:
            if output.is_floating_point() and not bool(_isfinite(output).all()):
                raise Unfit("not_finite")
            _check_variety(output)
            _check_scale(output, inputs)
            if any(_is_copy(output, value) for value in inputs):
                raise Unfit("unchanged_input")


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


def _same(left: Any, right: Any) -> bool:
    if not (isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor)):
        return bool(left == right)
    if left.shape != right.shape or left.dtype != right.dtype or left.stride() != right.stride():
        return False
    if bool(_equal(left, right)):
        return True
    return left.is_floating_point() and bool(_equal(left.nan_to_num(), right.nan_to_num()))


def _all_same(left: Any, right: Any) -> bool:
    first, second = list(left), list(right)
    return len(first) == len(second) and all(_same(a, b) for a, b in zip(first, second, strict=True))


def _snapshot_torch() -> list[tuple[Any, dict[str, Any]]]:
    import torch.nn.functional

    places: list[Any] = [torch, torch.nn, torch.nn.functional, torch.Tensor, torch.nn.Module, torch.autograd]
    return [(place, dict(vars(place))) for place in places]


def _check_untouched(before: list[tuple[ModuleType | type, dict[str, Any]]]) -> None:
    """Reject a reference that rebinds names of torch."""
    for place, members in before:
        now = vars(place)
        if any(now.get(name) is not value for name, value in members.items() if name not in _REBOUND):
            raise Unfit("tampers_with_torch", place.__name__)
