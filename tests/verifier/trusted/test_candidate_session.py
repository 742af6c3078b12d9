import threading
from concurrent.futures import Future
from unittest.mock import Mock, patch

import pytest

from musadata.config import VerifierConfig
from musadata.records import ErrorClass, Finding, VerifyStage
from musadata.sandbox import Outcome
from musadata.verifier.trusted.candidate_report import Report
from musadata.verifier.trusted.candidate_session import CandidateSession, Compilations, _with_times
from musadata.verifier.trusted.judge import Judgement, _judge_end


def open_trial(contexts: threading.Semaphore) -> CandidateSession:
    return CandidateSession(VerifierConfig(), Compilations(Mock(), True), Future(), 1, None, None, None, contexts)


def test_context_is_free_again_once_it_has_been_made() -> None:
    contexts = threading.Semaphore(1)
    trial = open_trial(contexts)
    trial.serve({"context": "wanted"})
    assert not contexts.acquire(blocking=False)
    trial.serve({"context": "made"})
    assert contexts.acquire(blocking=False)


def test_nobody_is_timed_while_a_context_is_made() -> None:
    lock = Mock()
    trial = CandidateSession(
        VerifierConfig(), Compilations(Mock(), True), Future(), 1, lock, None, None, threading.Semaphore(1)
    )
    trial.serve({"context": "wanted"})
    assert [call[0] for call in lock.method_calls] == ["share"]
    trial.serve({"context": "made"})
    trial.leave()
    assert [call[0] for call in lock.method_calls] == ["share", "release"]


def test_candidate_that_asks_for_a_context_again_keeps_nobody_waiting() -> None:
    contexts = threading.Semaphore(1)
    trial = open_trial(contexts)
    for said in ("wanted", "made", "wanted"):
        trial.serve({"context": said})
    assert contexts.acquire(blocking=False)


def test_context_of_a_process_that_ends_is_free_again() -> None:
    contexts = threading.Semaphore(1)
    trial = open_trial(contexts)
    trial.serve({"context": "wanted"})
    trial.leave()
    trial.leave()
    assert contexts.acquire(blocking=False) and not contexts.acquire(blocking=False)


@pytest.mark.parametrize("in_time", [True, False])
def test_candidate_is_rejected_by_an_opinion_that_comes_before_it_is_timed_or_later(in_time: bool) -> None:
    good = Judgement(VerifyStage.PROFILE, None, 1.0, ())
    bad = Judgement(VerifyStage.EXECUTE, ErrorClass.RUNTIME, 0.0, (Finding("device.race_in_block", "a race"),))
    expected: Future[Mock] = Future()
    expected.set_result(Mock())
    lock, timing, opinion = Mock(), Mock(), Mock(is_there=in_time, reconsider=Mock(return_value=bad))
    compilations, contexts = Compilations(Mock(), True), threading.Semaphore(1)
    trial = CandidateSession(VerifierConfig(), compilations, expected, 1, lock, None, timing, contexts, opinion)
    with patch.object(trial, "_judge_outcome", return_value=good):
        assert trial.serve({"judge": {}}) == ({"stop": True} if in_time else {"time": True})
        assert timing.called is not in_time
        assert trial.conclude(Outcome("ok", {})) == bad
    assert [call[0] for call in lock.method_calls] == ["release", "take_alone", *(["release"] if in_time else [])]


@pytest.mark.parametrize("sources", [5, [], {"cpp": 5}, {"cuda": True}, {"headers": 5}, {"headers": [1]}])
def test_request_to_compile_that_is_none_is_refused(sources: object) -> None:
    compilations = Compilations(Mock(), True)
    assert compilations.serve({"compile": sources}) == {"error": "not a request to compile"}
    assert not compilations.findings and not compilations.backend.compile.called


@pytest.mark.parametrize("value", [5, True, "text", [1], {"tampered": 5}, {"tampered": {"a": 1}}, {"tampered": [[]]}])
def test_whatever_a_process_says_of_itself_it_is_judged(value: object) -> None:
    outcome = Outcome("ok", value)
    assert Compilations(Mock(), True).judge(outcome) is not None
    assert _with_times(Judgement(VerifyStage.PROFILE, None, 1.0, ()), outcome, None).error_class is not None


@pytest.mark.parametrize("error", [{}, [], None, "x", 9])
def test_whatever_is_said_of_a_refused_launch_is_told(error: object) -> None:
    report = Report({}, {"output0": {"records": {"refused": [{"error": error, "name": "k"}]}}}, {}, ())
    (finding,) = _judge_end(Outcome("ok", {}), report)
    assert finding.rule == "device.launch"
    assert ("(invalid configuration)" in finding.message) == (error == 9)
