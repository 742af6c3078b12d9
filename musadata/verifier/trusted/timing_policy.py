"""How long to measure."""

import statistics
from dataclasses import dataclass

from musadata.verifier.trusted.baseline_process import Turn


@dataclass(frozen=True)
class TimingPolicy:
    """When measuring ends.

    Attributes:
        repetitions: measured calls of each side in one round.
        turn: consecutive calls of one side.
        least: measured calls of each side at the least.
        steady: largest relative difference between the medians of two turns at which the warm-up ends.
        certain: relative width of a median's confidence interval at which measuring ends.
        clock_ms: absolute width at which it ends for times below `short_ms`: the resolution of events is "around 0.5
            microseconds" (CUDA's documentation of cudaEventElapsedTime).
        warm_up_turns: the most turns of the warm-up.
        warm_up_ms: its least wall-clock time; clocks rise under load only.
        rounds: the most rounds, for medians that do not become certain.
        turn_ms: time of one turn of the slower side; slow kernels are called less often, but twice at the least.
        seconds: wall-clock time of both sides together, the least number of calls aside; the warm-up has a quarter of
            it more.
        hopeless: measuring ends where it would take so many times `seconds` for the medians to become certain.
        slow: how many times slower than the reference a candidate may be to be measured as long as others.
        longest_ms: one call is enough of a slower candidate whose calls take longer than this, and one turn where the
            calls of either side do.
    """

    repetitions: int = 100
    turn: int = 10
    least: int = 10
    steady: float = 0.02
    certain: float = 0.01
    clock_ms: float = 0.0005
    short_ms: float = 0.02
    warm_up_turns: int = 12
    warm_up_ms: float = 30.0
    rounds: int = 5
    turn_ms: float = 20.0
    seconds: float = 2.5
    hopeless: float = 10.0
    slow: float = 20.0
    longest_ms: float = 1000.0

    def agree(self, first: Turn, second: Turn) -> bool:
        """Whether the medians of two turns differ by no more than `steady`."""
        first_ms = statistics.median(first.times)
        return abs(statistics.median(second.times) - first_ms) <= self.steady * first_ms
