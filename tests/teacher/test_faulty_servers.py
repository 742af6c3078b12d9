"""Whatever a server sends, a request ends with an answer that files can hold or with a reason, before its deadline."""

import json
import time
from collections import Counter

import pytest

from musadata.config import RequestsConfig, TeacherConfig, TeacherType
from musadata.errors import MusadataError
from musadata.rows import plain
from musadata.teacher.claims.steps import parse_steps
from musadata.teacher.openai import OpenAITeacher
from musadata.teacher.prompts import STEPS
from musadata.teacher.protocol import Answer, RequestFailed, RequestKind
from pipelines.steps import concurrently
from tests.teacher.faulty_server import FATAL, FAULTS, VARIANTS, FaultyServer
from tests.teacher.test_openai import question

TIMEOUT_S, DEADLINE_S, SLACK_S = 0.3, 2.0, 1.5


def teacher_at(url: str, retries: int = 1, stop_at_failed: float = 1.0) -> OpenAITeacher:
    config = TeacherConfig(TeacherType.OPENAI, model="tiny", base_url=url, concurrency=16, timeout_seconds=TIMEOUT_S)
    requests = RequestsConfig(retries=retries, deadline_seconds=DEADLINE_S, stop_at_failed=stop_at_failed)
    return OpenAITeacher(config, requests, first_delay_s=0.01)


def outcome(teacher: OpenAITeacher, request) -> Answer | RequestFailed:
    try:
        return teacher.answer(request)
    except RequestFailed as failure:
        return failure


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_that_stays_is_a_failed_request_with_its_reason_and_passes_when_mended(fault):
    with FaultyServer((fault,)) as server, teacher_at(server.url) as teacher:
        start = time.monotonic()
        found = outcome(teacher, question("a", RequestKind.REASON))
        assert time.monotonic() - start < DEADLINE_S + SLACK_S
        assert isinstance(found, RequestFailed) and found.reason
        json.dumps([found.reason, found.detail]).encode()
        server.faults = ()
        assert parse_steps(teacher.answer(question("a", RequestKind.REASON)).text)


@pytest.mark.parametrize("kind", [RequestKind.REASON, RequestKind.GENERATE])
@pytest.mark.parametrize("variant", VARIANTS)
def test_odd_reply_that_is_usable_is_used(variant, kind):
    with FaultyServer((variant,)) as server, teacher_at(server.url) as teacher:
        answer = teacher.answer(question("a", kind))
    assert server.requests == 1
    assert "think>" not in answer.text
    json.dumps(plain(answer), ensure_ascii=False).encode()  # valid Unicode
    if kind is RequestKind.REASON:
        assert [step.step for step in parse_steps(answer.text)] == list(STEPS)
    else:
        assert "class ModelNew" in answer.text


@pytest.mark.parametrize("fault", FATAL)
def test_what_is_wrong_for_everyone_stops_all_requests_at_once_in_the_servers_words(fault):
    with FaultyServer((fault,), latency_s=0.01) as server, teacher_at(server.url, retries=5) as teacher:
        with pytest.raises(MusadataError, match=r"add credit|set MUSADATA_API_KEY|check teacher\.base_url"):
            list(concurrently(teacher.answer, (question(f"q{index}") for index in range(1000)), 16))
        assert server.requests <= 32


def test_a_tenth_of_all_faults_mixed_leaves_every_other_request_answered():
    faults = tuple(fault for fault in FAULTS if fault != "huge_reply")
    with FaultyServer((*faults, *VARIANTS), share=0.1, seed=3) as server, teacher_at(server.url) as teacher:
        requests = [question(f"q{index}", RequestKind.REASON) for index in range(400)]
        found = list(concurrently(lambda one: outcome(teacher, one), requests, 24))
        reasons = Counter(type(one).__name__ for one in found)
        assert reasons["Answer"] >= 340 and reasons["Answer"] + reasons["RequestFailed"] == 400
        server.faults = ()
        assert all(isinstance(outcome(teacher, one), Answer) for one in requests)


def test_run_stops_when_too_many_requests_fail_and_says_what_the_server_said():
    with (
        FaultyServer(("http_400_max_tokens",)) as server,
        teacher_at(server.url, stop_at_failed=0.5) as teacher,
    ):
        with pytest.raises(MusadataError, match=r"requests failed.*max_tokens is too large: 16384"):
            list(concurrently(lambda one: outcome(teacher, one), (question(f"q{i}") for i in range(1000)), 16))
        assert server.requests < 60


def test_fault_that_passes_is_never_seen():
    faults = ("http_500", "http_503_retry_after", "close", "half_json", "no_http", "http_429")
    with FaultyServer(faults, times=1) as server, teacher_at(server.url, retries=3) as teacher:
        answers = list(concurrently(teacher.answer, [question(f"q{index}") for index in range(40)], 8))
    assert len(answers) == 40 and server.requests == 80
