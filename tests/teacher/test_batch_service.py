"""Batches: what waits together is sent together, and found again after a crash."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from musadata.config import RequestsConfig, TeacherConfig, TeacherType
from musadata.errors import BudgetSpent, MusadataError
from musadata.teacher import batch, open_panel
from musadata.teacher.batch import BatchTeacher
from musadata.teacher.openai import OpenAITeacher
from musadata.teacher.protocol import RemoteTeacher, RequestFailed
from tests.teacher.batch_server import BatchServer
from tests.teacher.faulty_server import completion
from tests.teacher.test_openai import question


def opened(url: str = "", path: str = "", retries: int = 2, **settings) -> BatchTeacher:
    config = TeacherConfig(TeacherType.BATCH, model="tiny", base_url=url, path=path, **settings)
    return BatchTeacher(config, RequestsConfig(retries=retries), settle_s=0.05, poll_s=0.01)


def ask(teacher: BatchTeacher, texts: list[str]) -> list[str]:
    def one(text: str) -> str:
        try:
            return teacher.answer(question(text)).text
        except RequestFailed as failure:
            return f"failed: {failure.reason}"

    with ThreadPoolExecutor(len(texts)) as pool:
        return list(pool.map(one, texts))


def echo(body: dict) -> tuple[int, dict]:
    return 200, completion(f"about {body['messages'][-1]['content']}")


TEXTS = [f"task {number}" for number in range(20)]
ANSWERS = [f"about {text}" for text in TEXTS]


def test_requests_that_wait_together_are_one_file():
    with BatchServer(echo) as server, opened(server.url) as teacher:
        assert ask(teacher, TEXTS) == ANSWERS
        assert len(server.batches) == 1


def test_a_file_has_at_most_as_many_requests_as_the_config_allows():
    with BatchServer(echo) as server, opened(server.url, concurrency=8) as teacher:
        assert ask(teacher, TEXTS) == ANSWERS
        sizes = [len(server.files[batch["input_file_id"]].splitlines()) for batch in server.batches.values()]
        assert sum(sizes) == 20
        assert max(sizes) <= 8


def test_what_a_killed_run_has_sent_is_not_sent_again():
    with BatchServer(echo, looks=10**9) as server:
        killed = opened(server.url)
        threads = [threading.Thread(target=ask, args=(killed, [text])) for text in TEXTS[:12]]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(threading, "excepthook", lambda _: None)
            for thread in threads:
                thread.start()
            while not server.batches:
                time.sleep(0.01)
            killed.close()
            for thread in threads:
                thread.join()
        server.looks = 1
        with opened(server.url) as teacher:
            assert ask(teacher, TEXTS) == ANSWERS
        files = [server.files[batch["input_file_id"]] for batch in server.batches.values()]
        sent = [json.loads(line)["custom_id"] for file in files for line in file.splitlines()]
        assert len(sent) == len(set(sent)) == 20


def test_a_batch_that_is_sent_is_paid_for_and_waited_for_when_the_budget_is_spent():
    spent = BudgetSpent("the budget is spent", where="requests.budget_tokens", remedy="raise it")
    with BatchServer(echo, looks=10**9) as server, opened(server.url) as teacher, ThreadPoolExecutor(20) as threads:
        sent = [threads.submit(teacher.answer, question(text)) for text in TEXTS]
        while not server.batches:
            time.sleep(0.01)
        teacher.stop(spent)
        with pytest.raises(BudgetSpent):
            teacher.answer(question("one more"))
        server.looks = 1
        assert [one.result().text for one in sent] == ANSWERS
        assert len(server.batches) == 1


def test_replies_that_are_missing_or_useless_are_asked_for_again_and_refusals_are_not():
    seen: dict[str, int] = {}

    def reply(body: dict) -> tuple[int, dict] | None:
        text = body["messages"][-1]["content"]
        seen[text] = seen.get(text, 0) + 1
        if text == "refused":
            return 400, {"error": {"message": "no such field"}}
        if seen[text] == 1:
            return {"late": None, "empty": (200, completion("")), "busy": (500, {"error": {"message": "busy"}})}[text]
        return None if text == "never" else echo(body)

    with BatchServer(reply, looks=1, status="expired") as server, opened(server.url) as teacher:
        found = ask(teacher, ["late", "empty", "busy", "refused"])
    assert found == ["about late", "about empty", "about busy", "failed: request refused (400)"]
    assert seen == {"late": 2, "empty": 2, "busy": 2, "refused": 1}


def test_a_batch_that_fails_ends_the_run_with_the_services_words():
    with BatchServer(echo, looks=1, status="failed") as server, opened(server.url) as teacher:
        with pytest.raises(MusadataError, match="batch-0 has failed"):
            teacher.answer(question("a"))
        with pytest.raises(MusadataError, match="batch-0 has failed"):
            teacher.answer(question("b"))


def test_no_service_is_one_line():
    with opened("http://127.0.0.1:9/v1", retries=0) as teacher:
        with pytest.raises(MusadataError, match="no batch service"):
            teacher.check_server()
        with pytest.raises((MusadataError, OSError)):
            teacher.answer(question("a"))


def test_a_folder_is_answered_by_whoever_writes_the_other_file(tmp_path):
    """The lines are those of vLLM's `run_batch`: custom_id, method, url, body; the replies as well."""
    done = threading.Event()

    def run_batch() -> None:
        while not (found := list(Path(tmp_path).glob("*.input.jsonl"))):
            time.sleep(0.01)
        lines = [json.loads(line) for line in found[0].read_text().splitlines()]
        assert {(line["method"], line["url"], line["body"]["model"]) for line in lines} == {
            ("POST", "/v1/chat/completions", "tiny")
        }
        replies = [
            {"id": "vllm-1", "custom_id": line["custom_id"], "error": None,
             "response": {"status_code": 200, "request_id": "r", "body": echo(line["body"])[1]}}
            for line in lines
        ]  # fmt: skip
        Path(str(found[0]).replace(".input.", ".output.")).write_text("\n".join(map(json.dumps, replies)))
        done.set()

    threading.Thread(target=run_batch, daemon=True).start()
    with opened(path=str(tmp_path)) as teacher:
        assert ask(teacher, TEXTS[:5]) == ANSWERS[:5]
    assert done.is_set()
    with opened(path=str(tmp_path)) as teacher:  # another run finds the file
        assert ask(teacher, TEXTS[:5]) == ANSWERS[:5]
    assert len(list(tmp_path.glob("*.input.jsonl"))) == 1


REFUSALS = {  # as vLLM 0.32 words them
    "too long": (400, "BadRequestError", "This model's maximum context length is 4096 tokens. However, your prompt"),
    "too cold": (400, "BadRequestError", "temperature must be non-negative, got -3.0."),
    "no model": (404, "NotFoundError", "The model `other` does not exist. Valid aliases: tiny."),
}


def replies_to(folder: Path) -> list[str]:
    """The lines that whoever answers writes for the only file that has no output."""
    while not (waiting := [one for one in folder.glob("*.input.jsonl") if not output_of(one).exists()]):
        time.sleep(0.01)
    asked = [json.loads(line) for line in waiting[0].read_text().splitlines()]
    answers = [
        {"custom_id": one["custom_id"], "response": dict(zip(("status_code", "body"), echo(one["body"]), strict=True))}
        for one in asked
    ]
    return [json.dumps(one) for one in answers]


def output_of(path: Path) -> Path:
    return path.with_name(path.name.replace(".input.", ".output."))


def test_an_output_with_fewer_lines_than_requests_is_read_and_the_rest_asked_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(batch, "_STILL_SECONDS", 0.5)
    with ThreadPoolExecutor(5) as pool, opened(path=str(tmp_path)) as teacher:
        asked = [pool.submit(teacher.answer, question(text)) for text in TEXTS[:5]]
        lines = replies_to(tmp_path)
        first = output_of(next(tmp_path.glob("*.input.jsonl")))
        stranger = json.dumps({"custom_id": "unknown", "response": {"status_code": 200, "body": {}}})
        first.write_text("\n".join([*lines[:2], stranger, stranger, lines[2][:50]]))
        while (done := sum(one.done() for one in asked)) < 2:
            time.sleep(0.01)
        assert done == 2
        more = replies_to(tmp_path)
        assert len(more) == 3
        second = next(one for one in tmp_path.glob("*.input.jsonl") if not output_of(one).exists())
        output_of(second).write_text("\n".join(more))
        assert [one.result().text for one in asked] == ANSWERS[:5]
    assert f"replies of batch {first.name[:24]}, at {first}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("what", "error", "words"),
    [
        ("too long", RequestFailed, "prompt too long for the model"),
        ("too cold", RequestFailed, r"request refused \(400\)"),
        ("no model", MusadataError, "remove the output file .* --served-model-name tiny"),
    ],
)
def test_what_run_batch_refuses_is_not_asked_again(tmp_path, what, error, words):
    """Its errors lie in an error, beside a status and a reply that is null."""
    status, kind, message = REFUSALS[what]
    said = {"error": {"message": message, "type": kind, "param": None, "code": status}}

    def run_batch() -> None:
        while not (found := list(Path(tmp_path).glob("*.input.jsonl"))):
            time.sleep(0.01)
        line = json.loads(found[0].read_text())
        reply = {"id": "vllm-1", "custom_id": line["custom_id"], "error": said,
                 "response": {"status_code": status, "request_id": "r", "body": None}}  # fmt: skip
        Path(str(found[0]).replace(".input.", ".output.")).write_text(json.dumps(reply) + "\n")

    threading.Thread(target=run_batch, daemon=True).start()
    with opened(path=str(tmp_path)) as teacher, pytest.raises(error, match=words):
        teacher.answer(question("a"))
    assert len(list(tmp_path.glob("*.input.jsonl"))) == 1


def test_batches_and_servers_share_their_answers_and_one_interface():
    config = TeacherConfig(TeacherType.BATCH, model="tiny", base_url="http://127.0.0.1:9/v1")
    teacher = open_panel((config,), RequestsConfig())
    assert isinstance(teacher, BatchTeacher)
    assert isinstance(teacher, RemoteTeacher)
    assert teacher.name == OpenAITeacher(config).name
