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
from musadata.tasks.output_checks import check_output, check_values, choose_outputs
from musadata.tasks.outside_effects import watch_effects
from musadata.tasks.recognition import recognize
from musadata.tasks.reference_loading import random_state, set_seed

_equal, _eval = torch.equal, torch.nn.Module.eval
_DRAWS = 3
_REBOUND = frozenset({"manual_seed"})  # torch._dynamo wraps it when somebody imports it


def examine(source: str, seed: int, max_elements: int, name: str = "") -> dict[str, Any]:
    """Facts about a reference, or `{"reason": ..., "detail": ...}` with the first filter that it does not pass.

    The fact `reference` is its text, with `self.eval()` at the end of the constructor where the mode matters, and
    without outputs that cannot be checked, if others can. `name`: of its module then; "" leaves outputs as they are.
    """
    try:
        with watch_effects() as effects:
            facts = _examine(source, seed, max_elements, name)
        if effects:
            raise Unfit("effects_outside", effects[0])
        return facts
    except Unfit as unfit:
        return {"reason": unfit.reason, "detail": unfit.detail}
    except TooLarge as error:
        return {"reason": "too_large", "detail": str(error)}


def _examine(source: str, seed: int, max_elements: int, name: str) -> dict[str, Any]:
    torch_before = _snapshot_torch()
    module, source = _settle_mode(load(source), source, seed, max_elements)
    draws = [draw_inputs(module, seed + 1 + index) for index in range(_DRAWS)]
    if name:
        module, source = choose_outputs(module, source, construct(module, seed), draws, name)
    model, twin = construct(module, seed), construct(module, seed)
    _check_constructions(model, twin)
    specs = infer_specs(model, draws)
    _check_sizes(model, draws[0], max_elements)
    with torch.no_grad():
        recorder, outputs = run_recorded(model, draws[0], max_elements)
        _check_repeats(model, twin, draws[0], outputs, seed)
        results = [outputs, *(run(model, draw) for draw in draws[1:])]
        if len({len(outputs) for outputs in results}) > 1:
            raise Unfit("outputs_vary", "the number of outputs depends on the values of the inputs")
        for output in zip(*results, strict=True):
            check_values(output, draws)
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
    if not outputs:
        raise Unfit("not_a_tensor")
    for output in outputs:
        check_output(output, copies)
    return [output.detach() for output in outputs]


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
