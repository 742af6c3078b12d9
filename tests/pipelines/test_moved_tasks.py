"""What was answered and judged for a task is not paid for again where the task moves to another shard."""

import hashlib
import json
import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from musadata.records import ErrorClass, Task, Verdict
from musadata.storage.commits import withdraw_commit
from musadata.storage.shards import Shard
from musadata.teacher.prompts import STEPS
from pipelines import journals, resources
from pipelines.all import main
from tests.teacher.chat_server import ChatServer, refusal, reply

pytestmark = pytest.mark.timeout(300)

NET = "class Net{0}(nn.Module):\n    def forward(self, x):\n        return {1}\n"
OPERATORS = ("tanh", "sin", "cos", "exp", "sigmoid", "neg", "erf", "square", "atan")
TURNS = 2


def make_source(folder: Path, seed: int, files: tuple[int, ...]) -> str:
    """A folder of Python files with so many modules each, all different; its entry in a config."""
    folder.mkdir()
    draw = random.Random(seed)
    for number, modules in enumerate(files):
        nets = []
        for module in range(modules):
            body = "x"
            for operator in draw.sample(OPERATORS, 5):
                body = f"torch.{operator}({body})"
            nets.append(NET.format(f"{seed}x{number}x{module}", body))
        (folder / f"nets{number}.py").write_text("\n\n".join(["import torch\nfrom torch import nn\n", *nets]))
    return f"{{kind: directory, path: {folder}, license: MIT}}"


@dataclass
class World:
    """A teacher behind HTTP and a verifier that rejects everything; both count what they are asked for.

    Attributes:
        given: answers that the teacher gave.
        patience: how many it gives before it refuses.
    """

    server: ChatServer
    folder: Path
    sources: tuple[str, ...]
    judged: list[str] = field(default_factory=list)
    given: int = 0
    patience: float = math.inf

    def run(self, corpus: str, sources: int, shards: int) -> tuple[int, int]:
        """How many answers and verdicts a run costs."""
        config = self.folder / "config.yaml"
        config.write_text(
            f"seed: 7\nshards: {shards}\nprofiling: {{share: 0}}\nsources: [{', '.join(self.sources[:sources])}]\n"
            f"teacher: {{kind: openai, base_url: '{self.server.url}', model: tiny, samples: 1, concurrency: 2}}\n"
            f"sampling: {{turns: {TURNS}}}\n"
        )
        answered, judged = self.given, len(self.judged)
        with fresh_process():
            code = main(["--config", str(config), "--corpus", str(self.folder / corpus), "--direct_num_workers=1"])
        assert code == (2 if self.given == self.patience else 0)
        return self.given - answered, len(self.judged) - judged

    def verify(self, task: Task, text: str, shape_sets: object) -> Verdict:
        self.judged.append(task.task_id)
        return Verdict(
            error_class=ErrorClass.COMPILE,
            feedback=f"no, {task.name}",
            backend="emulated",
            policy="strict",
        )

    def answer(self, body: dict[str, Any], attempt: int) -> tuple[int, dict[str, Any], dict[str, str]]:
        if self.given == self.patience:
            return refusal(401, "the key has expired")
        self.given += 1
        if "response_format" in body:
            claims = [{"sentence": f"{STEPS[0]} of it", "claim": "1 == 2"}]
            return reply(json.dumps({step: f"{step} of it" for step in STEPS} | {"claims": claims}))
        words = json.dumps(body["messages"]).encode()
        return reply(f"I cannot: {hashlib.sha256(words).hexdigest()}")


@contextmanager
def fresh_process() -> Iterator[None]:
    """Nothing remembered from an earlier run, nothing left of this one; only the warm sandboxes stay."""
    opened = (journals.journal, resources.source, resources.miner, resources.teacher)
    try:
        yield
    finally:
        for one in opened:
            one.cache_clear()


@pytest.fixture
def world(tmp_path, monkeypatch) -> Iterator[World]:
    sources = (make_source(tmp_path / "a", 1, (6, 1, 1, 1)), make_source(tmp_path / "b", 2, (5, 1)))
    # Some answers overtake others, so that a run that breaks off has paid for some that nobody waits for any more.
    delay_s = random.Random(3).uniform
    with ChatServer(lambda body, attempt: made.answer(body, attempt), lambda body: delay_s(0, 0.05)) as server:
        made = World(server, tmp_path, sources)
        monkeypatch.setattr(resources, "verifier", lambda config, teacher: made)
        yield made


def homes(corpus: Path) -> dict[str, str]:
    """The shard of every task."""
    return {
        task: path.name
        for path in (corpus / "tasks").glob("*.parquet")
        for task in pq.read_table(path, columns=["task_id"])["task_id"].to_pylist()
    }


def contents(corpus: Path) -> dict[str, bytes]:
    return {str(path.relative_to(corpus)): path.read_bytes() for path in sorted(corpus.rglob("*.parquet"))}


def cost(tasks: int) -> tuple[int, int]:
    """Answers and verdicts that so many tasks cost once: analysis and correction, turns, questions, a test."""
    return tasks * (2 + TURNS + 2), tasks * TURNS


def test_another_source_costs_what_its_own_tasks_do_though_the_old_ones_move(world):
    corpus = world.folder / "corpus"
    first = world.run("corpus", sources=1, shards=3)
    before = homes(corpus)
    assert first == cost(len(before))
    second = world.run("corpus", sources=2, shards=3)
    after = homes(corpus)
    assert any(after[task] != before[task] for task in before)
    assert second == cost(len(after) - len(before))


def test_another_number_of_shards_costs_nothing(world):
    world.run("corpus", sources=1, shards=3)
    assert world.run("corpus", sources=1, shards=2) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize(("sources", "shards"), [(2, 3), (1, 2)])
def test_what_has_moved_makes_the_same_bytes_as_a_fresh_run(world, sources, shards):
    world.run("corpus", sources=1, shards=3)
    world.run("corpus", sources=sources, shards=shards)
    world.run("fresh", sources=sources, shards=shards)
    assert contents(world.folder / "corpus") == contents(world.folder / "fresh")


def test_a_run_that_breaks_off_after_tasks_have_moved_goes_on_without_paying_twice(world):
    corpus = world.folder / "corpus"
    world.run("corpus", sources=1, shards=3)
    before = homes(corpus)
    world.patience = world.given + 5
    answered, judged = world.run("corpus", sources=2, shards=3)
    assert answered == 5
    world.patience = math.inf
    rest = world.run("corpus", sources=2, shards=3)
    assert (answered + rest[0], judged + rest[1]) == cost(len(homes(corpus)) - len(before))


def test_journals_that_an_older_version_left_below_shards_still_count(world):
    corpus = world.folder / "corpus"
    world.run("corpus", sources=1, shards=3)
    for stage in ("stage2", "stage3"):
        withdraw_commit(str(corpus), stage, Shard(0, 3))
        below = corpus / "_journal" / stage / str(Shard(1, 3))
        below.mkdir()
        for segment in (corpus / "_journal" / stage).glob("*.jsonl"):
            segment.rename(below / segment.name)
    assert world.run("corpus", sources=1, shards=3) == (0, 0)
