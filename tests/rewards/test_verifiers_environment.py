"""The environment for verifiers, by its own classes; a stand-in for the model's side of a conversation."""

import asyncio
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from musadata.errors import Outage
from musadata.rewards import Score
from musadata.verifier.reward import RewardParts
from tests.rewards.test_scoring import RIGHT, WRONG

vf = pytest.importorskip("verifiers.v1", reason="pip install verifiers to play its episodes")
FOLDER = Path(__file__).parents[2] / "environments" / "verifiers" / "musadata_kernels"
SCORES = {
    "right": Score(1.0, RewardParts(0.0, 1.0, 0.0), RIGHT),
    "wrong": Score(-1.0, RewardParts(-1.0, 0.0, 0.0), WRONG),
    "lost": Score(None, why="503 an outage"),
}


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """The environment over a corpus with two rows, as verifiers loads it."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.delitem(sys.modules, "musadata_kernels", raising=False)
    from verifiers.v1.utils.loaders import environment_class

    rows = [
        {
            "task_id": f"task-{number}",
            "split": "train" if number < 2 else "test",
            "prompt": [{"role": "system", "content": "You write kernels."}, {"role": "user", "content": str(number)}],
            "reward_model": {"style": "rule", "ground_truth": f"truth {number}"},
        }
        for number in range(3)
    ]
    (tmp_path / "rl").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rl" / "a.parquet")
    kind = environment_class("musadata-kernels")
    config = sys.modules["musadata_kernels"].KernelEnvConfig
    loaded = kind(config.model_validate({"taskset": {"id": "musadata-kernels", "corpus": tmp_path}, "turns": 3}))
    loaded._function = SimpleNamespace(score=lambda answers, truths: [SCORES[answers[0]]], close=lambda: None)
    return loaded


def play(environment, replies):
    """The rewards, metrics and messages of a conversation in which the model gives these replies."""
    task, waiting, sent = next(iter(environment.taskset)), list(replies), []
    trace = SimpleNamespace(rewards={}, metrics={})
    trace.record_reward = trace.rewards.__setitem__
    trace.record_metrics = trace.metrics.update

    class Interaction:
        def __init__(self):
            self.trace = trace

        async def turn(self, message=None):
            sent.append(message)
            if not waiting:
                return SimpleNamespace(terminated=True)
            return SimpleNamespace(terminated=False, last_reply=waiting.pop(0))

    @asynccontextmanager
    async def interaction(given):
        assert given is task
        yield Interaction()

    asyncio.run(environment.run(task, SimpleNamespace(agent=SimpleNamespace(interaction=interaction))))
    return trace.rewards, trace.metrics, sent


def test_tasks_are_the_rows_of_a_split(environment):
    tasks = list(environment.taskset)
    assert [task.key for task in tasks] == ["task-0", "task-1"]
    assert tasks[1].data.ground_truth == "truth 1" and tasks[1].data.prompt[1].content == "1"


def test_a_first_right_answer_ends_the_conversation_with_the_bonus(environment):
    assert play(environment, ["right"]) == ({"musadata": 1.2}, {"accepted": 1.0, "turns": 1.0}, [None])


def test_feedback_follows_a_wrong_answer_until_the_turns_are_over(environment):
    rewards, metrics, sent = play(environment, ["wrong", "right"])
    assert rewards == {"musadata": pytest.approx(0.75 * -1 + 0.25 * 1 + 0.1)} and metrics["turns"] == 2
    assert sent[0] is None and len(sent) == 2 and isinstance(sent[1], str)
    assert play(environment, ["wrong"] * 5)[1] == {"accepted": 0.0, "turns": 3.0}


def test_an_outage_is_an_error_and_no_reward(environment):
    with pytest.raises(Outage, match="503"):
        play(environment, ["wrong", "lost"])


def test_without_an_answer_there_is_no_reward(environment):
    assert play(environment, [])[0] == {}
