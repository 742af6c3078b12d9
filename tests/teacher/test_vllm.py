"""Against a real vLLM server; its URL (up to /v1, serving the model `tiny`) comes from MUSADATA_VLLM."""

import os

import pytest

from musadata.config import TeacherConfig, TeacherType
from musadata.records import ChatMessage
from musadata.teacher.grounding import parse_steps
from musadata.teacher.openai import OpenAITeacher
from musadata.teacher.protocol import Answer, CannotAnswer, Request, RequestKind
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
    with OpenAITeacher(config) as teacher:
        yield teacher


def question(text: str, kind: RequestKind = RequestKind.GENERATE, seed: int = 1) -> Request:
    return Request(kind, example("relu"), traces_of("relu"), (ChatMessage("user", text),), seed=seed)


def test_the_same_seed_gives_the_same_answer_and_another_seed_another(teacher):
    first, again, other = (teacher.answer(question("Write a kernel.", seed=seed)) for seed in (1, 1, 2))
    assert first == again and first.text and first != other


def test_a_pool_of_requests_is_answered_completely(teacher):
    requests = [question(f"Write kernel {index}.", seed=index) for index in range(48)]
    answers = list(concurrently(teacher.answer, requests, 16))
    assert len(answers) == len(requests)
    assert all(isinstance(answer, Answer) for answer in answers)


def test_a_prompt_that_is_too_long_is_refused_alone(teacher):
    with pytest.raises(CannotAnswer, match="prompt too long for the model"):
        teacher.answer(question("kernel " * 20_000))


def test_reasoning_in_a_json_schema_comes_back_as_steps():
    """Random weights fill the six texts with anything, but the form is the server's own doing."""
    config = TeacherConfig(TeacherType.OPENAI, model="tiny", base_url=URL, max_tokens=3000, concurrency=4)
    with OpenAITeacher(config) as teacher:
        requests = [question("Reason.", RequestKind.REASON, seed) for seed in range(4)]
        texts = [answer.text for answer in concurrently(teacher.answer, requests, 4)]
    whole = [text for text in texts if parse_steps(text)]
    cut = [text for text in texts if text.lstrip().startswith("{")]  # ran into max_tokens inside of a text
    assert len(texts) == 4 and len(whole) + len(cut) == 4
