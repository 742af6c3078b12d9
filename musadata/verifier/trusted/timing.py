"""How fast a candidate is against the reference, from turns that the two take on the device.

Turns alternate, so that a drift of clocks and temperature hits both. Both warm up until two turns agree, and go on
while their medians are uncertain, within bounds. What a candidate reports is checked in three ways: its results are
compared again, with fresh inputs, after it has been timed; the wall must not have seen much more than its events; and
nothing reads memory faster than the device can. A bound by FLOPs would not hold: (A·B).sum() needs no matrix product.
"""

import math
import statistics
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from musadata.records import ErrorClass, Finding, Timing
from musadata.verifier.protocol import messages
from musadata.verifier.protocol.variants import INFINITE
from musadata.verifier.rules import catalogue as rules
from musadata.verifier.trusted.baseline_process import Baseline, BaselineFailed, Turn
from musadata.verifier.trusted.candidate_report import read_result
from musadata.verifier.trusted.compare import compare_result
from musadata.verifier.trusted.expectation import Expectation

Command = messages.MeasureTurn | messages.CheckOutput | messages.MeasureShare | messages.Stop


@dataclass(frozen=True)
class Reply:
    """A candidate's answer to a command, None if it is no message, and the milliseconds until it came."""

    answer: object
    wall_ms: float


@dataclass(frozen=True)
class TimingPolicy:
    """How long to measure.

    Attributes:
        repetitions: calls of each side that count.
        turn: calls in a row before the other side has its turn.
        steady: how far the medians of two turns may differ for the warm-up to be over, relatively.
        noisy: half width of a median's confidence interval above which all is measured once more, relatively.
        clock_ms: the same, absolutely: what two events cannot tell apart ("a resolution of around 0.5 microseconds",
            says CUDA's documentation of cudaEventElapsedTime), no repetition can.
        warm_up_turns: the most of them.
        warm_up_ms: by the wall, the least that they take; clocks rise under load only.
        takes: how often all repetitions are measured at most.
        seconds: what one side may take for one round of repetitions; slow kernels are called less often.
    """

    repetitions: int = 100
    turn: int = 20
    steady: float = 0.02
    noisy: float = 0.02
    clock_ms: float = 0.00025
    warm_up_turns: int = 12
    warm_up_ms: float = 30.0
    takes: int = 3
    seconds: float = 2.0


@dataclass
class Measured:
    """What was measured; findings speak against the candidate."""

    timings: list[Timing] = field(default_factory=list)
    own_share: float | None = None
    findings: list[Finding] = field(default_factory=list)
    error_class: ErrorClass | None = None

    def blame(self, rule: rules.Rule, *parts: object) -> "Measured":
        self.findings.append(rule.finding(*parts))
        self.error_class = self.error_class or rule.error_class
        return self


class _CandidateFailed(Exception):
    """An exception of the candidate's, or an answer that is none."""


_MOST_SETS = 4
# A wall that has seen this much more per call than the events, above what it sees of the reference, has seen work. An
# honest kernel among sixteen others on one host has shown 0.26 ms.
_HIDDEN_MS = 1.0
_HIDDEN_FACTOR = 3.0
_BELIEVABLE = 0.9  # of the least time; memory clocks are known to a few percent
_SHARE_CALLS = 5
_LEAST_SHARE = 0.5


def time_candidate(
    policy: TimingPolicy, baseline: Baseline | None, compiled: Timing | None, expectation: Expectation, strict: bool
) -> Generator[Command, Reply, Measured]:
    """Drive a candidate's process: yields commands for it, is sent its replies, returns what was measured.

    `baseline` is prepared, `compiled` has been timed before; None where there is none.
    """
    measured = Measured()
    try:
        own, eager = yield from _alternate(policy, baseline)
        yield from _check_again(measured, expectation)
        share = yield messages.MeasureShare(_SHARE_CALLS)
    except _CandidateFailed as error:
        return measured.blame(rules.TIMING_EXCEPTION, error)
    measured.own_share = _share(share)
    candidate = _pool(own)
    measured.timings.append(summarise("candidate", candidate))
    if eager:
        measured.timings.append(_slower_never(summarise("eager", _pool(eager)), baseline, eager))
        if baseline is not None and baseline.on_device:  # else the two clocks have nothing in common
            _look_for_hidden_work(measured, own, eager)
        _look_for_impossible(measured, baseline, expectation)
    measured.timings += [compiled] if compiled else []
    if not strict and measured.own_share is not None and measured.own_share < _LEAST_SHARE:
        measured.blame(rules.TIMING_SHARE, measured.own_share)
    return measured


def _alternate(
    policy: TimingPolicy, baseline: Baseline | None
) -> Generator[Command, Reply, tuple[list[Turn], list[Turn]]]:
    """Turns of the candidate and of the baseline, warm-up left out."""
    first = yield from _turn(1)
    eager_turn = _try_turn(baseline, 1)
    count = _calls_per_turn(policy, max(statistics.median(turn.times) for turn in (first, eager_turn) if turn))
    last: list[float] = []
    spent = 0.0
    for _ in range(policy.warm_up_turns):
        mine = yield from _turn(count)
        eager_turn = eager_turn and _try_turn(baseline, count)
        now = [statistics.median(turn.times) for turn in (mine, eager_turn) if turn]
        spent += sum(turn.wall_ms for turn in (mine, eager_turn) if turn)
        steady = len(now) == len(last) and all(abs(a - b) <= policy.steady * b for a, b in zip(now, last, strict=True))
        if steady and spent >= policy.warm_up_ms:
            break
        last = now
    own: list[Turn] = []
    eager: list[Turn] = []
    turns = max(1, round(policy.repetitions / policy.turn))
    for _ in range(policy.takes):
        for _ in range(turns):
            own.append((yield from _turn(count)))
            eager_turn = eager_turn and _try_turn(baseline, count)
            eager += [eager_turn] if eager_turn else []
        if not any(_is_noisy(side, policy) for side in (own, eager) if side):
            break
    return own, eager if eager_turn else []


def _turn(count: int) -> Generator[Command, Reply, Turn]:
    reply = yield messages.MeasureTurn(count)
    times = reply.answer.times if isinstance(reply.answer, messages.TurnTimes) else ()
    if len(times) == count and all(milliseconds >= 0 for milliseconds in times):
        return Turn(tuple(filter(math.isfinite, times)) or (0.0,), reply.wall_ms)
    raise _CandidateFailed(_describe(reply.answer))


def _describe(answer: object) -> str:
    if not isinstance(answer, messages.Failure):
        return "its process does not answer as it should."
    return f"{answer.error.error_type}: {answer.error.message}"[:300]


def _try_turn(baseline: Baseline | None, count: int) -> Turn | None:
    """A turn of the baseline's, or None where there is none any more."""
    if baseline is None:
        return None
    try:
        return baseline.measure(count)
    except BaselineFailed:
        return None


def _calls_per_turn(policy: TimingPolicy, milliseconds: float) -> int:
    """As many as planned, or what fits into the time of one turn."""
    affordable = policy.seconds * 1e3 / max(milliseconds, 1e-3) * policy.turn / policy.repetitions
    return int(min(policy.turn, max(affordable, 2)))


def _pool(turns: Sequence[Turn]) -> list[float]:
    return [value for turn in turns for value in turn.times]


def _is_noisy(turns: Sequence[Turn], policy: TimingPolicy) -> bool:
    timing = summarise("", _pool(turns))
    return timing.high_ms - timing.low_ms > 2 * max(policy.noisy * timing.median_ms, policy.clock_ms)


def summarise(name: str, times: Sequence[float]) -> Timing:
    """Median and a 95 % confidence interval for it, by order statistics; milliseconds."""
    ordered = sorted(times)
    half = 0.98 * len(ordered) ** 0.5
    low, high = int(len(ordered) / 2 - half), int(len(ordered) / 2 + half)
    median = statistics.median(ordered)
    return Timing(name, median, ordered[max(0, low)], ordered[min(len(ordered) - 1, high)], len(ordered))


def _slower_never(timing: Timing, baseline: Baseline | None, turns: Sequence[Turn]) -> Timing:
    """The baseline as it was beside the candidate, or alone, if that was faster: a candidate gains nothing by leaving
    work on the device during its eager_turn's turns."""
    count = len(turns[0].times)
    first = _try_turn(baseline, count)
    if first is None or summarise("", first.times).high_ms >= timing.low_ms:
        return timing  # no faster than chance would have it
    alone = [first, *(_try_turn(baseline, count) for _ in turns[1:])]
    return min(timing, summarise(timing.name, _pool([turn for turn in alone if turn])), key=lambda one: one.median_ms)


def time_compiled(policy: TimingPolicy, baseline: Baseline) -> Timing | None:
    """The reference through torch.compile, prepared and with the device to itself; None if it fails."""
    first = _try_turn(baseline, 3)
    if first is None:
        return None
    count = _calls_per_turn(policy, statistics.median(first.times))
    turns = [_try_turn(baseline, count) for _ in range(max(2, round(policy.repetitions / policy.turn)) + 1)]
    times = _pool([turn for turn in turns[1:] if turn])
    return summarise("compile", times) if times else None


def _check_again(measured: Measured, expectation: Expectation) -> Generator[Command, Reply, None]:
    """Whether the results are still right, on every input set that was timed."""
    sets = timed_sets(expectation)
    for position, index in enumerate(sets):
        answer = (yield messages.CheckOutput(position)).answer
        result = read_result(answer.structure, answer.output) if isinstance(answer, messages.CheckedOutput) else None
        if result is None:
            raise _CandidateFailed(_describe(answer))
        wrong = compare_result(expectation.sets[index], result)
        if wrong:
            measured.blame(rules.TIMING_UNSTABLE, wrong[0].message)
            return


def timed_sets(expectation: Expectation) -> list[int]:
    """The input sets of the first set of shapes that inform; a call never sees the values of the one before."""
    sets = expectation.sets
    first = sets[0]
    alike = [
        index
        for index, item in enumerate(sets)
        if item.plan.shape == first.plan.shape and item.literals == first.literals and item.plan.variant != INFINITE
    ]
    return alike[:_MOST_SETS]


def _share(reply: Reply) -> float | None:
    """Share of device time in own kernels: what is saved when they do nothing."""
    times = reply.answer
    if not isinstance(times, messages.DeviceTimes):
        return None  # without its kernels it may well fail
    if not math.isfinite(times.whole + times.rest + times.empty) or times.whole <= times.empty:
        return None
    return min(1.0, max(0.0, (times.whole - times.rest) / (times.whole - times.empty)))


def _unseen(turns: Sequence[Turn]) -> list[float]:
    """Per call, the milliseconds that the wall saw and the events did not."""
    return [(turn.wall_ms - sum(turn.times)) / len(turn.times) for turn in turns]


def _look_for_hidden_work(measured: Measured, own: Sequence[Turn], eager: Sequence[Turn]) -> None:
    least, usual = min(_unseen(own)), statistics.median(_unseen(eager))
    if least > max(_HIDDEN_FACTOR * usual, usual + _HIDDEN_MS) and least - usual > 0.5 * measured.timings[0].median_ms:
        measured.blame(rules.TIMING_HIDDEN_WORK, least - usual)


def _look_for_impossible(measured: Measured, baseline: Baseline | None, expectation: Expectation) -> None:
    """Nothing is faster than reading what it depends on; inputs were flushed from the cache."""
    if baseline is None or baseline.bytes_per_ms <= 0:
        return
    claimed = measured.timings[0].median_ms
    item = expectation.sets[0]
    if claimed >= (len(item.inputs) + len(expectation.state)) / baseline.bytes_per_ms:
        return  # not even if all had to be read; saves the gradient
    least = baseline.least_traffic() / baseline.bytes_per_ms
    if claimed < _BELIEVABLE * least:
        measured.blame(rules.TIMING_IMPOSSIBLE, claimed, least)


class Driver:
    """Serves a candidate's process while it is timed: keeps the clock on the wall, turns answers into commands."""

    def __init__(self, schedule: Generator[Command, Reply, Measured]):
        self._schedule = schedule
        self._sent = 0.0
        self._started = False
        self.measured: Measured | None = None

    def serve(self, answer: object) -> Command:
        """The next command; `Stop` at the end."""
        wall_ms = (time.perf_counter() - self._sent) * 1e3
        try:
            if self._started:
                command = self._schedule.send(Reply(answer, wall_ms))
            else:
                self._started, command = True, next(self._schedule)
        except StopIteration as end:
            self.measured, command = end.value, messages.Stop()
        self._sent = time.perf_counter()
        return command
