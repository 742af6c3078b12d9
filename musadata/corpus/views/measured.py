"""Which of two accepted programs is faster, by times that were measured on a device."""

from musadata.records import Candidate, Timing


def timing_of(candidate: Candidate) -> Timing | None:
    """Its own time; None where nothing was timed."""
    return next((timing for timing in candidate.timings if timing.name == "candidate"), None)


def is_faster(one: Candidate, other: Candidate) -> bool:
    """Whether the 95 % intervals of two measured times say so: they do not overlap."""
    mine, its = timing_of(one), timing_of(other)
    return mine is not None and its is not None and mine.high_ms < its.low_ms


def describe_times(candidate: Candidate) -> str:
    """A line for each time that was measured with a candidate, its own first."""
    names = {"candidate": "this program", "eager": "PyTorch, eager", "compile": "PyTorch, torch.compile"}
    return "\n".join(
        f"- {names.get(one.name, one.name)}: {one.median_ms:.4g} ms (95 % interval {one.low_ms:.4g} to"
        f" {one.high_ms:.4g}, {one.repetitions} repetitions)"
        for one in sorted(candidate.timings, key=lambda one: one.name != "candidate")
    )
