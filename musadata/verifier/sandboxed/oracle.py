"""What a reference answers and what would be the truth, worked out inside the sandbox; no candidate is ever there."""

import contextlib
import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from musadata.records import InputSpec
from musadata.tasks.reference_loading import load_reference
from musadata.tracing.inputs import draw
from musadata.verifier.protocol import variants
from musadata.verifier.protocol.message_encoding import decode, encode
from musadata.verifier.protocol.messages import Literal, ReferenceFacts, ReferenceRequest, ReferenceSet
from musadata.verifier.protocol.pytree import flatten
from musadata.verifier.protocol.tensors import pack
from musadata.verifier.protocol.tolerance import measure_tolerance
from musadata.verifier.protocol.variants import InputSet
from musadata.verifier.sandboxed import plain_values
from musadata.verifier.sandboxed.conditioning import measure_conditioning
from musadata.verifier.sandboxed.dispatch_watch import DispatchWatch
from musadata.verifier.sandboxed.model_state import randomise, tensors_of
from musadata.verifier.sandboxed.nonfinite import relax

_MOST_NONFINITE = 0.5
_VANISHING = 1e-12  # of the usual size: a variant that drives a result to nothing leaves only rounding to compare
_ROUNDINGS = 64  # by which two results may differ that are the same but for the order of additions
_UNSTABLE = ("topk", "sort", "argsort", "kthvalue", "median", "nanmedian", "mode")


Shapes = tuple[tuple[InputSpec, ...], ...]


def run_reference(message: object) -> dict[str, object]:
    """The child's side of `ReferenceRunner.expect`: `ReferenceFacts`, and tensors that are left as files."""
    request = decode(message, ReferenceRequest)
    assert request is not None
    torch._C._set_deterministic_algorithms(True, warn_only=True)  # its public name imports all of torch.compile, 8 s
    specs = request.shapes
    reference = load_reference(request.reference)
    arguments = reference.get_init_inputs()
    model = _stable_model(reference, arguments, specs, request.sets, request.seed)
    _check_repeats(model, _draw(specs, request.sets[0], variants.PLAIN))
    _write("state", pack(tensors_of(model)))
    first: dict[int, list[torch.Tensor]] = {}
    sets: list[ReferenceSet] = []
    for plan in request.sets:
        if plan.variant in (variants.LARGE, variants.TIES, variants.BELOW):
            sets += _run_extreme(len(sets), plan, specs, model, first)
        elif plan.variant != variants.INFINITE:
            sets.append(_run_set(len(sets), plan, specs, model, first))
        elif _gives_infinities(plan, specs, model):
            sets.append(_run_set(len(sets), plan, specs, model, {}))
    names = tuple(name for name, _ in model.named_parameters(remove_duplicate=False))
    return encode(ReferenceFacts(plain_values.encode(list(arguments)), names, tuple(sets)))


def _stable_model(
    reference: Any, arguments: Any, specs: Shapes, plans: Sequence[InputSet], seed: int
) -> torch.nn.Module:
    """The model with as much of its state randomised as it bears: some buffers hold indices or constants."""
    failure: Exception | None = None
    for parameters, buffers in ((True, True), (True, False), (False, False)):
        torch.manual_seed(seed)
        model = reference.Model(*arguments).eval()
        if parameters:
            randomise(model, seed, buffers)
        try:
            leaves = flatten(_call(model, _draw(specs, plans[0], variants.PLAIN)))[1]
        except Exception as error:
            failure = failure or error
            continue
        if all(bool(torch.isfinite(leaf).any()) for leaf in leaves if leaf.dtype.is_floating_point and leaf.numel()):
            return model
    raise failure or ValueError("the reference gives no finite result")


def _check_repeats(model: torch.nn.Module, values: list[Any]) -> None:
    """One that draws random numbers has no right answer, and a tolerance as wide as its draws lets anything pass."""
    pairs = zip(*(flatten(_call(model, values))[1] for _ in range(2)), strict=True)
    if not all(_is_same(first, again) for first, again in pairs):
        raise ValueError("two calls with the same inputs give different results, so none is right; make it repeatable")


def _is_same(first: torch.Tensor, again: torch.Tensor) -> bool:
    """Equal but for rounding: a matrix product may add in another order where its result lies elsewhere in memory."""
    if first.shape != again.shape:
        return False
    same = (first == again) | ((first != first) & (again != again))
    if first.is_floating_point() or first.is_complex():
        largest = first.abs().nan_to_num(0, 0, 0).amax() if first.numel() else 0
        same |= (first - again).abs() <= _ROUNDINGS * torch.finfo(first.dtype).eps * largest
    return bool(same.all())


def _draw(specs: Shapes, plan: InputSet, variant: str) -> list[Any]:
    return variants.apply_variant(specs[plan.shape], draw(specs[plan.shape], plan.seed), variant)


def _call(model: torch.nn.Module, values: list[Any]) -> Any:
    return _call_on(model, _copies(values))


def _call_on(model: torch.nn.Module, given: list[Any]) -> Any:
    with torch.no_grad():
        return model(*given)


def _copies(values: list[Any]) -> list[Any]:
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in values]


def _run_set(
    index: int,
    plan: InputSet,
    specs: Shapes,
    model: torch.nn.Module,
    first: dict[int, list[torch.Tensor]],
) -> ReferenceSet:
    variant, values, given, result = _run_variant(plan, specs, model, first.get(plan.shape, []))
    structure, leaves = flatten(result)
    oracle = _oracle(model, values, leaves)
    shaken, conditions = measure_conditioning(
        lambda moved: flatten(_call(model, moved))[1],
        lambda moved: _oracle(model, moved, leaves),
        values,
        oracle,
        variant in (variants.TIES, variants.NONZERO_TIES),
    )
    others = first.setdefault(plan.shape, oracle)
    tolerances = []
    for leaf, truth, moved, other in zip(leaves, oracle, shaken, others, strict=True):
        other_truth = other if others is not oracle and other.shape == truth.shape else None
        tolerances.append(measure_tolerance(leaf, truth, moved, other_truth))
    tensors = {str(i): value for i, value in enumerate(values) if isinstance(value, torch.Tensor)}
    if variant == variants.INFINITE:
        plain = _draw(specs, plan, variants.PLAIN)
        relax(lambda given: flatten(_call(model, given))[1], values, plain, leaves, oracle)
    _write(f"inputs{index}", pack(tensors))
    _write(f"expected{index}", pack({str(i): leaf for i, leaf in enumerate(leaves)}))
    _write(f"oracle{index}", pack({str(i): leaf for i, leaf in enumerate(oracle)}))
    _write(f"condition{index}", pack({str(i): condition for i, condition in enumerate(conditions)}))
    return ReferenceSet(
        plan=replace(plan, variant=variant),
        literals=tuple(
            None if isinstance(value, torch.Tensor) else Literal(plain_values.encode(value)) for value in values
        ),
        structure=structure,
        handed_on=tuple(_handed_on(given, values, leaves)),
        tolerances=tuple(tolerances),
    )


def _run_extreme(
    index: int,
    plan: InputSet,
    specs: Shapes,
    model: torch.nn.Module,
    first: dict[int, list[torch.Tensor]],
) -> list[ReferenceSet]:
    """The set with such inputs, if the reference stays finite there and the tolerance need not be tightened."""
    for variant in _alternatives(plan, specs, model):
        moved = replace(plan, variant=variant)
        if _stays_finite(moved, specs, model):
            fact = _run_set(index, moved, specs, model, first)
            tells = fact.plan.variant == variant  # else nothing is left there
            if tells and not any(tolerance.tight for tolerance in fact.tolerances):
                return [fact]
    return []


def _alternatives(plan: InputSet, specs: Shapes, model: torch.nn.Module) -> tuple[str, ...]:
    """What a planned variant may become, the best first."""
    if plan.variant in (variants.LARGE, variants.TIES) and _breaks_ties_at_will(plan, specs, model):
        return ()  # of large values, too, many softmaxes are 0
    if plan.variant == variants.LARGE:
        return (variants.FAR, variants.LARGE) if _follows_shifts(plan, specs, model) else (variants.LARGE,)
    if plan.variant == variants.TIES:
        return (variants.TIES, variants.NONZERO_TIES)
    return (plan.variant,)


def _breaks_ties_at_will(plan: InputSet, specs: Shapes, model: torch.nn.Module) -> bool:
    """Whether it sorts or selects by value in a way that leaves open which of several equal values comes first."""
    with contextlib.suppress(Exception), DispatchWatch() as watch:
        _call(model, _draw(specs, plan, variants.PLAIN))
    return any(name.split(".")[1] in _UNSTABLE for name in watch.operators)


def _follows_shifts(plan: InputSet, specs: Shapes, model: torch.nn.Module) -> bool:
    """Whether adding a constant to all float inputs changes nothing, as for a softmax, or adds it to all results, as
    for a maximum."""
    try:
        plain, moved = (
            _oracle(model, values, flatten(_call(model, values))[1])
            for values in (_draw(specs, plan, variants.PLAIN), _draw(specs, plan, variants.SHIFTED))
        )
    except Exception:
        return False
    floats = [(a, b) for a, b in zip(plain, moved, strict=True) if a.dtype.is_floating_point and a.numel()]
    return bool(floats) and all(
        a.shape == b.shape and any(bool(((b - a - shift).abs() <= 1e-6 * a.abs().max()).all()) for shift in (0.0, 1.0))
        for a, b in floats
    )


def _stays_finite(plan: InputSet, specs: Shapes, model: torch.nn.Module) -> bool:
    try:
        leaves = flatten(_call(model, _draw(specs, plan, plan.variant)))[1]
    except Exception:
        return False
    return all(bool(torch.isfinite(leaf).all()) for leaf in leaves if leaf.dtype.is_floating_point)


def _gives_infinities(plan: InputSet, specs: Shapes, model: torch.nn.Module) -> bool:
    try:
        leaves = flatten(_call(model, _draw(specs, plan, variants.INFINITE)))[1]
    except Exception:
        return False
    return any(leaf.dtype.is_floating_point and not bool(torch.isfinite(leaf).all()) for leaf in leaves)


def _run_variant(
    plan: InputSet, specs: Shapes, model: torch.nn.Module, usual: list[torch.Tensor]
) -> tuple[str, list[Any], list[Any], Any]:
    """The planned variant, or plain values where the reference fails on it, is hardly finite there, or next to nothing
    beside its `usual` results; the values, the copies that the reference was given, and its result."""
    for variant in dict.fromkeys((plan.variant, variants.PLAIN)):
        values = _draw(specs, plan, variant)
        given = _copies(values)
        try:
            result = _call_on(model, given)
        except Exception:
            if variant == variants.PLAIN:
                raise
            continue
        floats = [leaf for leaf in flatten(result)[1] if leaf.dtype.is_floating_point and leaf.numel()]
        bad = [float((~torch.isfinite(leaf)).double().mean()) for leaf in floats]
        if variant in (variants.PLAIN, variants.INFINITE) or (
            max(bad, default=0.0) <= _MOST_NONFINITE and not _vanishes(floats, usual)
        ):
            return variant, values, given, result
    raise AssertionError("unreachable")


def _handed_on(given: list[Any], values: list[Any], leaves: list[torch.Tensor]) -> list[int]:
    """Which results lie in the memory of an input that the reference has left as it was."""
    kept = [
        tensor.untyped_storage().data_ptr()
        for tensor, value in zip(given, values, strict=True)
        if isinstance(tensor, torch.Tensor) and tensor.numel() and tensor.equal(value)
    ]
    return [index for index, leaf in enumerate(leaves) if leaf.numel() and leaf.untyped_storage().data_ptr() in kept]


def _vanishes(floats: list[torch.Tensor], usual: list[torch.Tensor]) -> bool:
    """Whether all float results are next to nothing beside the usual ones."""
    sizes, others = ([_largest(leaf) for leaf in leaves] for leaves in (floats, usual))
    return bool(sizes and others) and max(sizes) < _VANISHING * max(others)


def _largest(leaf: torch.Tensor) -> float:
    return float(leaf.nan_to_num(0.0, 0.0, 0.0).abs().max()) if leaf.numel() else 0.0


def _oracle(model: torch.nn.Module, values: list[Any], leaves: list[torch.Tensor]) -> list[torch.Tensor]:
    """The result in double precision; the reference's own where the model does not run in it."""
    wide = [
        value.double() if isinstance(value, torch.Tensor) and value.dtype.is_floating_point else value
        for value in values
    ]
    try:
        found = flatten(_call(copy.deepcopy(model).double(), wide))[1]
    except Exception:
        found = []
    fits = len(found) == len(leaves) and all(a.shape == b.shape for a, b in zip(found, leaves, strict=True))
    return [leaf.detach().to(_widest(leaf)) for leaf in (found if fits else leaves)]


def _widest(leaf: torch.Tensor) -> torch.dtype:
    if leaf.dtype.is_complex:
        return torch.complex128
    return torch.float64 if leaf.dtype.is_floating_point else torch.int64


def _write(name: str, data: bytes) -> None:
    with open(name, "wb") as file:  # noqa: PTH123
        file.write(data)
