"""Which of two accepted programs is faster, by times that were measured on a device."""

from musadata.records import Candidate, Timing, Trace
from musadata.tracing.roofline import device_named, unit_of


def timing_of(candidate: Candidate) -> Timing | None:
    """Its own time; None where nothing was timed."""
    return next((timing for timing in candidate.timings if timing.name == "candidate"), None)


def is_faster(one: Candidate, other: Candidate) -> bool:
    """Whether the 95 % intervals of two measured times say so: they do not overlap."""
    mine, its = timing_of(one), timing_of(other)
    return mine is not None and its is not None and mine.high_ms < its.low_ms


def describe_times(candidate: Candidate, trace: Trace) -> str:
    """A line for each time that was measured with a candidate, its own first, and the rates that it comes to.

    Args:
        trace: the task's at the size that was measured.
    """
    names = {"candidate": "this program", "eager": "PyTorch, eager", "compile": "PyTorch, torch.compile"}
    lines = [
        f"- {names.get(one.name, one.name)}: {one.median_ms:.4g} ms (95 % interval {one.low_ms:.4g} to"
        f" {one.high_ms:.4g}, {one.repetitions} repetitions)"
        for one in sorted(candidate.timings, key=lambda one: one.name != "candidate")
    ]
    return "\n".join([*lines, *_describe_rates(candidate, trace)])


def _describe_rates(candidate: Candidate, trace: Trace) -> list[str]:
    """What the module's least work comes to in the candidate's time, as shares of the device's limits if known."""
    timing, device, unit = timing_of(candidate), device_named(candidate.device), unit_of(trace.tensors)
    if timing is None or device is None:
        return []
    moved, done = (count / timing.median_ms * 1e3 for count in (trace.bytes, trace.flops))
    rates = [
        f"its least traffic comes to {moved / 1e12:.3g} TB/s ({moved / device.bytes_per_second:.0%} of the device's)"
    ]
    if trace.flops:
        rates.append(f"its arithmetic to {done / 1e12:.3g} TFLOP/s ({done / device.rate(unit):.0%} of its {unit})")
    return [f"- of the module, in this program's time: {', '.join(rates)}"]
