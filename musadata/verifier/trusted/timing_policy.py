"""How long to measure."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TimingPolicy:
    """When measuring ends.

    Attributes:
        repetitions: measured calls of each side in one round.
        turn: consecutive calls of one side.
        least: measured calls of each side at the least.
        certain: relative width of a median's confidence interval at which measuring ends.
        clock_ms: absolute width at which it ends for times below `short_ms`: the resolution of events is "around 0.5
            microseconds" (CUDA's documentation of cudaEventElapsedTime).
        warm_up_ms: least wall-clock time of calls before those that count; clocks rise under load only.
        rounds: the most rounds, for medians that do not become certain.
        turn_ms: time of one turn of the slower side; slow kernels are called less often, but twice at the least.
        seconds: wall-clock time of both sides together, the least number of calls aside.
        hopeless: measuring ends where it would take so many times `seconds` for the medians to become certain.
        slow: how many times slower than the reference a candidate may be to be measured as long as others.
        long_ms: one call is enough of a slower candidate whose calls take longer than this.
    """

    repetitions: int = 100
    turn: int = 10
    least: int = 10
    certain: float = 0.01
    clock_ms: float = 0.0005
    short_ms: float = 0.02
    warm_up_ms: float = 30.0
    rounds: int = 5
    turn_ms: float = 20.0
    seconds: float = 2.5
    hopeless: float = 10.0
    slow: float = 20.0
    long_ms: float = 150.0
