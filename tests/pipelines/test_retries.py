"""Rounds of retries over a corpus: begun once, completed by any run, the same bytes however they were interrupted."""

import hashlib
import math
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from pipelines import resources
from pipelines.all import main
from tests.pipelines.test_moved_tasks import World, contents, fresh_process, make_source
from tests.teacher.chat_server import ChatServer

pytestmark = pytest.mark.timeout(300)

CONFIG = """\
seed: 7
shards: 2
sources: [{source}]
profiling: {{share: 0}}
teacher: {{kind: openai, base_url: '{url}', model: tiny, samples: 2, concurrency: 2}}
sampling: {{turns: 2, retry_tries: 2}}
"""


class Stubborn(World):
    """Its teacher says something else when `mood` is another; its verifier accepts half of what is said in some."""

    mood = ""

    def verify(self, task, text, shape_sets):
        verdict = super().verify(task, text, shape_sets)
        half = hashlib.sha256(text.encode()).digest()[0] % 2
        return accepted(verdict) if text.startswith("lucky") and half else verdict

    def answer(self, body, attempt):
        status, answered, headers = super().answer(body, attempt)
        if self.mood and "choices" in answered and "response_format" not in body:
            message = answered["choices"][0]["message"]
            message["content"] = f"{self.mood}: {message['content']}"
        return status, answered, headers


def accepted(verdict):
    return type(verdict)(**{**vars(verdict), "accepted": True, "error_class": None, "test_share": 1.0})


@pytest.fixture
def world(tmp_path, monkeypatch):
    source = make_source(tmp_path / "a", 1, (3, 2))
    with ChatServer(lambda body, attempt: made.answer(body, attempt)) as server:
        made = Stubborn(server, tmp_path, (source,))
        (tmp_path / "config.yaml").write_text(CONFIG.format(source=source, url=server.url))
        monkeypatch.setattr(resources, "verifier", lambda config, teacher: made)
        yield made


def run(world: World, corpus: str, *flags: str) -> int:
    """How many answers a run costs."""
    arguments = ["--config", str(world.folder / "config.yaml"), "--corpus", str(world.folder / corpus)]
    given = world.given
    with fresh_process():
        code = main([*arguments, "--direct_num_workers=1", *flags])
    assert code == (2 if world.given == world.patience else 0)
    return world.given - given


def retries(corpus: Path) -> list[dict]:
    return ds.dataset(corpus / "retries", format="parquet").to_table().to_pylist()


def test_tasks_whose_answers_all_failed_come_back_until_they_are_solved_or_given_up(world, tmp_path, capsys):
    corpus = tmp_path / "corpus"
    run(world, "corpus")
    rows = retries(corpus)
    tasks = len(rows)
    assert tasks == 5 and {row["state"] for row in rows} == {"waiting"}
    assert all(row["feedback"] in row["prompt"][-1]["content"] for row in rows)
    before = contents(corpus)
    assert run(world, "corpus") == 0  # a run without the flag begins no round
    assert contents(corpus) == before

    world.mood = "lucky"
    assert run(world, "corpus", "--retry-buffer") == tasks
    states = Counter(row["state"] for row in retries(corpus))
    assert set(states) == {"waiting", "solved"}  # as the seed has it
    trajectories = ds.dataset(corpus / "trajectories", format="parquet").to_table().to_pylist()
    again = [row for row in trajectories if row["success"]]
    assert len(again) == states["solved"]
    assert all(row["outcomes"] == ["compile", "accepted"] and len(row["candidates"]) == 2 for row in again)
    candidates = ds.dataset(corpus / "candidates", format="parquet").to_table().to_pylist()
    assert len({row["candidate_id"] for row in candidates}) == len(candidates)
    assert sum(row["accepted"] for row in candidates) == states["solved"]
    after = contents(corpus)
    assert run(world, "corpus") == 0
    assert contents(corpus) == after

    world.mood = "sad"
    assert run(world, "corpus", "--retry-buffer") == states["waiting"]
    assert Counter(row["state"] for row in retries(corpus)) == {
        "solved": states["solved"],
        "given up": states["waiting"],
    }
    final = contents(corpus)
    capsys.readouterr()
    assert run(world, "corpus", "--retry-buffer") == 0
    assert "0 tasks wait for a retry" in capsys.readouterr().err
    assert contents(corpus) == final


@pytest.mark.slow
def test_a_round_that_was_interrupted_is_completed_and_not_begun_again(world, tmp_path):
    run(world, "whole")
    cost = run(world, "broken")
    world.mood = "lucky"
    run(world, "whole", "--retry-buffer")
    world.patience = world.given + 2
    assert run(world, "broken", "--retry-buffer") == 2
    world.patience = math.inf
    assert run(world, "broken", "--retry-buffer") <= 3 < cost
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")
    assert {row["tries"] for row in retries(tmp_path / "broken")} == {1}
