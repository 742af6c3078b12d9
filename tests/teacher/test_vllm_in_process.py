"""vLLM's engine in this process, here one that only has its interface; `test_vllm.py` has a real server."""

import asyncio
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType, SimpleNamespace

import pytest

from musadata.config import RequestsConfig, TeacherConfig, TeacherType
from musadata.errors import BudgetSpent, Cancelled, MusadataError
from musadata.teacher import open_panel
from musadata.teacher.protocol import RemoteTeacher, RequestFailed, RequestKind
from musadata.teacher.vllm import VLLMTeacher
from tests.teacher.faulty_server import STEPS
from tests.teacher.test_openai import question


class Tokenizer:
    def apply_chat_template(self, messages, tokenize, add_generation_prompt, **more):
        return "|".join(message["content"] for message in messages)

    def encode(self, text, add_special_tokens):
        return list(text.encode())


class Engine:
    def __init__(self, arguments):
        self.arguments, self.asked, self.closed = arguments, [], False

    def get_tokenizer(self):
        return Tokenizer()

    async def generate(self, prompt, sampling, request_id):
        text = bytes(prompt["prompt_token_ids"]).decode()
        self.asked.append((text, sampling, request_id))
        if "too long" in text:
            raise ValueError("the prompt is longer than max_model_len")
        if "slow" in text:
            await asyncio.sleep(0.1)
        if "dead" in text:
            raise RuntimeError("EngineDeadError")
        said = str(dict.fromkeys(STEPS, "Words.")).replace("'", '"') if "structured_outputs" in sampling else "Hi."
        for end in (2, len(said)):
            best = SimpleNamespace(text=said[:end], token_ids=[1] * end, finish_reason="stop")
            yield SimpleNamespace(outputs=[best], prompt_token_ids=prompt["prompt_token_ids"], num_cached_tokens=3)

    def shutdown(self):
        self.closed = True


@pytest.fixture
def engines(monkeypatch):
    """The engines that were made; modules of vLLM stand in `sys.modules`."""
    made: list[Engine] = []

    def from_engine_args(arguments):
        if arguments["model"] == "absent":
            raise OSError("absent is not a local folder")
        made.append(Engine(arguments))
        return made[-1]

    def sampling(**settings):
        if "nonsense" in settings:
            raise TypeError("unexpected keyword 'nonsense'")
        return settings

    contents = {
        "vllm": {"SamplingParams": sampling},
        "vllm.sampling_params": {"StructuredOutputsParams": lambda **settings: settings},
        "vllm.engine": {},
        "vllm.engine.arg_utils": {"AsyncEngineArgs": lambda **settings: settings},
        "vllm.v1": {},
        "vllm.v1.engine": {},
        "vllm.v1.engine.async_llm": {"AsyncLLM": SimpleNamespace(from_engine_args=from_engine_args)},
    }
    for name, content in contents.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    return made


def opened(model: str = "tiny", **settings) -> VLLMTeacher:
    teacher = open_panel((TeacherConfig(TeacherType.VLLM, model=model, **settings),), RequestsConfig(retries=1))
    assert isinstance(teacher, VLLMTeacher)
    assert isinstance(teacher, RemoteTeacher)
    return teacher


def test_answers_come_from_one_engine_with_the_config_arguments(engines):
    with opened(engine={"max_model_len": 64}, extra_body={"top_k": 5}) as teacher:
        kept = []
        answer = teacher.answer_and_keep(question("a"), kept.append)
        teacher.answer(question("b"))
        assert kept == [answer]
        assert (answer.text, answer.teacher, answer.server) == ("Hi.", teacher.name, "vllm")
        assert (answer.usage.completion_tokens, answer.usage.cached_tokens) == (3, 3)
    [engine] = engines
    assert engine.arguments == {"model": "tiny", "max_model_len": 64}
    text, sampling, _ = engine.asked[0]
    assert text == "You write kernels.|a"
    assert (sampling["top_k"], sampling["temperature"]) == (5, 0.8)


def test_six_steps_are_asked_for_by_their_schema(engines):
    with opened() as teacher:
        answer = teacher.answer(question("a", RequestKind.REASON))
    assert answer.text.count("Words.") == 6
    assert engines[0].asked[0][1]["structured_outputs"]["json"]["required"]


def test_a_prompt_that_is_refused_fails_alone_and_a_dead_engine_ends_the_run(engines):
    with opened() as teacher:
        with pytest.raises(RequestFailed, match="max_model_len"):
            teacher.answer(question("too long"))
        assert teacher.answer(question("a")).text == "Hi."
        with pytest.raises(MusadataError, match="vLLM has failed"):
            teacher.answer(question("dead"))


@pytest.mark.parametrize("error, is_answered", [(BudgetSpent, True), (Cancelled, False)])
def test_what_the_engine_has_in_hand_is_finished_only_if_a_budget_is_spent(engines, error, is_answered):
    with opened() as teacher, ThreadPoolExecutor(1) as thread:
        asked = thread.submit(teacher.answer, question("slow"))
        while not engines or not engines[0].asked:
            time.sleep(0.001)
        teacher.stop(error("is over", where="here"))
        with pytest.raises(error):
            teacher.answer(question("b"))
        assert (asked.exception() is None) is is_answered


@pytest.mark.usefixtures("engines")
def test_what_a_user_can_mend_is_one_line():
    with opened("absent") as teacher, pytest.raises(MusadataError, match="cannot load the model"):
        teacher.answer(question("a"))
    with opened(extra_body={"nonsense": 1}) as teacher, pytest.raises(MusadataError, match="extra_body"):
        teacher.answer(question("a"))
    with pytest.raises(MusadataError, match="2 workers"):
        open_panel((TeacherConfig(TeacherType.VLLM, model="m"),), RequestsConfig(), workers=2)


def test_a_missing_vllm_is_named_before_the_first_stage(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    with opened() as teacher, pytest.raises(MusadataError, match=r"musadata\[vllm\]"):
        teacher.check_server()
