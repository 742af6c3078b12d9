"""Several teachers in one run: who is asked what."""

import dataclasses
from collections import Counter
from contextlib import ExitStack

import pytest

from musadata.config import RequestsConfig, TeacherConfig, TeacherRole, TeacherType
from musadata.sampling.request_cache import RequestCache
from musadata.storage.journal import Journal
from musadata.teacher import open_panel
from musadata.teacher.protocol import RequestKind, namer
from tests.teacher.faulty_server import FaultyServer
from tests.teacher.test_openai import question


def member(model: str, url: str = "http://127.0.0.1:9/v1", **settings) -> TeacherConfig:
    return TeacherConfig(TeacherType.OPENAI, model=model, base_url=url, **settings)


def asked(number: int, kind: RequestKind, sample: int = 0, turn: int = 1):
    request = question("a", kind)
    task = dataclasses.replace(request.task, task_id=f"task-{number}")
    return dataclasses.replace(request, task=task, sample=sample, turn=turn)


def test_requests_are_spread_by_weight_and_a_conversation_stays_with_its_teacher():
    with open_panel((member("a", weight=3.0), member("b")), RequestsConfig()) as panel:
        drawn = Counter(namer(panel)(asked(number, RequestKind.GENERATE)) for number in range(1000))
        assert {name.split(":")[1]: round(count / 1000, 1) for name, count in drawn.items()} in (
            {"a": 0.8, "b": 0.2},
            {"a": 0.7, "b": 0.3},
            {"a": 0.8, "b": 0.3},
        )
        for number in range(50):
            first = namer(panel)(asked(number, RequestKind.GENERATE, 1))
            assert first == namer(panel)(asked(number, RequestKind.REPAIR, 1, 2))


def test_each_role_is_filled_by_those_that_have_it():
    reasoner = member("r", roles=(TeacherRole.REASONER,))
    generator = member("g", roles=(TeacherRole.GENERATOR,))
    reviewer = member("v", roles=(TeacherRole.REVIEWER,))
    with open_panel((reasoner, generator, reviewer), RequestsConfig()) as panel:
        found = {kind: namer(panel)(asked(1, kind)).split(":")[1] for kind in RequestKind}
    reasoned, reviewed = (RequestKind.REASON, RequestKind.QUESTION), (RequestKind.REPAIR, RequestKind.TEST)
    assert found == {RequestKind.GENERATE: "g", **dict.fromkeys(reasoned, "r"), **dict.fromkeys(reviewed, "v")}


def test_answers_of_several_teachers_are_kept_under_their_own_names(tmp_path):
    with ExitStack() as stack:
        servers = [stack.enter_context(FaultyServer()) for _ in range(2)]
        configs = [member(name, server.url) for name, server in zip("ab", servers, strict=True)]
        journal = stack.enter_context(Journal(tmp_path, "answers"))
        panel = stack.enter_context(open_panel(configs, RequestsConfig()))
        cache = RequestCache(journal, journal, "", "")
        requests = [asked(number, RequestKind.GENERATE) for number in range(20)]
        answers = [cache.ask_teacher(panel)(request) for request in requests]
        assert [answer.teacher for answer in answers] == [namer(panel)(request) for request in requests]
        assert {answer.server for answer in answers} == {server.url for server in servers}
        assert [cache.recall_answers(panel)(request) for request in requests] == answers
        assert sum(server.requests for server in servers) == 20


@pytest.mark.parametrize("wrong", ["weight: 0", "roles: [reasoner]", "roles: [judge]", "kind: compiler"])
def test_wrong_panel_is_one_line(tmp_path, wrong):
    from musadata.config import load_config
    from musadata.errors import MusadataError

    one = "kind: openai, model: m, base_url: 'http://x/v1'"
    given = f"{one}, {wrong}" if not wrong.startswith("kind") else wrong
    roles = "roles: [reasoner]" if wrong == "roles: [reasoner]" else "samples: 2"
    text = f"sources: [{{kind: package, name: torch}}]\nteacher: {{{one}, {roles}}}\nteachers: [{{{given}}}]\n"
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(MusadataError, match=r"teachers"):
        load_config(tmp_path / "c.yaml")
