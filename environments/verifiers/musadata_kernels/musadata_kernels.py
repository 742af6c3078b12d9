"""An environment for verifiers 0.4: the rows of `rl` of a corpus, answered in one or more turns, judged by musadata.

Where the environment variable MUSADATA_SERVICE names a service it judges, else this process does. After a rejected
answer the model gets the verifier's feedback, as in the corpus's own conversations. The reward is PrimeEcho's return.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset
import verifiers.v1 as vf

from musadata.config import load_config
from musadata.errors import Outage
from musadata.rewards import RewardFunction, Score
from musadata.sampling.returns import trajectory_return
from musadata.teacher.prompts import render_repair
from musadata.training_config import SamplingConfig

__all__ = ["KernelEnv", "KernelTaskset"]


class KernelData(vf.TaskData):
    ground_truth: str
    """What the verifier needs to judge an answer."""


class KernelTasksetConfig(vf.TasksetConfig):
    corpus: Path = Path()
    """A corpus of musadata, with its dataset `rl`; the current folder if left out."""
    split: str = "train"
    """Which rows: train, validation or test."""


class KernelTask(vf.Task[KernelData]):
    @property
    def key(self) -> str:
        return self.data.id or self.hash


class KernelTaskset(vf.Taskset[KernelTask, KernelTasksetConfig]):
    def load(self) -> Iterator[KernelTask]:
        rows = pyarrow.dataset.dataset(self.config.corpus / "rl", format="parquet")
        wanted = pyarrow.dataset.field("split") == self.config.split
        for batch in rows.to_batches(columns=["task_id", "prompt", "reward_model"], filter=wanted):
            for row in batch.to_pylist():
                truth = row["reward_model"]["ground_truth"]
                data = KernelData(id=row["task_id"], prompt=row["prompt"], ground_truth=truth)
                yield KernelTask(data, self.config.task)


class KernelEnvConfig(vf.EnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"})
    """It only writes, and runs nothing: no container is needed."""
    turns: int = 1
    """Answers per conversation at the most."""
    config: Path | None = None
    """A config of musadata, whose `verifier`, `sampling` and `rewards` hold."""


class KernelEnv(vf.Env[KernelEnvConfig]):
    _function: RewardFunction | None = None
    _sampling: SamplingConfig = SamplingConfig()

    async def start(self) -> None:
        if self.config.config is None:
            self._function = RewardFunction()
            return
        config = load_config(self.config.config)
        self._sampling = config.sampling
        self._function = RewardFunction(config.verifier, config.sampling, config.rewards)

    async def stop(self) -> None:
        if self._function is not None:
            self._function.close()

    async def run(self, task: KernelTask, agents: vf.Agents) -> None:
        """One conversation.

        Raises:
            Outage: the machine or the service kept an answer from its verdict, so that there is no reward.
        """
        scores: list[Score] = []
        async with agents.agent.interaction(task) as interaction:
            segment = await interaction.turn()
            while not segment.terminated:
                scores.append(score := await self._judge(segment.last_reply, task))
                if score.accepted or len(scores) >= self.config.turns:
                    break
                (message,) = render_repair(score.verdict.feedback)
                segment = await interaction.turn(message.content)
        if not scores:  # the model gave no answer, and the trace says why
            return
        rewards = [score.reward for score in scores]
        success = any(score.accepted for score in scores)
        interaction.trace.record_reward("musadata", trajectory_return(rewards, success, self._sampling))
        interaction.trace.record_metrics({"accepted": float(success), "turns": float(len(scores))})

    async def _judge(self, answer: str, task: KernelTask) -> Score:
        assert self._function is not None
        (score,) = await asyncio.to_thread(self._function.score, [answer], [task.data.ground_truth])
        if score.reward is None:
            raise Outage(score.why, where="musadata")
        return score
