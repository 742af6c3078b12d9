"""Tracing one reference on its own and on other input shapes. Runs inside the sandbox."""

import dataclasses
import math
from types import ModuleType
from typing import Any

import torch

from musadata.records import InputSpec, Trace
from musadata.tasks.reference_loading import load_reference
from musadata.tracing.inputs import draw
from musadata.tracing.shape_sets import Specs, has_uneven_size, vary_shapes
from musadata.tracing.trace_recording import Untraceable, check_values_matter, record

# Elements of all tensors of a trace that are allowed however small the task's own trace is.
_ALWAYS_SMALL = 1 << 16


def trace_reference(source: str, inputs: list[dict[str, Any]], seed: int, shape_sets: int) -> dict[str, Any]:
    """Facts of a reference on `shape_sets` sets of shapes, as plain values.

    Returns:
        `{"traces": [...]}`, or `{"reason": ..., "detail": ...}` if the reference cannot be traced that often.
    """
    reference = load_reference(source)
    own_specs = tuple(InputSpec(**{**spec, "shape": tuple(spec["shape"])}) for spec in inputs)
    try:
        own = record(reference, own_specs, seed)
        check_values_matter(reference, own_specs, seed)
        _check_all_is_seen(own)
        traces = [own]
        while len(traces) < shape_sets:
            traces.append(_trace_further(reference, traces, seed))
    except Untraceable as error:
        return {"reason": error.reason, "detail": error.detail}
    if not any(has_uneven_size(trace.inputs) for trace in traces):
        return {"reason": "only_powers_of_two", "detail": "no accepted set of shapes has another size"}
    return {"traces": [dataclasses.asdict(trace) for trace in traces]}


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
    for same_operators in (True, False):
        for rotation in range(len(traces) - 1, len(traces) + 4):
            accepted: dict[Specs, Trace] = {}

            def runs(specs: Specs, accepted: dict[Specs, Trace] = accepted, strict: bool = same_operators) -> bool:
                trace = _try(reference, specs, own, seed)
                if trace is None or (strict and trace.operators != own.operators):
                    return False
                accepted[specs] = trace
                return True

            found = vary_shapes(own.inputs, runs, rotation)
            if found is not None and found not in known:
                return accepted[found]
            if found is None:
                break
    raise Untraceable("shapes_cannot_vary", f"{len(traces)} of the sets asked for were found")


def _try(reference: ModuleType, specs: Specs, own: Trace, seed: int) -> Trace | None:
    """The trace on `specs`, or None if the reference does not accept them or grows too large on them."""
    try:
        trace = record(reference, specs, seed)
        if any(spec.kind == "integers" for spec in specs):
            record(reference, specs, seed, values=_largest_indices(specs, seed))
    except Exception:  # a reference may raise anything; that is the answer
        return None
    return trace if _elements(trace) <= max(2 * _elements(own), _ALWAYS_SMALL) else None


def _largest_indices(specs: Specs, seed: int) -> list[Any]:
    """Inputs with the largest allowed integers: indices must be in range for every draw."""
    return [
        torch.full_like(value, int(spec.high) - 1) if spec.kind == "integers" else value
        for spec, value in zip(specs, draw(specs, seed), strict=True)
    ]


def _elements(trace: Trace) -> int:
    return sum(math.prod(fact.shape) for fact in trace.tensors)
