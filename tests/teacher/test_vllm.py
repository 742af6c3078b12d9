"""Against a real vLLM server; its URL (up to /v1, serving the model `tiny`) comes from MUSADATA_VLLM."""

import os

import pytest

from musadata.config import RequestsConfig, TeacherConfig, TeacherType
from musadata.teacher.claims.steps import parse_steps
from musadata.teacher.openai import OpenAITeacher
from musadata.teacher.protocol import CannotAnswer, Request, RequestFailed, RequestKind
from musadata.training_rows import ChatMessage
from pipelines.steps import concurrently
from tests.tracing.examples import example, traces_of

URL = os.environ.get("MUSADATA_VLLM", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not URL, reason="no vLLM server: start one and set MUSADATA_VLLM to its URL"),
]


@pytest.fixture
def teacher():
    config = TeacherConfig(
        TeacherType.OPENAI, model="tiny", base_url=URL, max_tokens=48, concurrency=16, send_seed=True
    )
    with OpenAITeacher(config, RequestsConfig(stop_at_failed=1.0)) as teacher:
        yield teacher


def question(text: str, kind: RequestKind = RequestKind.GENERATE, seed: int = 1) -> Request:
    return Request(kind, example("relu"), traces_of("relu"), (ChatMessage("user", text),), seed=seed)


def outcome(teacher: OpenAITeacher, request: Request) -> str:
    """Text of an answer; random weights are often cut off, or say nothing."""
    try:
        return teacher.answer(request).text
    except RequestFailed as failure:
        assert failure.reason == "truncated at max_tokens" or failure.detail == "empty reply"
        return failure.reason


def test_the_same_seed_gives_the_same_answer_and_another_seed_another():
    config = TeacherConfig(
        TeacherType.OPENAI, model="tiny", base_url=URL, max_tokens=48, send_seed=True, extra_body={"stop": ["e"]}
    )
    with OpenAITeacher(config) as teacher:  # stops at a letter, so that random words are an answer
        first, again, other = (teacher.answer(question("Write.", seed=seed)).text for seed in (1, 1, 2))
    assert first == again and first != other


def test_a_pool_of_requests_is_answered_completely(teacher):
    requests = [question(f"Write kernel {index}.", seed=index) for index in range(48)]
    texts = list(concurrently(lambda request: outcome(teacher, request), requests, 16))
    assert len(texts) == len(requests) and all(texts)


def test_a_prompt_that_is_too_long_is_refused_alone(teacher):
    with pytest.raises(CannotAnswer, match="prompt too long for the model"):
        teacher.answer(question("kernel " * 20_000))


def test_reasoning_in_a_json_schema_comes_back_as_steps():
    """Random weights fill the six texts with anything, but the form is the server's own doing."""
    config = TeacherConfig(TeacherType.OPENAI, model="tiny", base_url=URL, max_tokens=3000, concurrency=4)
    with OpenAITeacher(config) as teacher:
        requests = [question("Reason.", RequestKind.REASON, seed) for seed in range(4)]
        texts = list(concurrently(lambda request: outcome(teacher, request), requests, 4))
    whole = [text for text in texts if parse_steps(text)]
    assert len(whole) + sum(text.startswith(("truncated", "no answer")) for text in texts) == 4
