"""Inside the sandbox: the expected results of a reference, their oracle in double precision, and their tolerances.

No candidate ever runs in this process.
"""

import contextlib
import copy
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from musadata.dispatch import without_dynamo
from musadata.records import InputSpec
from musadata.tasks.evaluation_mode import is_training
from musadata.tasks.reference_loading import load_reference
from musadata.tracing.inputs import draw
from musadata.verifier.protocol import variants
from musadata.verifier.protocol.message_encoding import decode, encode
from musadata.verifier.protocol.messages import Literal, ReferenceFacts, ReferenceRequest, ReferenceSet
from musadata.verifier.protocol.pytree import flatten
from musadata.verifier.protocol.tensors import pack
from musadata.verifier.protocol.tolerance import (
    CONDITION_FACTOR,
    Tolerance,
    measure_tolerance,
    measure_wide_tolerance,
)
from musadata.verifier.protocol.variants import InputSet
from musadata.verifier.sandboxed import plain_values
from musadata.verifier.sandboxed.conditioning import measure_conditioning, shake
from musadata.verifier.sandboxed.dispatch_watch import DispatchWatch, RangeWatch
from musadata.verifier.sandboxed.domain import find_domain
from musadata.verifier.sandboxed.double_precision import Tables, call_in_double, find_tables, widest
from musadata.verifier.sandboxed.draws import apply_variant
from musadata.verifier.sandboxed.model_state import construct_seeded, find_lone, randomise, tensors_of, turn
from musadata.verifier.sandboxed.nonfinite import relax
from musadata.verifier.sandboxed.other_arguments import vary_arguments, with_defaults
from musadata.verifier.sandboxed.rounding_noise import measure_typical
from musadata.verifier.sandboxed.tied_choices import UNSTABLE, depends_on_choice

_USUAL = frozenset((variants.PLAIN, variants.SCALED, variants.SMALL, variants.OFFSET, variants.DERIVED))
# FLOPs of all input sets: the emulator does some 10^8 a second. Beyond, there are only those that tell most of a
# program: one of each set of shapes, one hardly changed, one not finite.
_MOST_WORK = 1 << 31
_ALWAYS = (variants.PLAIN, variants.DERIVED, variants.ELEMENT, variants.INFINITE)
_OUTLYING = (1e3,)  # outliers: an honest flash attention loses rows for larger ones
_PULLED = 1e-9  # of the output's size: what moves it by more is a choice among equals
_AGREES = 1e-3  # so near is a reference to the oracle on values that nobody declared
_MOST_NONFINITE = 0.5
_REPEATED = 1_048_573
_VANISHING = 1e-12  # relative to the usual size: below it only rounding is left to compare
_ROUNDINGS = 64  # by which two results may differ if only the order of additions differs
_STATES = ((True, True), (True, False), (False, False))  # whether parameters, and buffers, are randomised
_CHOOSING = UNSTABLE | {"argmax", "argmin", "max", "min", "amax", "amin", "aminmax", "cummax", "cummin", "unique_dim"}


def run_without_devices(message: object) -> dict[str, object]:
    """`run_reference` in a process of its own.

    Nothing there uses a device, but autograd starts a thread and a context on each that it sees: of two references that
    differ in the order of their gradients, one was ended by SIGABRT beside a busy device.
    """
    os.environ.update(CUDA_VISIBLE_DEVICES="", MUSA_VISIBLE_DEVICES="")
    return run_reference(message)


def run_reference(message: object) -> dict[str, object]:
    """The child's side of `ReferenceRunner.expect`: returns `ReferenceFacts` and leaves tensors as files."""
    request = decode(message, ReferenceRequest)
    assert request is not None
    torch._C._set_deterministic_algorithms(True, warn_only=True)  # its public name imports all of torch.compile, 8 s
    source = load_reference(request.reference)
    arguments = source.get_init_inputs()
    reference = _build_stable(source, arguments, request)
    if not request.lean:
        _check_repeats(reference, reference.draw(request.sets[0], variants.PLAIN))
    _write("state", tensors_of(reference.model))
    sets: list[ReferenceSet] = []
    work = 0
    for plan in request.sets:
        if work > _MOST_WORK and plan.variant not in _ALWAYS:
            continue
        work += 0 if request.lean else reference.work(plan.shape)
        try:
            sets += [_run_lean(len(sets), plan, reference)] if request.lean else _run_plan(len(sets), plan, reference)
        except Exception:  # what a reference fails on proves nothing, but it must run on what it declares
            if plan == request.sets[0]:
                raise
    names = tuple(name for name, _ in reference.model.named_parameters(remove_duplicate=False))
    return encode(ReferenceFacts(plain_values.encode(list(arguments)), names, tuple(sets), reference.initial))


def encode_arguments(reference: str) -> Any:
    """The arguments of a reference's constructor, which is not called."""
    return plain_values.encode(list(load_reference(reference).get_init_inputs()))


@dataclass
class _Reference:
    """A model and the sets of shapes that it is called with.

    Attributes:
        initial: digests of its parameters and buffers as they were constructed.
        tables: see `find_tables`.
        remake: another such model, and what `find_lone` finds in it.
        is_randomised: whether its parameters are other ones than were constructed.
        arguments: of its constructor.
        rebuild: another model, constructed with other ones.
        text: of the reference.
        domains: by set of shapes, what `find_domain` finds.
        usual: by set of shapes, the oracle's results for the first input set that was run.
        updated: buffers that count as results, see `PlannedSet`.
        works: by set of shapes, see `work`.
    """

    specs: tuple[tuple[InputSpec, ...], ...]
    model: torch.nn.Module
    initial: dict[str, str]
    tables: Tables
    remake: Callable[[], tuple[torch.nn.Module, list[str]]]
    is_randomised: bool
    arguments: list[Any]
    rebuild: Callable[[list[Any]], torch.nn.Module]
    text: str
    domains: dict[int, list[InputSpec]] = field(default_factory=dict)
    usual: dict[int, list[torch.Tensor]] = field(default_factory=dict)
    updated: tuple[str, ...] = ()
    works: dict[int, int] = field(default_factory=dict)

    def call(self, given: list[Any]) -> Any:
        """The result for these values, which it may change."""
        if not self.updated:
            return _call(self.model, given)
        model = copy.deepcopy(self.model)
        return _call(model, given), [tensors_of(model)[name] for name in self.updated]

    def draw(self, plan: InputSet, variant: str) -> list[Any]:
        """The input set's values, changed as the variant says."""
        specs: Sequence[InputSpec] = self.specs[plan.shape]
        if variant.endswith(variants.WIDE):
            wide = self.domain(plan.shape)
            specs = [
                own if variant != variants.WIDE and own.kind != "uniform" else one
                for own, one in zip(specs, wide, strict=True)
            ]
        name = variant.removesuffix(variants.WIDE).rstrip() or variant
        return apply_variant(specs, _draw_repeating(specs, plan.seed), name, plan.seed)

    def domain(self, shape: int) -> list[InputSpec]:
        """What it accepts in place of the specs of a set of shapes."""
        if shape not in self.domains:
            self.domains[shape] = find_domain(self.leaves, self.specs[shape], self.model, self.text, shape)
        return self.domains[shape]

    def work(self, shape: int) -> int:
        """FLOPs of the products of one call."""
        if shape not in self.works:
            with contextlib.suppress(Exception), without_dynamo(), FlopCounterMode(display=False) as counter:
                self.leaves(draw(self.specs[shape], 0))
            self.works[shape] = counter.get_total_flops()
        return self.works[shape]

    @cached_property
    def operators(self) -> frozenset[str]:
        """Names such as "topk" of what a call dispatches."""
        with contextlib.suppress(Exception), DispatchWatch() as watch:
            self.leaves(draw(self.specs[0], 0))
        return frozenset(name.split(".")[1] for name in watch.operators)

    def leaves(self, values: list[Any]) -> list[torch.Tensor]:
        """The tensors of the result for copies of these values."""
        return flatten(self.call(_copies(values)))[1]

    def floats(self, plan: InputSet, variant: str) -> list[torch.Tensor] | None:
        """The float results for a variant; None if the reference fails on it."""
        try:
            return [leaf for leaf in self.leaves(self.draw(plan, variant)) if leaf.dtype.is_floating_point]
        except Exception:
            return None

    def oracle(self, values: list[Any], leaves: list[torch.Tensor]) -> list[torch.Tensor]:
        """The result in double precision; the reference's own `leaves` if the model does not run in it."""
        try:
            found = flatten(call_in_double(self.model, _copies(values), self.tables, self.updated))[1]
        except Exception:
            found = []
        fits = len(found) == len(leaves) and all(a.shape == b.shape for a, b in zip(found, leaves, strict=True))
        return [leaf.detach().to(widest(leaf)) for leaf in (found if fits else leaves)]


def _build_stable(source: Any, arguments: Any, request: ReferenceRequest) -> _Reference:
    """The model with as much of its state randomised as gives finite results: some buffers hold indices or
    constants."""
    failure: Exception | None = None

    def construct(given: Any = arguments) -> tuple[torch.nn.Module, dict[str, str]]:
        return construct_seeded(lambda: source.Model(*copy.deepcopy(given)), request.seed)

    def rebuild(changed: tuple[bool, bool], given: list[Any]) -> torch.nn.Module:
        return _change_state(lambda: construct(given)[0], request.seed, changed)[0]

    for changed in _STATES[2 * request.as_constructed :]:
        model, initial = construct()
        tables = find_tables(model, lambda: construct()[0])
        reference = _Reference(
            request.shapes,
            model,
            initial,
            tables,
            partial(_change_state, lambda: construct()[0], request.seed, changed),
            changed[0],
            [] if request.as_constructed else with_defaults(source.Model, arguments),
            partial(rebuild, changed),
            request.reference,
        )
        _change_state(lambda: model, request.seed, changed)  # noqa: B023 (called at once)
        try:
            leaves = reference.leaves(reference.draw(request.sets[0], variants.PLAIN))
        except Exception as error:
            failure = failure or error
            continue
        if all(bool(torch.isfinite(leaf).any()) for leaf in leaves if leaf.dtype.is_floating_point and leaf.numel()):
            return reference
    raise failure or ValueError("the reference gives no finite result")


def _change_state(
    make: Callable[[], torch.nn.Module], seed: int, changed: tuple[bool, bool]
) -> tuple[torch.nn.Module, list[str]]:
    """A model with its parameters and buffers randomised, as `changed` says, and what is lone in it."""
    model, (parameters, buffers) = make(), changed
    lone = find_lone(model) if parameters else []
    if parameters:
        randomise(model, seed, buffers)
    return model, lone


def _check_repeats(reference: _Reference, values: list[Any]) -> None:
    """Refuse references that draw random numbers: no result is right, and the tolerance would let anything pass."""
    if _repeats(reference, values):
        return
    remedy = "make it repeatable"
    if is_training(reference.model):
        reference.model.eval()
        if _repeats(reference, values):
            remedy = "Model is in training mode: end its __init__ with self.eval()"
    raise ValueError(f"two calls with the same inputs give different results, so none is right; {remedy}")


def _repeats(reference: _Reference, values: list[Any]) -> bool:
    pairs = zip(*(reference.leaves(values) for _ in range(2)), strict=True)
    return all(_is_same(first, again) for first, again in pairs)


def _is_same(first: torch.Tensor, again: torch.Tensor) -> bool:
    """Equal up to rounding: a matrix product may add in another order if its result lies elsewhere in memory."""
    if first.shape != again.shape:
        return False
    same = (first == again) | ((first != first) & (again != again))
    if first.is_floating_point() or first.is_complex():
        largest = first.abs().nan_to_num(0, 0, 0).amax() if first.numel() else 0
        same |= (first - again).abs() <= _ROUNDINGS * torch.finfo(first.dtype).eps * largest
    return bool(same.all())


def _call(model: torch.nn.Module, given: list[Any]) -> Any:
    with torch.no_grad():
        return model(*given)


def _copies(values: list[Any]) -> list[Any]:
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in values]


def _run_plan(index: int, plan: InputSet, reference: _Reference) -> Iterator[ReferenceSet]:
    """The facts about a planned input set; nothing if it would prove nothing for this reference."""
    if plan.variant in variants.OWN_MODELS:
        for own, init in _with_own_models(plan, reference):
            for found in _run_extreme(index, plan, own):
                _write(f"state{index}", tensors_of(own.model))
                loaded = plan.variant == variants.RELOADED
                yield replace(found, own_state=True, init=init, updated=own.updated, loaded=loaded)
                index += 1
    elif plan.variant in _USUAL:
        yield _run_set(index, plan, reference)
    elif plan.variant != variants.INFINITE:
        yield from _run_extreme(index, plan, reference)
    elif not _is_finite(reference.floats(plan, variants.INFINITE) or []):
        yield _run_set(index, plan, replace(reference, usual={}))


def _with_own_models(plan: InputSet, reference: _Reference) -> Iterator[tuple[_Reference, Any]]:
    """The reference with each model of its own that the input set has, and the arguments that the model is constructed
    with if these are others."""
    if plan.variant == variants.UPDATED:
        called, _ = reference.remake()
        before = {name: tensor.clone() for name, tensor in tensors_of(called).items()}
        _call(called, reference.draw(plan, variants.PLAIN))
        changed = tuple(name for name, tensor in tensors_of(called).items() if not torch.equal(tensor, before[name]))
        own = replace(reference, model=reference.remake()[0], updated=changed, usual={})
        yield from [(own, None)] if changed else []
        return
    if plan.variant == variants.RELOADED:
        model, _ = reference.remake()
        if reference.is_randomised and list(model.parameters()):
            randomise(model, plan.seed, buffers=False)
            yield replace(reference, model=model, usual={}), None
        return
    if plan.variant != variants.REBUILT:
        model, lone = reference.remake()
        turn(model, lone, -1.0 if plan.variant == variants.TURNED else 1.0)
        yield from [(replace(reference, model=model), None)] if lone else []
        return
    values = reference.draw(plan, variants.PLAIN)
    plain = reference.leaves(values)

    def matters(arguments: list[Any]) -> bool:
        try:
            after = replace(reference, model=reference.rebuild(arguments)).leaves(values)
        except Exception:  # whatever the reference raises; that is the answer
            return False
        same = len(plain) == len(after) and all(map(torch.equal, plain, after))
        return not same and _is_finite([leaf for leaf in after if leaf.dtype.is_floating_point])

    for arguments in vary_arguments(reference.arguments, matters):
        model = reference.rebuild(arguments)
        tables = find_tables(model, partial(reference.rebuild, arguments))
        yield replace(reference, model=model, tables=tables), plain_values.encode(arguments)


def _run_lean(index: int, plan: InputSet, reference: _Reference) -> ReferenceSet:
    """Once in single and twice in double precision, which stays here: it shows what the results may be off by."""
    if plan.variant in variants.FOR_CHOICES and not _CHOOSING & reference.operators:
        raise ValueError("it chooses nothing")
    values = reference.draw(plan, plan.variant)
    given = _copies(values)
    structure, leaves = flatten(_call(reference.model, given))
    if plan.variant != variants.PLAIN and not _is_finite(leaves):
        raise ValueError("not finite")
    oracle, shaken = (reference.oracle(one, leaves) for one in (values, shake(values)))
    tolerances = list(map(measure_wide_tolerance, leaves, oracle, shaken))
    return _write_set(index, plan, (values, given), (structure, leaves), ([], [], tolerances))


def _draw_repeating(specs: Sequence[InputSpec], seed: int) -> list[Any]:
    """Values of which large tensors are made of copies of a part, whose length is a prime number: less work than to
    draw them all."""
    repeats = [
        spec.kind in ("normal", "uniform", "integers", "choice", "bool")
        and not (spec.literal and spec.kind != "choice")
        and math.prod(spec.shape) > _REPEATED
        for spec in specs
    ]
    drawn = draw([replace(s, shape=(_REPEATED,)) if of else s for s, of in zip(specs, repeats, strict=True)], seed)
    return [
        value.repeat(-(-math.prod(spec.shape) // _REPEATED))[: math.prod(spec.shape)].reshape(spec.shape)
        if of
        else value
        for spec, value, of in zip(specs, drawn, repeats, strict=True)
    ]


def _run_set(index: int, plan: InputSet, reference: _Reference, extreme: bool = False) -> ReferenceSet:
    """Run the reference on an input set: facts, and files with the inputs, results, oracle and conditioning.

    On an `extreme` one that tells results of some outputs apart, the others are compared as loosely as usual: results
    that are nearly constant, such as sums of a softmax, are those of other inputs as well.
    """
    variant, values, given, result = _run_variant(plan, reference)
    structure, leaves = flatten(result)
    oracle = reference.oracle(values, leaves)
    shaken, conditions = measure_conditioning(
        reference.leaves,
        lambda moved: reference.oracle(moved, leaves),
        values,
        oracle,
        variant in (variants.TIES, variants.NONZERO_TIES),
    )
    others = reference.usual.setdefault(plan.shape, oracle)
    tolerances = []
    for leaf, truth, moved, other in zip(leaves, oracle, shaken, others, strict=True):
        other_truth = other if others is not oracle and other.shape == truth.shape else None
        tolerances.append(measure_tolerance(leaf, truth, moved, other_truth))
    if variant == variants.PLAIN:
        typical = measure_typical(lambda: reference.oracle(values, leaves), leaves, oracle, plan.seed)
        tolerances = [replace(own, typical=most) for own, most in zip(tolerances, typical, strict=True)]
    if extreme and not all(tolerance.tight for tolerance in tolerances):
        loose = map(measure_wide_tolerance, leaves, oracle, shaken)
        tolerances = [wide if own.tight else own for own, wide in zip(tolerances, loose, strict=True)]
    if variant.startswith(variants.OUTLIERS):
        calm = reference.draw(plan, variants.WIDE if variant.endswith(variants.WIDE) else variants.PLAIN)
        tolerances = [
            _keep_calm(*each)
            for each in zip(
                oracle, conditions, tolerances, reference.leaves(calm), reference.oracle(calm, leaves), strict=True
            )
        ]
    if variant == variants.INFINITE:
        relax(reference.leaves, values, reference.draw(plan, variants.PLAIN), leaves, oracle)
        if reference.work(plan.shape):  # where infinities are multiplied, what becomes NaN depends on the formula
            for leaf, truth in zip(leaves, oracle, strict=True):
                truth[leaf.isfinite()] = math.nan
    made = (oracle, conditions, tolerances)
    return _write_set(index, replace(plan, variant=variant), (values, given), (structure, leaves), made)


def _keep_calm(
    truth: torch.Tensor, condition: torch.Tensor, tolerance: Tolerance, leaf: torch.Tensor, calm: torch.Tensor
) -> Tolerance:
    """The tolerance of results without outliers; where these change the result, `condition` grows, in place, to what
    `tolerance` allows with them."""
    if calm.shape != truth.shape or not leaf.dtype.is_floating_point:
        return tolerance
    own = measure_wide_tolerance(leaf, calm, None)
    moved = (truth - calm).abs() > _PULLED * calm.abs()
    condition[moved] += max(0.0, tolerance.slack - own.slack) / CONDITION_FACTOR
    return replace(tolerance, slack=min(own.slack, tolerance.slack), slices=())


def _write_set(
    index: int,
    plan: InputSet,
    inputs: tuple[list[Any], list[Any]],
    result: tuple[Any, list[torch.Tensor]],
    made: tuple[list[torch.Tensor], list[torch.Tensor], list[Tolerance]],
) -> ReferenceSet:
    """Write the files of an input set. `inputs`: the values, and the copies that the reference was given; `made`: the
    oracle and the conditions, neither for those of the results and zeros, and the tolerances."""
    (values, given), (structure, leaves), (oracle, conditions, tolerances) = inputs, result, made
    _write(f"inputs{index}", {str(i): value for i, value in enumerate(values) if isinstance(value, torch.Tensor)})
    for name, tensors in (("expected", leaves), ("oracle", oracle), ("condition", conditions)):
        _write(f"{name}{index}", {str(i): tensor for i, tensor in enumerate(tensors)})
    return ReferenceSet(
        plan=plan,
        literals=tuple(
            None if isinstance(value, torch.Tensor) else Literal(plain_values.encode(value)) for value in values
        ),
        structure=structure,
        handed_on=tuple(_handed_on(given, values, leaves)),
        tolerances=tuple(tolerances),
    )


def _run_extreme(index: int, plan: InputSet, reference: _Reference) -> list[ReferenceSet]:
    """Run a set of extreme inputs, if these differ from plain ones, the reference stays finite on them, and some
    output's tolerance need not be tightened."""
    plain = reference.draw(plan, variants.PLAIN)
    for variant in _alternatives(plan, reference):
        values = reference.draw(plan, variant)
        if plan.variant not in variants.OWN_MODELS and all(map(_equals, values, plain)):
            continue
        floats = reference.floats(plan, variant)
        if floats is None or not (_is_finite(floats) or variant in variants.PERTURBED):
            continue
        if _goes_astray(variant) and not _is_near(reference, values):
            continue
        if UNSTABLE & reference.operators and depends_on_choice(partial(reference.leaves, values)):
            continue  # large values give ties, too: many results of a softmax are 0
        fact = _run_set(index, replace(plan, variant=variant), reference, extreme=True)
        is_extreme = fact.plan.variant == variant  # not replaced by plain values
        if is_extreme and not any(tolerance.tight for tolerance in fact.tolerances):
            return [fact]
    return []


def _equals(value: Any, other: Any) -> bool:
    return torch.equal(value, other) if isinstance(value, torch.Tensor) else bool(value == other)


def _goes_astray(variant: str) -> bool:
    """Whether nobody may have thought of such values, so that the reference itself may fail on them."""
    return variant.endswith(variants.WIDE) or variant.startswith((variants.OUTLIERS, variants.HUGE))


def _is_near(reference: _Reference, values: list[Any]) -> bool:
    """Whether it gives what the oracle gives, and no integer overflows on the way."""
    with RangeWatch() as watch:
        leaves = reference.leaves(values)
    truths = reference.oracle(values, leaves)
    return not watch.overflows and all(
        bool(((leaf - truth).abs() <= _AGREES * (truth.abs() + _largest(truth))).all())
        for leaf, truth in zip(leaves, truths, strict=True)
    )


def _alternatives(plan: InputSet, reference: _Reference) -> tuple[str, ...]:
    """The variants that may stand for a planned one, the best first."""
    asked = plan.variant
    if asked in (variants.STRIPED, variants.STRIPED_ACROSS, variants.OPPOSED):
        return (asked,) if _CHOOSING & reference.operators else ()
    if asked not in variants.SMALLEST:
        return (variants.TIES, variants.NONZERO_TIES) if asked == variants.TIES else (asked,)
    found: tuple[str, ...] = (asked,)
    if asked == variants.LARGE and _follows_shifts(plan, reference):
        found = variants.FAR, asked
    if asked == variants.OUTLIERS:
        found = tuple(f"{asked}{size:g}" for size in _OUTLYING)
    if any(spec.kind == "normal" for spec in reference.specs[plan.shape]):
        return found
    is_wide = any(spec.kind == "normal" for spec in reference.domain(plan.shape))
    return tuple(f"{one} {variants.WIDE}" for one in found) if is_wide else ()


def _follows_shifts(plan: InputSet, reference: _Reference) -> bool:
    """Whether adding a constant to all float inputs changes nothing, as for a softmax, or adds it to all results, as
    for a maximum."""
    try:
        plain, moved = (
            reference.oracle(values, reference.leaves(values))
            for values in (reference.draw(plan, variants.PLAIN), reference.draw(plan, variants.SHIFTED))
        )
    except Exception:
        return False
    floats = [(a, b) for a, b in zip(plain, moved, strict=True) if a.dtype.is_floating_point and a.numel()]
    return bool(floats) and all(
        a.shape == b.shape and any(bool(((b - a - shift).abs() <= 1e-6 * a.abs().max()).all()) for shift in (0.0, 1.0))
        for a, b in floats
    )


def _is_finite(leaves: Sequence[torch.Tensor]) -> bool:
    return all(bool(torch.isfinite(leaf).all()) for leaf in leaves)


def _run_variant(plan: InputSet, reference: _Reference) -> tuple[str, list[Any], list[Any], Any]:
    """(variant, values, the copies that the reference was given, its result).

    The variant is the planned one, or plain values if the reference fails on it, or if most of its results are not
    finite or vanish compared with the usual ones.
    """
    usual = reference.usual.get(plan.shape, [])
    for variant in dict.fromkeys((plan.variant, variants.PLAIN)):
        values = reference.draw(plan, variant)
        given = _copies(values)
        try:
            result = reference.call(given)
        except Exception:
            if variant == variants.PLAIN:
                raise
            continue
        floats = [leaf for leaf in flatten(result)[1] if leaf.dtype.is_floating_point and leaf.numel()]
        bad = max((float((~torch.isfinite(leaf)).double().mean()) for leaf in floats), default=0.0)
        is_exempt = variant in (variants.PLAIN, variants.INFINITE)
        if is_exempt or (bad <= _MOST_NONFINITE and not _vanishes(floats, usual)):
            return variant, values, given, result
    raise AssertionError("unreachable")


def _handed_on(given: list[Any], values: list[Any], leaves: list[torch.Tensor]) -> list[int]:
    """Which results share the memory of an input that the reference has not changed."""
    kept = [
        tensor.untyped_storage().data_ptr()
        for tensor, value in zip(given, values, strict=True)
        if isinstance(tensor, torch.Tensor) and tensor.numel() and tensor.equal(value)
    ]
    return [index for index, leaf in enumerate(leaves) if leaf.numel() and leaf.untyped_storage().data_ptr() in kept]


def _vanishes(floats: list[torch.Tensor], usual: list[torch.Tensor]) -> bool:
    """Whether all float results are negligible compared with the usual ones."""
    sizes, others = ([_largest(leaf) for leaf in leaves] for leaves in (floats, usual))
    return bool(sizes and others) and max(sizes) < _VANISHING * max(others)


def _largest(leaf: torch.Tensor) -> float:
    return float(leaf.nan_to_num(0.0, 0.0, 0.0).abs().max()) if leaf.numel() else 0.0


def _write(name: str, tensors: dict[str, torch.Tensor]) -> None:
    Path(name).write_bytes(pack(tensors))
