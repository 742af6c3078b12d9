import threading
from concurrent.futures import Future
from unittest.mock import Mock, patch

import pytest

from musadata.config import VerifierConfig
from musadata.records import ConditionFact, Finding, VerifyStage
from musadata.sandbox import Outcome
from musadata.verifier.protocol.message_encoding import encode, read_claims, serve_candidate
from musadata.verifier.protocol.messages import (
    CallFacts,
    CandidateFacts,
    ContextMade,
    JudgeRequest,
    Proceed,
    Refused,
    RequestContext,
    RequestDevice,
    Stop,
)
from musadata.verifier.trusted.candidate_report import Report, read_crash, read_facts
from musadata.verifier.trusted.candidate_session import CandidateSession, Compilations, _with_times
from musadata.verifier.trusted.judge import Judgement, _judge_end


def open_session(contexts: threading.Semaphore) -> CandidateSession:
    return CandidateSession(VerifierConfig(), Compilations(Mock()), Future(), 1, None, None, None, contexts)


def test_context_is_free_again_once_it_has_been_made() -> None:
    contexts = threading.Semaphore(1)
    session = open_session(contexts)
    session.serve(RequestContext())
    assert not contexts.acquire(blocking=False)
    session.serve(ContextMade())
    assert contexts.acquire(blocking=False)


def test_a_context_is_made_without_waiting_for_a_candidate_that_is_timed() -> None:
    lock = Mock()
    session = CandidateSession(
        VerifierConfig(), Compilations(Mock()), Future(), 1, lock, None, None, threading.Semaphore(1)
    )
    session.serve(RequestContext())
    session.serve(ContextMade())
    assert lock.method_calls == []
    session.serve(RequestDevice())
    assert [call[0] for call in lock.method_calls] == ["share"]


def test_candidate_that_asks_for_a_context_again_keeps_nobody_waiting() -> None:
    contexts = threading.Semaphore(1)
    session = open_session(contexts)
    for said in (RequestContext(), ContextMade(), RequestContext()):
        session.serve(said)
    assert contexts.acquire(blocking=False)


def test_context_of_a_process_that_ends_is_free_again() -> None:
    contexts = threading.Semaphore(1)
    session = open_session(contexts)
    session.serve(RequestContext())
    session.leave()
    session.leave()
    assert contexts.acquire(blocking=False) and not contexts.acquire(blocking=False)


@pytest.mark.parametrize("in_time", [True, False])
def test_candidate_is_rejected_by_a_crosscheck_that_ends_before_it_is_timed_or_later(in_time: bool) -> None:
    good = Judgement(VerifyStage.PROFILE, conditions=(ConditionFact("declared", 1, 1),))
    bad = (Finding("device.race_in_block", "a race"),)
    expected: Future[Mock] = Future()
    expected.set_result(Mock())
    crosscheck: Future[tuple[Finding, ...]] = Future()
    if in_time:
        crosscheck.set_result(bad)
    lock, timing = Mock(), Mock(return_value=Mock(opening=Proceed(), measured=None, deadline=None))
    compilations, contexts = Compilations(Mock()), threading.Semaphore(1)
    session = CandidateSession(VerifierConfig(), compilations, expected, 1, lock, None, timing, contexts, crosscheck)
    with patch.object(session, "_judge_run", return_value=good):
        request = JudgeRequest(CandidateFacts(), {})
        assert session.serve(request) == (Stop() if in_time else Proceed())
        assert timing.called is not in_time
        if not in_time:
            crosscheck.set_result(bad)
        judgement = session.conclude(Outcome("ok", {}))
    assert judgement.findings[0].message.startswith("a race Seen in emulation")
    assert [call[0] for call in lock.method_calls] == ["release", *(["release"] if in_time else [])]
    assert timing.call_args_list == ([] if in_time else [((expected.result(), lock),)])  # it takes the device


@pytest.mark.parametrize("sources", [5, [], {"cpp": 5}, {"cuda": True}, {"headers": 5}, {"headers": [1]}])
def test_request_to_compile_that_is_none_is_refused(sources: object) -> None:
    compilations = Compilations(Mock())
    named = {"name": "one", **sources} if isinstance(sources, dict) else sources
    answer = serve_candidate(compilations.serve)({"message": "CompileRequest", "sources": named})
    assert answer == encode(Refused("not a request to compile"))
    assert not compilations.findings and not compilations.backend.compile.called


def test_message_that_is_forged_is_refused_by_a_session() -> None:
    session = open_session(threading.Semaphore(1))
    for said in ({"message": "Plan"}, {"message": "Proceed"}, {"message": "RequestPlan", "seed": 1}, {}, None, [], "x"):
        assert serve_candidate(session.serve)(said) == encode(Refused("not a request to compile"))


@pytest.mark.parametrize("value", [5, True, "text", [1], {"tampered": 5}, {"tampered": {"a": 1}}, {"tampered": [[]]}])
def test_whatever_a_process_says_of_itself_it_is_judged(value: object) -> None:
    outcome = Outcome("ok", value)
    assert read_facts(outcome) == CandidateFacts()
    compilations = Compilations(Mock())
    assert compilations.judge(failed=False) is None
    assert {finding.rule for finding in compilations.findings} == {"legality.no_kernel"}
    assert _with_times(Judgement(VerifyStage.PROFILE), outcome, None).findings


@pytest.mark.parametrize("error", [{}, [], None, "x", 9])
def test_whatever_is_said_of_a_refused_launch_is_told(error: object) -> None:
    item = read_claims(CallFacts, {"records": {"refused": [{"error": error, "name": "k"}]}})
    report = Report(CandidateFacts(), {"output0": item}, {}, ())
    (finding,) = _judge_end(Outcome("ok", {}), report, [], [])
    assert finding.rule == "device.launch"
    assert ("(invalid configuration)" in finding.message) == (error == 9)


def test_line_that_led_to_a_crash_is_read_from_what_the_process_left() -> None:
    stack = b"a sentence\nFatal Python error: Segmentation fault\n\nCurrent thread (most recent call first):\n"
    stack += b'  File "torch/nn/modules/conv.py", line 9 in forward\n  File "<candidate>", line 31 in forward\n'
    assert read_crash({"faults": stack}) == (("a sentence",), 31)
    assert read_crash({"faults": b"File \"<candidate>\", line 99999999999 in x"}) == (
        ('File "<candidate>", line 99999999999 in x',), 0
    )  # fmt: skip
    assert read_crash({}) == ((), 0)
