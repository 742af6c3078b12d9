import asyncio
import dataclasses
import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from musadata.config import RequestsConfig, TeacherConfig, TeacherType
from musadata.errors import MusadataError, Outage
from musadata.records import Usage
from musadata.storage.journal import Journal
from musadata.teacher import open_teacher
from musadata.teacher.chat import REASONING_SCHEMA
from musadata.teacher.claims.steps import parse_claims, parse_steps
from musadata.teacher.openai import OpenAITeacher, _Keeping
from musadata.teacher.prompts import STEPS, render_generation, render_reasoning
from musadata.teacher.protocol import Answer, CannotAnswer, Request, RequestFailed, RequestKind
from musadata.training_rows import ChatMessage
from pipelines.steps import WINDOW, concurrently
from tests.teacher.chat_server import ChatServer, refusal, reply
from tests.tracing.examples import example, traces_of


def question(text: str, kind: RequestKind = RequestKind.GENERATE, seed: int = 5) -> Request:
    messages = (ChatMessage("system", "You write kernels."), ChatMessage("user", text))
    return Request(kind, example("relu"), (), messages, seed=seed)


def teacher_at(url: str, **settings: object) -> OpenAITeacher:
    config = TeacherConfig(TeacherType.OPENAI, model="tiny", base_url=url, concurrency=8, timeout_seconds=60.0)
    return OpenAITeacher(dataclasses.replace(config, **settings), RequestsConfig(retries=5), first_delay_s=0.01)


def test_a_request_carries_messages_and_sampling_and_the_key_from_the_environment(monkeypatch):
    monkeypatch.setenv("MUSADATA_API_KEY", "secret")
    messages = render_generation(example("gelu_chain"), traces_of("gelu_chain"))
    with ChatServer(lambda body, attempt: reply("done")) as server, teacher_at(server.url, temperature=0.5) as teacher:
        request = Request(RequestKind.GENERATE, example("gelu_chain"), (), messages, seed=2**40 + 3)
        assert teacher.answer(request).text == "done"
    (body,) = server.bodies
    assert body["messages"] == [dataclasses.asdict(message) for message in messages]
    assert (body["model"], body["temperature"], body["top_p"]) == ("tiny", 0.5, 0.95)
    assert "response_format" not in body and "seed" not in body
    assert server.headers[0]["Authorization"] == "Bearer secret"
    assert "secret" not in teacher.name


def test_seeds_are_sent_where_wanted_and_differ_between_tasks_samples_and_turns():
    with ChatServer(lambda body, attempt: reply("done")) as server, teacher_at(server.url, send_seed=True) as teacher:
        for name, sample, turn in (
            ("relu", 0, 1),
            ("relu", 1, 1),
            ("relu", 0, 2),
            ("gelu_chain", 0, 1),
            ("relu", 0, 1),
        ):
            one = question("a")
            teacher.answer(dataclasses.replace(one, task=example(name), sample=sample, turn=turn))
    seeds = [body["seed"] for body in server.bodies]
    assert len(set(seeds)) == 4 and seeds[0] == seeds[4]
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_extra_body_is_added_and_null_leaves_a_key_out():
    extra = {"top_k": 20, "chat_template_kwargs": {"enable_thinking": False}, "top_p": None}
    with ChatServer(lambda body, attempt: reply("done")) as server, teacher_at(server.url, extra_body=extra) as teacher:
        teacher.answer(question("a"))
        assert "top_k=20" in teacher.name
    assert server.bodies[0]["top_k"] == 20 and "top_p" not in server.bodies[0]
    assert server.bodies[0]["chat_template_kwargs"] == {"enable_thinking": False}


def test_what_the_server_tells_about_its_reply_is_kept():
    choice = {
        "finish_reason": "stop",
        "message": {"content": "done", "reasoning_content": "Hmm."},
        "logprobs": {"content": [{"token": "do", "logprob": -0.5}, {"token": "ne", "logprob": -0.25}]},
    }
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "completion_tokens_details": {"reasoning_tokens": 7},
        "prompt_tokens_details": {"cached_tokens": 64},
    }
    body = {"model": "tiny-2", "system_fingerprint": "fp", "choices": [choice], "usage": usage}
    with ChatServer(lambda _, attempt: (200, body, {})) as server, teacher_at(server.url) as teacher:
        answer = teacher.answer(question("a"))
        assert answer.server == server.url
    assert (answer.text, answer.thoughts, answer.finish_reason) == ("done", "Hmm.", "stop")
    assert answer.logprobs == (-0.5, -0.25)
    assert answer.usage == Usage(100, 20, 7, 64)
    assert answer.served_model == "tiny-2@fp"


def test_no_key_is_sent_where_there_is_none(monkeypatch):
    monkeypatch.delenv("MUSADATA_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with ChatServer(lambda body, attempt: reply("done")) as server, teacher_at(server.url) as teacher:
        teacher.answer(question("a"))
    assert "Authorization" not in server.headers[0]


def test_reasoning_is_asked_for_as_json_and_comes_back_as_six_headed_steps():
    steps = {step: f"text of {step},\nwith lines" for step in STEPS}
    claims = [{"sentence": "with lines", "claim": 'numel("x") == 1'}]
    messages = render_reasoning(example("relu"), traces_of("relu"))
    request = Request(RequestKind.REASON, example("relu"), traces_of("relu"), messages)
    content = json.dumps(steps | {"claims": claims})
    with ChatServer(lambda body, attempt: reply(content)) as server, teacher_at(server.url) as teacher:
        answer = teacher.answer(request)
    assert server.bodies[0]["response_format"]["json_schema"]["schema"] == REASONING_SCHEMA
    assert {step.step: step.text for step in parse_steps(answer.text)} == steps
    assert parse_claims(answer.text) == [("with lines", 'numel("x") == 1')]


@pytest.mark.parametrize(
    "content", ['{"semantic decomposition": "only one"}', "## Index mapping\nPlain text.", '{"cut']
)
def test_reasoning_in_another_form_is_handed_on_as_it_is(content):
    with ChatServer(lambda body, attempt: reply(content)) as server, teacher_at(server.url) as teacher:
        assert teacher.answer(question("a", RequestKind.REASON)).text == content


def test_a_server_without_response_format_is_asked_again_without_it_and_only_once():
    def behave(body, attempt):
        return refusal(400, "unknown field response_format") if "response_format" in body else reply("## text")

    with ChatServer(behave) as server, teacher_at(server.url) as teacher:
        for text in ("a", "b"):
            assert teacher.answer(question(text, RequestKind.REASON)).text == "## text"
    assert len(server.bodies) == 3


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_server_in_trouble_is_asked_again_until_it_answers(status):
    with (
        ChatServer(lambda body, attempt: refusal(status) if attempt < 4 else reply("at last")) as server,
        teacher_at(server.url) as teacher,
    ):
        assert teacher.answer(question("a")).text == "at last"
    assert len(server.bodies) == 4


def test_retry_after_is_honoured():
    with (
        ChatServer(lambda body, attempt: refusal(429, Retry_After="0.5") if attempt == 1 else reply("ok")) as server,
        teacher_at(server.url) as teacher,
    ):
        start = time.monotonic()
        teacher.answer(question("a"))
        assert time.monotonic() - start >= 0.5


def test_a_request_that_takes_too_long_is_sent_again():
    hangs = iter([1.5, 0.0])
    with (
        ChatServer(lambda body, attempt: reply("ok"), delay_s=lambda body: next(hangs)) as server,
        teacher_at(server.url, timeout_seconds=0.3) as teacher,
    ):
        assert teacher.answer(question("a")).text == "ok"


@pytest.mark.parametrize(
    ("answer", "advice"),
    [
        (refusal(401, "bad key"), "set MUSADATA_API_KEY"),
        (refusal(404, "model `tiny` does not exist"), "check teacher.base_url"),
        (refusal(429, "no", code="insufficient_quota"), "add credit"),
    ],
)
def test_what_a_user_can_mend_is_said_with_the_remedy(answer, advice):
    with ChatServer(lambda body, attempt: answer) as server, teacher_at(server.url) as teacher:
        with pytest.raises(MusadataError, match=advice) as error:
            teacher.answer(question("a"))
        assert server.url in str(error.value) and "\n" not in str(error.value)


def test_a_server_that_is_not_there_is_named():
    with (
        OpenAITeacher(
            TeacherConfig(TeacherType.OPENAI, model="tiny", base_url="http://127.0.0.1:9/v1"),
            RequestsConfig(wait_seconds=0.1),
            first_delay_s=0.01,
        ) as teacher,
        pytest.raises(MusadataError, match=r"127\.0\.0\.1:9.*start the server"),
    ):
        teacher.answer(question("a"))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (refusal(400, "This model's maximum context length is 4096 tokens"), "prompt too long for the model"),
        (refusal(422, "bad role"), "request refused (422)"),
    ],
)
def test_what_concerns_one_request_alone_is_a_countable_refusal(answer, reason):
    with ChatServer(lambda body, attempt: answer) as server, teacher_at(server.url) as teacher:
        with pytest.raises(RequestFailed) as refused:
            teacher.answer(question("a"))
        assert refused.value.reason == reason
        assert refused.value.detail == answer[1]["error"]["message"]
        assert len(server.bodies) == 1


@pytest.mark.parametrize("answer", [reply(None), reply("  \n"), (200, {"choices": []}, {})])
def test_useless_reply_is_asked_for_again_and_then_fails(answer):
    with ChatServer(lambda body, attempt: answer) as server, teacher_at(server.url) as teacher:
        with pytest.raises(RequestFailed, match=r"empty reply|reply without a message"):
            teacher.answer(question("a"))
        assert len(server.bodies) == 6


def test_slot_is_free_while_a_request_waits_to_be_sent_again():
    with (
        ChatServer(lambda body, attempt: refusal(503, Retry_After="0.6") if attempt == 1 else reply("ok")) as server,
        teacher_at(server.url, concurrency=1) as teacher,
    ):
        start = time.monotonic()
        list(concurrently(teacher.answer, [question(f"q{index}") for index in range(4)], 4))
        assert time.monotonic() - start < 1.5  # 2.4 if each kept its slot


def test_request_ends_by_its_deadline():
    config = TeacherConfig(TeacherType.OPENAI, model="tiny", base_url="", timeout_seconds=60.0)
    with ChatServer(lambda body, attempt: reply("ok"), delay_s=lambda body: 30.0) as server:
        requests = RequestsConfig(retries=5, deadline_seconds=0.4)
        with OpenAITeacher(dataclasses.replace(config, base_url=server.url), requests) as teacher:
            start = time.monotonic()
            with pytest.raises(RequestFailed, match="TimeoutError"):
                teacher.answer(question("a"))
            assert time.monotonic() - start < 2


@pytest.mark.parametrize(
    ("models", "status", "words"),
    [
        ({"data": [{"id": "other"}]}, 404, "listed: other"),
        ({"data": [{"id": "tiny"}]}, 500, ""),
        ({"data": [{"id": "alias"}]}, 200, ""),
        ({"error": "no list"}, 500, ""),
    ],
)
def test_server_is_asked_for_its_model_before_the_run(models, status, words):
    answer = reply("ok") if status == 200 else refusal(status, "does not exist")
    with ChatServer(lambda body, attempt: answer, models=models) as server, teacher_at(server.url) as teacher:
        if words:
            with pytest.raises(MusadataError, match=words):
                teacher.check_server()
        else:
            teacher.check_server()


def test_a_server_that_is_started_anew_is_waited_for_and_costs_no_try(capsys):
    with ChatServer(lambda body, attempt: reply("before")) as server, teacher_at(server.url) as teacher:
        teacher.answer(question("a"))
        url = server.url
    with OpenAITeacher(
        TeacherConfig(TeacherType.OPENAI, model="tiny", base_url=url), RequestsConfig(retries=1), first_delay_s=0.01
    ) as teacher:
        threads = ThreadPoolExecutor(4)
        asked = [threads.submit(teacher.answer, question(f"q{number}")) for number in range(4)]
        time.sleep(0.5)  # many more looks than tries
        assert not any(one.done() for one in asked)
        with ChatServer(lambda body, attempt: reply("after"), port=int(url.split(":")[2].split("/")[0])):
            assert [one.result().text for one in asked] == ["after"] * 4
        threads.shutdown()
    said = capsys.readouterr().err
    assert said.count("waiting for it, up to 20 s") == 1 and said.count("answers again after") == 1


def test_a_server_that_does_not_come_back_ends_the_run():
    config = TeacherConfig(TeacherType.OPENAI, model="tiny", base_url="http://127.0.0.1:9/v1")
    with (
        OpenAITeacher(config, RequestsConfig(wait_seconds=0.2), first_delay_s=0.01) as teacher,
        pytest.raises(MusadataError, match="no server answers"),
    ):
        teacher.answer(question("a"))


def test_missing_server_is_found_before_the_run():
    with teacher_at("http://127.0.0.1:9/v1") as teacher, pytest.raises(MusadataError, match="start the server"):
        teacher.check_server()


def text_of(body: dict) -> str:
    return body["messages"][-1]["content"]


def test_requests_of_several_threads_have_no_batch_barriers_and_keep_to_their_concurrency():
    """One slow request among forty must not hold the others up."""
    asked_before_q0 = []

    def behave(body, attempt):
        if text_of(body) == "q0":
            asked_before_q0.append(len(server.bodies))
        return reply(text_of(body).upper())

    with (
        ChatServer(behave, delay_s=lambda body: {"q0": 1.0}.get(text_of(body), 0.02)) as server,
        teacher_at(server.url) as teacher,
    ):
        answers = list(concurrently(teacher.answer, (question(f"q{index}") for index in range(40)), 4))
    assert [answer.text for answer in answers] == [f"Q{index}" for index in range(40)]
    assert asked_before_q0[0] >= 8  # with barriers it would be among the first four
    assert server.most_at_once <= 4


def test_a_refusal_concerns_one_request_and_what_a_user_must_mend_stops_all():
    def behave(body, attempt):
        return refusal(400, "too many tokens") if text_of(body) == "q3" else reply("ok")

    def ask(request):
        try:
            return teacher.answer(request)
        except CannotAnswer as refused:
            return refused

    with ChatServer(behave) as server, teacher_at(server.url) as teacher:
        found = list(concurrently(ask, [question(f"q{index}") for index in range(6)], 8))
    assert isinstance(found[3], CannotAnswer)
    assert [isinstance(answer, Answer) for answer in found] == [True, True, True, False, True, True]
    with ChatServer(lambda body, attempt: refusal(401)) as server, teacher_at(server.url) as teacher:
        with pytest.raises(MusadataError, match="key was refused"):
            list(concurrently(teacher.answer, (question(f"q{index}") for index in range(100)), 8))
        assert len(server.bodies) < 100


def test_no_more_requests_are_drawn_than_can_be_under_way_or_wait():
    drawn = []

    def requests():
        for index in range(1000):
            drawn.append(index)
            yield question(f"q{index}")

    with (
        ChatServer(lambda body, attempt: reply("ok"), delay_s=lambda body: 0.02) as server,
        teacher_at(server.url) as teacher,
    ):
        answers = concurrently(teacher.answer, requests(), 3)
        next(answers)
        assert len(drawn) <= 3 * WINDOW
        answers.close()


def test_the_config_opens_the_teacher():
    config = TeacherConfig(TeacherType.OPENAI, model="tiny", base_url="http://127.0.0.1:9/v1")
    assert open_teacher(config, 0).name == "openai:tiny:temperature=0.8:top_p=0.95:max_tokens=16384"


def test_results_of_one_turn_are_all_written_before_one_of_them_goes_on(tmp_path):
    folder = tmp_path / "journal"

    async def keep_some(journal):
        keeping = _Keeping()

        async def keep(key):
            await keeping.keep(lambda result: journal.put(key, result.text), Answer(key))
            return list(Journal(folder, "answers"))

        return await asyncio.gather(*map(keep, "abc"), return_exceptions=True)

    with Journal(folder, "answers") as journal:
        assert asyncio.run(keep_some(journal)) == [["a", "b", "c"]] * 3
        assert len(list(folder.iterdir())) == 1
    with Journal(folder, "other") as journal:
        shutil.rmtree(folder)
        assert [type(error) for error in asyncio.run(keep_some(journal))] == [Outage] * 3
