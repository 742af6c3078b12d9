"""The times of a candidate and of the reference, measured in turns on the same device.

Turns alternate, so that drifting clocks and temperature affect both. Both warm up until two turns agree, which count,
and are measured until their medians are certain, within limits; a candidate that is far slower than the
reference is measured by a few calls. The times that a candidate reports are checked in three ways:
its results are compared again, with fresh inputs, after timing; the wall clock must not show much more time than its
events; and no candidate reads memory faster than the device can. A bound by FLOPs would be wrong: (A·B).sum() needs no
matrix product.
"""

import math
import statistics
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from musadata.records import ErrorClass, Finding, Timing
from musadata.verifier.protocol import measure_messages as measures
from musadata.verifier.protocol import messages
from musadata.verifier.protocol.variants import TIMED, condition_of
from musadata.verifier.rules import catalogue as rules
from musadata.verifier.trusted.baseline_process import Baseline, BaselineFailed, Turn
from musadata.verifier.trusted.candidate_report import read_result
from musadata.verifier.trusted.compare import compare_result
from musadata.verifier.trusted.expectation import Expectation
from musadata.verifier.trusted.timing_policy import TimingPolicy

Command = (
    messages.MeasureTurn
    | messages.CheckOutput
    | messages.MeasureShare
    | messages.Stop
    | measures.TakeState
    | measures.MakeOutput
    | measures.SendChunk
)


@dataclass(frozen=True)
class Reply:
    """A candidate's answer to a command, None if it was no message, and the milliseconds until it arrived."""

    answer: object
    wall_ms: float


@dataclass
class Measured:
    """What was measured; findings are reasons to reject the candidate."""

    timings: list[Timing] = field(default_factory=list)
    own_share: float | None = None
    findings: list[Finding] = field(default_factory=list)
    error_class: ErrorClass | None = None

    def blame(self, rule: rules.Rule, *parts: object, line: int = 0, condition: str = "") -> "Measured":
        self.findings.append(replace(rule.finding(*parts, line=line), condition=condition))
        self.error_class = self.error_class or rule.error_class
        return self


class CandidateFailed(Exception):
    """The candidate raised an exception, or its answer is not of the expected kind. `rule`: what it breaks by that, if
    it is not that of the checks."""

    def __init__(self, message: str, rule: rules.Rule | None = None):
        super().__init__(message)
        self.rule = rule


_MOST_SETS = 4
# Time per call that the wall clock shows beyond the events, compared with the reference's: above these limits it is
# hidden work. An honest kernel that ran beside sixteen others on one host has reached 0.26 ms.
_HIDDEN_MS = 1.0
_HIDDEN_FACTOR = 3.0
_HIDDEN_TURNS = 6  # more turns of both sides before a candidate is accused
_BELIEVABLE = 0.9  # of the least time; memory clocks are known to a few percent
_SHARE_CALLS = 5
_ONCE_MS = 5.0  # of a candidate whose share is told well enough by one call
_FEW_CALLS = 3  # of a candidate that is far too slow
_LEAST_SHARE = 0.5
_ALONE_SHARE = 0.25  # of the policy's seconds, for the baseline alone
_FEW_SECONDS = 0.2  # of the policy's, after which it is asked whether times can become certain


class Checks:
    """What is compared before and after the calls that are timed; `input_bytes` are those that a call may read,
    `failure` is the rule for a candidate that fails, and `known_ms` the time of a call that has been compared, if any.
    """

    failure: ClassVar[rules.Rule] = rules.TIMING_EXCEPTION
    known_ms: float = 0.0
    input_bytes: int

    def before(self, measured: Measured) -> Generator[Command, Reply, None]:
        """Blames the candidate for wrong results, if any is left to compare."""
        yield from ()

    def after(self, measured: Measured) -> Generator[Command, Reply, None]:
        """The same, with inputs that it has not seen."""
        yield from ()

    def end_timing(self) -> None:
        """From now on the device need not be held alone, if what is left takes longer than a change of locks."""


class ProofChecks(Checks):
    """The inputs of the proof sets: they were compared before."""

    def __init__(self, expectation: Expectation):
        self._expectation = expectation
        self.input_bytes = len(expectation.sets[0].inputs) + len(expectation.state)

    def after(self, measured: Measured) -> Generator[Command, Reply, None]:
        """Every input set that was timed."""
        sets = timed_sets(self._expectation)
        for position, expected in enumerate(self._expectation.sets[index] for index in sets):
            answer = (yield messages.CheckOutput(position)).answer
            made = answer if isinstance(answer, messages.CheckedOutput) else None
            result = read_result(made.structure, made.output) if made else None
            if result is None:
                raise CandidateFailed(describe_answer(answer))
            wrong = compare_result(expected, result)
            if wrong:
                measured.blame(rules.TIMING_UNSTABLE, wrong[0].message, condition=condition_of(expected.plan))
                return


def time_candidate(
    policy: TimingPolicy, baseline: Baseline | None, compiled: Timing | None, checks: Checks
) -> Generator[Command, Reply, Measured]:
    """A generator that yields commands for a candidate's process, is sent the replies, and returns what was measured.

    `baseline` is prepared and `compiled` was measured before; either may be None.
    """
    measured, hidden_ms = Measured(), 0.0
    try:
        yield from checks.before(measured)
        if measured.error_class is not None:
            return measured
        own, eager = yield from _alternate(policy, baseline, checks.known_ms)
        measured.timings.append(summarise("candidate", _pool(own)))
        if eager:
            measured.timings.append(_faster_of_both(policy, summarise("eager", _pool(eager)), baseline, eager))
        if len(_pool(own)) > 1:
            hidden_ms = yield from _find_hidden_work(baseline, own, eager)
            yield from _check_what_was_timed(policy, checks, measured, own)
        else:
            checks.end_timing()  # one long call, which was compared
    except CandidateFailed as error:
        rule = error.rule or checks.failure
        finding = rule.finding(error) if rule.message else rule.worded(str(error))
        measured.findings.append(finding)
        measured.error_class = measured.error_class or rule.error_class
        return measured
    except BaselineFailed as error:
        return measured.blame(rules.MEASURE_UNKNOWN, error)
    if eager:
        if hidden_ms:
            measured.blame(rules.TIMING_HIDDEN_WORK, hidden_ms)
        _check_least_time(measured, baseline, checks)
    measured.timings += [compiled] if compiled else []
    if measured.own_share is not None and measured.own_share < _LEAST_SHARE:
        measured.findings.append(rules.TIMING_SHARE.finding(measured.own_share))
    return measured


def _check_what_was_timed(
    policy: TimingPolicy, checks: Checks, measured: Measured, own: Sequence[Turn]
) -> Generator[Command, Reply, None]:
    """Find the share of the candidate's own kernels, and compare its results again."""
    median = statistics.median(_pool(own))
    calls = min(_SHARE_CALLS, _calls_per_turn(policy, median)) if median < _ONCE_MS else 1
    measured.own_share = _share(median, (yield messages.MeasureShare(calls)))
    checks.end_timing()
    yield from checks.after(measured)


def _alternate(
    policy: TimingPolicy, baseline: Baseline | None, known_ms: float
) -> Generator[Command, Reply, tuple[list[Turn], list[Turn]]]:
    """Turns of the candidate and of the baseline, without the warm-up. `known_ms`: see `Checks`."""
    if known_ms > policy.longest_ms:  # no first call takes so much longer than the next ones
        eager_turn = _settle(policy, baseline)
        if eager_turn and known_ms > policy.slow * statistics.median(eager_turn.times):
            return [Turn((known_ms,), known_ms)], [eager_turn]
    first_ms = known_ms or (yield from _turn(1)).times[0]
    eager_turn = _try_turn(baseline, 1)
    if eager_turn and first_ms > policy.slow * eager_turn.times[0]:
        again = yield from _turn(_FEW_CALLS)  # the first call may have loaded what the others do not
        eager_turn = _settle(policy, baseline)
        if eager_turn and min(again.times) > policy.slow * statistics.median(eager_turn.times):
            return [again], [eager_turn]
    longer_ms = max(first_ms, eager_turn.times[0] if eager_turn else 0.0)
    count = _calls_per_turn(policy, longer_ms)
    if longer_ms > policy.longest_ms:  # the first calls were the warm-up, and minutes would make it no more certain
        again, eager_turn = (yield from _turn(count)), eager_turn and _try_turn(baseline, count)
        return [again], [eager_turn] if eager_turn else []
    own, eager, has_baseline = yield from _warm_up(policy, baseline if eager_turn else None, count)
    most = policy.rounds * max(1, round(policy.repetitions / policy.turn))
    while len(own) < most and not _is_enough(policy, own, eager):
        own.append((yield from _turn(count)))
        eager_turn = _try_turn(baseline, count) if has_baseline else None
        eager += [eager_turn] if eager_turn else []
        has_baseline = eager_turn is not None
    return own, eager if has_baseline else []


def _is_enough(policy: TimingPolicy, own: Sequence[Turn], eager: Sequence[Turn]) -> bool:
    """Whether both medians are certain, or it has taken long enough, or would take far too long."""
    if not own:
        return False
    uncertain = [_uncertainty(side, policy) for side in (own, eager) if side]
    if max(uncertain) <= 1.0:
        return True
    spent = sum(turn.wall_ms for turn in (*own, *eager)) / (1e3 * policy.seconds)
    if len(_pool(own)) < policy.least or spent < _FEW_SECONDS:
        return False
    longest = policy.hopeless / spent  # times the calls that there are
    return spent > 1.0 or any(_uncertainty(side, policy, longest) > 1.0 for side in (own, eager) if side)


def _settle(policy: TimingPolicy, baseline: Baseline | None) -> Turn | None:
    """A turn of the baseline alone whose median is certain, or the last of some."""
    turn: Turn | None = None
    for _ in range(policy.rounds):
        turn = _try_turn(baseline, policy.least)
        if turn is None or _is_certain([turn], policy):
            break
    return turn


def _warm_up(
    policy: TimingPolicy, baseline: Baseline | None, count: int
) -> Generator[Command, Reply, tuple[list[Turn], list[Turn], bool]]:
    """The turns of both sides that count as measured: those that agree with the ones before, together with these; the
    last ones where that takes long. And whether there is a baseline, which may fail."""
    eager_turn: Turn | None = None
    before: list[Turn] = []
    spent = 0.0
    for number in range(policy.warm_up_turns):
        mine = yield from _turn(count)
        eager_turn = _try_turn(baseline, count) if number == 0 or eager_turn else None
        turns = [turn for turn in (mine, eager_turn) if turn]
        spent += sum(turn.wall_ms for turn in turns)
        if spent >= policy.warm_up_ms and len(turns) == len(before) and all(map(policy.agree, before, turns)):
            return [before[0], mine], [*before[1:], *turns[1:]], len(turns) > 1
        if before and spent >= 250 * policy.seconds:  # a host that is busy: no two turns will agree
            return [mine], turns[1:], len(turns) > 1
        before = turns
    return [], [], eager_turn is not None


def _turn(count: int) -> Generator[Command, Reply, Turn]:
    reply = yield messages.MeasureTurn(count)
    times = reply.answer.times if isinstance(reply.answer, messages.TurnTimes) else ()
    if len(times) == count and all(milliseconds >= 0 for milliseconds in times):
        return Turn(tuple(filter(math.isfinite, times)) or (0.0,), reply.wall_ms)
    raise CandidateFailed(describe_answer(reply.answer))


def describe_answer(answer: object) -> str:
    if not isinstance(answer, messages.Failure):
        return "its process does not answer as it should."
    return f"{answer.error.error_type}: {answer.error.message}"[:300]


def _try_turn(baseline: Baseline | None, count: int) -> Turn | None:
    """A turn of the baseline, or None if there is no baseline or it fails."""
    if baseline is None:
        return None
    try:
        return baseline.measure(count)
    except BaselineFailed:
        return None


def _calls_per_turn(policy: TimingPolicy, milliseconds: float) -> int:
    """The planned number, or as many as fit into the time of one turn."""
    return int(min(policy.turn, max(policy.turn_ms / max(milliseconds, 1e-3), 2)))


def _pool(turns: Sequence[Turn]) -> list[float]:
    return [value for turn in turns for value in turn.times]


def _is_certain(turns: Sequence[Turn], policy: TimingPolicy) -> bool:
    return _uncertainty(turns, policy) <= 1.0


def _uncertainty(turns: Sequence[Turn], policy: TimingPolicy, longer: float = 1.0) -> float:
    """The width of the median's confidence interval, of the one that is certain; infinite before the least calls. Or
    what it would be after so many times the calls, by the quantiles of those that there are: few calls that take far
    longer than the others are soon outside of it."""
    ordered = sorted(_pool(turns))
    if len(ordered) < policy.least:
        return math.inf
    low, high = _interval(ordered, longer)
    median = statistics.median(ordered)
    wanted = policy.certain * median
    if median < policy.short_ms:
        wanted = max(wanted, policy.clock_ms)
    return (high - low) / wanted if wanted > 0 else 0.0


def summarise(name: str, times: Sequence[float]) -> Timing:
    """The median and its 95 % confidence interval, by order statistics; milliseconds."""
    ordered = sorted(times)
    return Timing(name, statistics.median(ordered), *_interval(ordered), len(ordered))


def _interval(ordered: Sequence[float], longer: float = 1.0) -> tuple[float, float]:
    """The 95 % confidence interval of the median; see `_uncertainty`."""
    middle, half = len(ordered) / 2, 0.98 * (len(ordered) / longer) ** 0.5
    low, high = int(middle - half), math.ceil(middle + half) if longer > 1.0 else int(middle + half)
    return ordered[max(0, low)], ordered[min(len(ordered) - 1, high)]


def _faster_of_both(policy: TimingPolicy, timing: Timing, baseline: Baseline | None, turns: Sequence[Turn]) -> Timing:
    """The baseline beside the candidate, or alone if that is faster.

    So a candidate gains nothing by leaving work on the device during the baseline's turns.
    """
    count = len(turns[0].times)
    first = _try_turn(baseline, count)
    if first is None or summarise("", first.times).high_ms >= (1.0 - policy.certain) * timing.low_ms:
        return timing  # not significantly faster
    alone, longest_ms = [first], _ALONE_SHARE * policy.seconds * 1e3
    while len(alone) < len(turns) and not _is_certain(alone, policy) and sum(one.wall_ms for one in alone) < longest_ms:
        turn = _try_turn(baseline, count)
        if turn is None:
            break
        alone.append(turn)
    return min(timing, summarise(timing.name, _pool(alone)), key=lambda one: one.median_ms)


def time_compiled(policy: TimingPolicy, baseline: Baseline) -> Timing | None:
    """The prepared reference through torch.compile, alone on the device; None if it fails."""
    first = _try_turn(baseline, 3)
    if first is None:
        return None
    count = _calls_per_turn(policy, statistics.median(first.times))
    turns = [_try_turn(baseline, count) for _ in range(max(2, round(policy.repetitions / policy.turn)) + 1)]
    times = _pool([turn for turn in turns[1:] if turn])
    return summarise("compile", times) if times else None


def timed_sets(expectation: Expectation) -> list[int]:
    """The finite input sets of the first set of shapes, at most four: successive calls never see the same values."""
    sets = expectation.sets
    first = sets[0]
    alike = [
        index
        for index, item in enumerate(sets)
        if item.plan.shape == first.plan.shape and item.literals == first.literals and item.plan.variant in TIMED
    ]
    return alike[:_MOST_SETS]


def _share(whole: float, reply: Reply) -> float | None:
    """The share of device time in the candidate's own kernels: the time that is saved by null kernels. `whole`: the
    milliseconds of a call."""
    times = reply.answer
    if not isinstance(times, messages.DeviceTimes):
        return None  # with null kernels it may fail
    if not math.isfinite(times.rest + times.empty) or whole <= times.empty:
        return None
    return min(1.0, max(0.0, (whole - times.rest) / (whole - times.empty)))


def _beyond_events(turns: Sequence[Turn]) -> list[float]:
    """Milliseconds per call of the wall clock beyond those of the events."""
    return [(turn.wall_ms - sum(turn.times)) / len(turn.times) for turn in turns]


def _find_hidden_work(
    baseline: Baseline | None, own: Sequence[Turn], eager: Sequence[Turn]
) -> Generator[Command, Reply, float]:
    """Milliseconds of each call that its events do not show, or 0.

    A busy host delays single turns, and few are needed for a time that is certain. So before this is said, turns are
    repeated; work that is hidden is there in all of them.
    """
    if baseline is None or not baseline.on_device:
        return 0.0  # the two clocks cannot be compared
    own, eager = list(own), list(eager)
    for _ in range(_HIDDEN_TURNS):
        if not _hidden_ms(own, eager):
            return 0.0
        own.append((yield from _turn(len(own[0].times))))
        eager_turn = _try_turn(baseline, len(eager[0].times))
        eager += [eager_turn] if eager_turn else []
    return _hidden_ms(own, eager)


def _hidden_ms(own: Sequence[Turn], eager: Sequence[Turn]) -> float:
    if not eager:
        return 0.0
    least, usual = min(_beyond_events(own)), statistics.median(_beyond_events(eager))
    hidden = least > max(_HIDDEN_FACTOR * usual, usual + _HIDDEN_MS)
    return least - usual if hidden and least - usual > 0.5 * statistics.median(_pool(own)) else 0.0


def _check_least_time(measured: Measured, baseline: Baseline | None, checks: Checks) -> None:
    """Check that the time suffices to read what the result depends on; inputs were flushed from the cache."""
    if baseline is None or baseline.bytes_per_ms <= 0:
        return
    claimed = measured.timings[0].median_ms
    if claimed >= checks.input_bytes / baseline.bytes_per_ms:
        return  # enough to read everything; no gradient is needed
    least = baseline.least_traffic() / baseline.bytes_per_ms
    if claimed < _BELIEVABLE * least:
        measured.blame(rules.TIMING_IMPOSSIBLE, claimed, least)
