"""Tracing one reference on its own and on other input shapes. Runs inside the sandbox."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch

from musadata.records import InputSpec, Trace
from musadata.rows import restore
from musadata.tasks.reference_loading import load_reference
from musadata.tasks.sizing.sizes import Specs
from musadata.tracing.inputs import draw
from musadata.tracing.shape_sets import (
    elements,
    has_uneven_size,
    lengthen,
    multiply,
    shorten,
    vary_again,
    vary_shapes,
    vary_what_grows,
)
from musadata.tracing.trace_recording import Untraceable, check_values_matter, record, record_without_memory

# Elements of all tensors of a trace that are allowed however small the task's own trace is.
_ALWAYS_SMALL = 1 << 16
_MOST_LONG_FLOPS = 1 << 21
_MOST_OF_MANY = 1 << 18  # elements of all tensors of a trace with many
_FEW_RESULTS = 64  # with more, a block for each result keeps a device busy, so nobody splits their reductions


def trace_reference(
    source: str, inputs: list[dict[str, Any]], seed: int, shape_sets: int, measure: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """Facts of a reference on `shape_sets` sets of shapes, as plain values. Every size that is another one at the
    measure size varies, if the reference runs with any that is small. One or two further sets have a long size each,
    one has many elements where few results are made of them, and one is short where the task's own is much work.

    Returns:
        `{"traces": [...], "declared": [...]}`, the latter with the trace at the measure size, if it has one; or
        `{"reason": ..., "detail": ...}` if the reference cannot be traced that often.
    """
    reference = load_reference(source)
    own_specs, large = (tuple(restore(InputSpec, spec) for spec in specs) for specs in (inputs, measure))
    try:
        own = record(reference, own_specs, seed)
        check_values_matter(reference, own_specs, seed)
        _check_all_is_seen(own)
        traces = [own]
        while len(traces) < shape_sets:
            traces.append(_trace_further(reference, traces, seed))
        if large and len(traces) > 1:
            traces[-1] = _trace_what_grows(reference, traces, large, seed)
            traces += _trace_long(reference, traces, large, seed)
            traces += _trace_many(reference, traces, large, seed)
            traces += _trace_short(reference, traces, large, seed)
    except Untraceable as error:
        return {"reason": error.reason, "detail": error.detail}
    if not any(has_uneven_size(trace.inputs) for trace in traces):
        return {"reason": "only_powers_of_two", "detail": "no accepted set of shapes has another size"}
    declared = _trace_declared(reference, large, seed, own)
    return {name: list(map(dataclasses.asdict, made)) for name, made in (("traces", traces), ("declared", declared))}


def _trace_declared(reference: ModuleType, measure: Specs, seed: int, own: Trace) -> list[Trace]:
    """The trace at the measure size; none where that has to be run with values to be known."""
    if not measure:
        return []
    try:
        return [record_without_memory(reference, measure, seed, own)]
    except Exception:  # a reference may raise anything; texts are about its proof size then
        return []


def _check_all_is_seen(trace: Trace) -> None:
    """Refuse a trace in which no operators lead from the inputs to an output: the work is done outside PyTorch.

    With NumPy, values leave PyTorch and return as a constant: such a trace would show no computation. Outputs that do
    not depend on any input are refused earlier.
    """
    reached = {fact.name for fact in trace.tensors if fact.role == "input"}
    for fact in trace.tensors:
        if reached.intersection(fact.operands):
            reached.add(fact.name)
    unseen = [fact.name for fact in trace.tensors if fact.role == "output" and fact.name not in reached]
    if unseen:
        raise Untraceable("work_outside_torch", f"no operators lead from the inputs to {', '.join(unseen[:4])}")


def _trace_further(reference: ModuleType, traces: list[Trace], seed: int) -> Trace:
    """The trace on a set of shapes that none of `traces` has; the same operators are preferred, others accepted."""
    own, known = traces[0], [trace.inputs for trace in traces]
    first = len(traces) - 1
    for same_operators in (True, False):
        accepted: dict[Specs, Trace] = {}

        def runs(specs: Specs, accepted: dict[Specs, Trace] = accepted, strict: bool = same_operators) -> bool:
            trace = _try(reference, specs, own, seed)
            if trace is None or (strict and trace.operators != own.operators):
                return False
            accepted[specs] = trace
            return True

        if first and same_operators:
            found = vary_again(own.inputs, known[-1], runs, first)
            if found is not None and found not in known:
                return accepted[found]
        for rotation in range(first, first + 5):
            found = vary_shapes(own.inputs, runs, rotation)
            if found is not None and found not in known:
                return accepted[found]
            if found is None:
                break
    raise Untraceable("shapes_cannot_vary", f"{len(traces)} of the sets asked for were found")


def _trace_what_grows(reference: ModuleType, traces: list[Trace], measure: Specs, seed: int) -> Trace:
    """The last trace, with more sizes changed where that is needed; other operators are accepted as a last resort."""
    accepted: dict[Specs, Trace] = {traces[-1].inputs: traces[-1]}
    sets = [trace.inputs for trace in traces]
    for same_operators in (True, False):

        def runs(specs: Specs, strict: bool = same_operators) -> bool:
            trace = _try(reference, specs, traces[0], seed, growth=2 if strict else 8)
            if trace is None or (strict and trace.operators != traces[0].operators):
                return False
            accepted[specs] = trace
            return True

        sets[-1] = vary_what_grows(sets, measure, runs) or sets[-1]
    return accepted[sets[-1]]


def _trace_long(reference: ModuleType, traces: list[Trace], measure: Specs, seed: int) -> list[Trace]:
    """Traces with the same operators as the first, each on a set with one long size; only cheap ones, as all
    candidates are executed on them."""

    def is_cheap(trace: Trace) -> bool:
        return _elements(trace) <= _ALWAYS_SMALL and trace.flops <= _MOST_LONG_FLOPS

    return _trace_alike(reference, traces, seed, lambda runs: lengthen(traces[0].inputs, measure, runs), is_cheap)


def _trace_many(reference: ModuleType, traces: list[Trace], measure: Specs, seed: int) -> list[Trace]:
    """A trace with the same operators in which few results are made of many elements, if there is one that is cheap."""

    def fits(trace: Trace) -> bool:
        is_cheap = trace.flops <= _MOST_LONG_FLOPS and _elements(trace) <= _MOST_OF_MANY
        return is_cheap and any(math.prod(fact.shape) <= _FEW_RESULTS for fact in trace.tensors if fact.operands)

    return _trace_alike(reference, traces, seed, lambda runs: multiply(traces[0].inputs, measure, runs), fits, 64)


def _trace_short(reference: ModuleType, traces: list[Trace], measure: Specs, seed: int) -> list[Trace]:
    """A trace with the same operators whose sizes are short, if the task's own is much work."""
    if traces[0].flops <= _MOST_LONG_FLOPS:
        return []
    return _trace_alike(reference, traces, seed, lambda runs: shorten(traces[0].inputs, measure, runs))


def _trace_alike(
    reference: ModuleType,
    traces: list[Trace],
    seed: int,
    search: Callable[[Callable[[Specs], bool]], list[Specs]],
    fits: Callable[[Trace], bool] = lambda _: True,
    growth: int = 2,
) -> list[Trace]:
    """Traces with the same operators as the first, on the sets that `search` finds by asking which the reference runs
    on. `growth`: see `_try`."""
    accepted: dict[Specs, Trace] = {}

    def runs(specs: Specs) -> bool:
        trace = _try(reference, specs, traces[0], seed, growth)
        if trace is None or trace.operators != traces[0].operators or not fits(trace):
            return False
        accepted[specs] = trace
        return True

    return [accepted[specs] for specs in search(runs)]


def _try(reference: ModuleType, specs: Specs, own: Trace, seed: int, growth: int = 2) -> Trace | None:
    """The trace on `specs`, or None if the reference does not accept them or has `growth` times its own elements."""
    most = max(growth * _elements(own), _ALWAYS_SMALL)
    if elements(specs) > most:
        return None
    try:
        trace = record(reference, specs, seed)
        if any(spec.kind == "integers" for spec in specs):
            record(reference, specs, seed, values=_largest_indices(specs, seed))
    except Exception:  # a reference may raise anything; that is the answer
        return None
    return trace if _elements(trace) <= most else None


def _largest_indices(specs: Specs, seed: int) -> list[Any]:
    """Inputs with the largest allowed integers: indices must be in range for every draw."""
    return [
        torch.full_like(value, int(spec.high) - 1) if spec.kind == "integers" else value
        for spec, value in zip(specs, draw(specs, seed), strict=True)
    ]


def _elements(trace: Trace) -> int:
    return sum(math.prod(fact.shape) for fact in trace.tensors)
