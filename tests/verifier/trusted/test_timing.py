"""What timing makes of turns, and of candidates that behave badly only while they are timed."""

import math
import threading
from dataclasses import replace

import pytest

from musadata.config import VerifierConfig
from musadata.records import ErrorClass
from musadata.verifier.protocol.messages import (
    ContextMade,
    DeviceTimes,
    ErrorFacts,
    Failure,
    MeasureTurn,
    Proceed,
    RequestContext,
    TimingReady,
    TurnTimes,
)
from musadata.verifier.rules import catalogue as rules
from musadata.verifier.trusted.baseline_process import Turn
from musadata.verifier.trusted.candidate_session import CandidateSession, Compilations
from musadata.verifier.trusted.timing import Reply, summarise, time_candidate
from musadata.verifier.trusted.timing_policy import TimingPolicy

POLICY = TimingPolicy(repetitions=40, turn=10, least=10, warm_up_ms=0.0)


class NothingToCheck:
    """Times of which no result is compared."""

    input_bytes = 0
    known_ms = 0.0
    failure = rules.TIMING_EXCEPTION

    def before(self, measured):
        yield from ()

    after = before

    def end_timing(self):
        self.is_alone = False


class Rival:
    """A baseline whose calls take what it is told."""

    on_device = True
    bytes_per_ms = 0.0

    def __init__(self, milliseconds, overhead=0.1):
        self.milliseconds, self.overhead, self.turns = milliseconds, overhead, 0

    def measure(self, count):
        self.turns += 1
        return Turn((self.milliseconds,) * count, count * (self.milliseconds + self.overhead))


def drive(rival, measure, share=None, policy=POLICY, compiled=None):
    """Run a schedule against a candidate that answers `measure(turn number, count)` with times and wall."""
    schedule = time_candidate(policy, rival, compiled, NothingToCheck())
    turns = 0
    command = next(schedule)
    try:
        while True:
            if isinstance(command, MeasureTurn):
                turns += 1
                reply = measure(turns, command.count)
            else:
                reply = Reply(share, 1.0)
            command = schedule.send(reply)
    except StopIteration as end:
        return end.value, turns


def steady(milliseconds, overhead=0.1):
    return lambda turn, count: Reply(TurnTimes((milliseconds,) * count), count * (milliseconds + overhead))


def test_turns_alternate_and_give_medians_with_intervals():
    rival = Rival(2.0)
    measured, turns = drive(rival, steady(0.5))
    times = {timing.name: timing for timing in measured.timings}
    assert measured.error_class is None
    assert (times["candidate"].median_ms, times["eager"].median_ms) == (0.5, 2.0)
    assert (times["candidate"].low_ms, times["candidate"].high_ms, times["candidate"].repetitions) == (0.5, 0.5, 20)
    assert rival.turns == turns + 1  # once more, alone


def test_median_interval_covers_the_middle_of_what_was_seen():
    timing = summarise("candidate", [float(value) for value in range(1, 102)])
    assert timing.median_ms == 51.0
    assert 40 < timing.low_ms < 51 < timing.high_ms < 62


def test_warm_up_goes_on_until_two_turns_agree_which_count():
    falling = [1.0, 5.0, 3.0, 1.0]  # the first is a single call, to see how long one takes
    measured, _ = drive(Rival(1.0), lambda turn, count: steady(falling[min(turn, 4) - 1])(turn, count))
    assert measured.timings[0].median_ms == measured.timings[0].high_ms == 1.0
    assert measured.timings[0].repetitions == 2 * POLICY.turn


def test_measuring_goes_on_until_the_median_is_certain():
    def calming(turn, count):
        times = [1.0 if turn > 20 else 1.0 + 0.1 * (turn % 3) + 0.01 * i for i in range(count)]
        return Reply(TurnTimes(tuple(times)), sum(times) + 0.1 * count)

    timing = drive(Rival(1.0), calming)[0].timings[0]
    assert POLICY.least < timing.repetitions < POLICY.rounds * POLICY.repetitions
    assert timing.high_ms - timing.low_ms <= POLICY.certain * timing.median_ms


def test_a_candidate_that_is_far_too_slow_is_measured_by_few_calls():
    measured, turns = drive(Rival(1.0), steady(21.0))
    assert (measured.timings[0].median_ms, measured.timings[0].repetitions, turns) == (21.0, 3, 2)
    assert measured.error_class is None
    assert drive(Rival(1.0), steady(19.0))[0].timings[0].repetitions == POLICY.least


def test_a_call_that_has_been_compared_tells_how_long_one_takes():
    checks = NothingToCheck()
    checks.known_ms = 15.0
    assert next(time_candidate(POLICY, Rival(1.0), None, checks)) == MeasureTurn(2)
    checks.known_ms = 0.0
    assert next(time_candidate(POLICY, Rival(1.0), None, checks)) == MeasureTurn(1)


def test_a_long_call_that_has_been_compared_is_all_that_is_measured_of_a_candidate_that_is_far_too_slow():
    checks = NothingToCheck()
    checks.known_ms = 21 * 100.0

    def drive_known(eager_ms):
        schedule = time_candidate(POLICY, Rival(eager_ms), None, checks)
        try:
            return next(schedule)
        except StopIteration as end:
            return end.value

    measured = drive_known(100.0)
    assert [(one.name, one.median_ms) for one in measured.timings] == [("candidate", 2100.0), ("eager", 100.0)]
    assert (measured.timings[0].repetitions, measured.error_class, checks.is_alone) == (1, None, False)
    assert isinstance(drive_known(110.0), MeasureTurn)  # not too slow: it is called again
    checks.known_ms = 21 * 10.0
    assert isinstance(drive_known(10.0), MeasureTurn)  # what others on the device may have made of a short call


def test_noisy_times_are_taken_again_within_bounds():
    def noisy(turn, count):
        times = [0.1 + 0.05 * ((turn * 7 + i * 5) % 11) for i in range(count)]
        return Reply(TurnTimes(tuple(times)), sum(times) + 0.1 * count)

    measured, _ = drive(Rival(1.0), noisy)
    assert measured.timings[0].repetitions == POLICY.rounds * POLICY.repetitions


def test_times_that_will_not_become_certain_in_time_are_given_up():
    def noisy(turn, count):
        times = [10.0 + 5.0 * ((turn * 7 + i * 5) % 11) for i in range(count)]
        return Reply(TurnTimes(tuple(times)), sum(times) + 0.1 * count)

    measured, _ = drive(Rival(10.0), noisy)
    assert POLICY.least < measured.timings[0].repetitions < 40


def test_few_calls_that_take_far_longer_are_no_reason_to_give_up():
    def disturbed(turn, count):
        times = [60.0 if turn in (4, 6) and i == 0 else 50.0 for i in range(count)]
        return Reply(TurnTimes(tuple(times)), sum(times) + 0.1 * count)

    timing = drive(Rival(50.0), disturbed)[0].timings[0]
    assert POLICY.least < timing.repetitions < 40
    assert timing.low_ms == timing.high_ms == 50.0


def test_times_that_differ_by_less_than_events_can_tell_are_not_taken_again():
    microseconds = [3.4, 3.7]  # of a kernel so short that this is more than `certain`

    def jittery(turn, count):
        return Reply(TurnTimes(tuple(microseconds[i % 2] * 1e-3 for i in range(count))), 0.1 * count)

    measured, _ = drive(Rival(1.0), jittery)
    timing = measured.timings[0]
    assert timing.high_ms - timing.low_ms > POLICY.certain * timing.median_ms
    assert timing.repetitions == 2 * POLICY.turn


def test_slow_kernels_are_called_less_often():
    def noisy(turn, count):
        times = [400.0 + 50.0 * ((turn * 7 + i * 5) % 11) for i in range(count)]
        return Reply(TurnTimes(tuple(times)), sum(times) + 0.1 * count)

    measured, _ = drive(Rival(400.0), noisy)
    assert POLICY.least <= measured.timings[0].repetitions < POLICY.repetitions / 2


def test_one_turn_of_calls_of_seconds_is_enough():
    for eager_ms, own_ms in ((3500.0, 4600.0), (1100.0, 900.0)):
        measured, turns = drive(rival := Rival(eager_ms), steady(own_ms))
        assert [one.median_ms for one in measured.timings] == [own_ms, eager_ms]
        assert (measured.timings[0].repetitions, turns, rival.turns) == (2, 2, 3)


def test_work_that_events_do_not_show_is_cheating():
    measured, _ = drive(Rival(2.0), steady(0.01, overhead=2.0))
    assert measured.error_class is ErrorClass.CHEATING
    assert [finding.rule for finding in measured.findings] == ["timing.hidden_work"]


def test_a_host_that_is_busy_for_some_turns_accuses_nobody():
    _, usual = drive(Rival(2.0), steady(0.01))

    def delayed(turn, count):
        return steady(0.01, overhead=2.0 if turn <= usual else 0.1)(turn, count)

    measured, turns = drive(Rival(2.0), delayed)
    assert turns > usual
    assert measured.error_class is None


def test_faster_than_memory_can_be_read_is_cheating():
    rival = Rival(2.0)
    rival.bytes_per_ms = 1e6
    rival.least_traffic = lambda: 500_000
    checks = NothingToCheck()
    checks.input_bytes = 1_000_000
    schedule = time_candidate(POLICY, rival, None, checks)
    command = next(schedule)
    with pytest.raises(StopIteration) as end:
        while True:
            times = (0.1,) * command.count if isinstance(command, MeasureTurn) else ()
            command = schedule.send(Reply(TurnTimes(times), 2.0))
    assert [finding.rule for finding in end.value.value.findings] == ["timing.impossible"]


@pytest.mark.parametrize(
    "answer",
    [None, TurnTimes(()), TurnTimes((-1.0,) * 10), TurnTimes((math.nan,) * 10), TimingReady(), Failure(ErrorFacts())],
)
def test_answers_that_are_no_times_speak_against_the_candidate(answer):
    measured, _ = drive(Rival(2.0), lambda turn, count: Reply(answer, 1.0))
    assert measured.error_class is ErrorClass.RUNTIME
    assert measured.timings == []


def test_without_a_baseline_the_candidate_is_still_timed():
    measured, _ = drive(None, steady(0.5))
    assert [timing.name for timing in measured.timings] == ["candidate"]
    assert measured.error_class is None


def test_baseline_that_was_held_up_counts_as_it_is_alone():
    rival = Rival(2.0)
    rival.measure = lambda count, plain=rival.measure: (
        plain(count) if rival.turns < 3 else Turn((1.0,) * count, 1.1 * count)
    )
    measured, _ = drive(rival, steady(0.5), policy=replace(POLICY, warm_up_turns=4))
    assert rival.turns == 3
    assert measured.timings[1].median_ms == 1.0


def test_share_of_own_kernels_is_what_is_saved_without_them():
    share = DeviceTimes(rest=0.85, empty=0.1)
    assert drive(Rival(2.0), steady(1.1), share)[0].own_share == pytest.approx(0.25)
    measured, _ = drive(Rival(2.0), steady(1.1), share)
    assert [finding.rule for finding in measured.findings] == ["timing.share"]


def test_leave_to_make_a_context_is_given_once_and_back_with_the_next_question():
    leaves = threading.Semaphore(1)
    sessions = [
        CandidateSession(VerifierConfig(), Compilations(None), None, 0, None, None, None, leaves) for _ in range(2)
    ]
    for session in sessions:
        assert session.serve(RequestContext()) == Proceed()
        assert not leaves.acquire(blocking=False)
        session.serve(ContextMade())
        assert session.serve(RequestContext()) == Proceed()  # a candidate that asks again holds nobody up
        assert leaves.acquire(blocking=False)
        leaves.release()
    CandidateSession(VerifierConfig(), Compilations(None), None, 0, None, None, None, leaves).leave()
    assert leaves._value == 1
