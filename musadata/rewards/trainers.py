"""The reward function in the words of each trainer, see `musadata.rewards`."""

import asyncio
import atexit
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import cache
from typing import Any

from musadata.config import load_config
from musadata.rewards.scoring import RewardFunction, Score, read_messages, truth_of

CONFIG = "MUSADATA_CONFIG"  # the environment variable with the path of a config
_MOST_TASKS = 4096  # whose mean is remembered


def compute_score(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: Any = None, config: str = "", **_: Any
) -> dict[str, float]:
    """For verl, one answer: `custom_reward_function.reward_kwargs.config` names a config."""
    (score,) = open_function(config).score([solution_str], [ground_truth])
    return _verl(score, MEANS.fill_in([score], [truth_of(ground_truth)])[0])


def compute_scores(
    data_sources: Sequence[str],
    solution_strs: Sequence[str],
    ground_truths: Sequence[Any],
    extra_infos: Any = None,
    config: str = "",
    **_: Any,
) -> list[dict[str, float]]:
    """For verl's batch reward manager: all answers of a batch."""
    scores = open_function(config).score(solution_strs, ground_truths)
    rewards = fill_in(scores, [truth_of(truth) for truth in ground_truths])
    return [_verl(score, reward) for score, reward in zip(scores, rewards, strict=True)]


def _verl(score: Score, reward: float) -> dict[str, float]:
    """`score` is trained on and the rest is logged; all answers must have the same keys."""
    return {
        "score": reward,
        "acc": float(score.accepted),
        "judged": float(score.reward is not None),
        "reward_validity": score.parts.validity,
        "reward_correctness": score.parts.correctness,
        "reward_speed": score.parts.speed,
    }


def grpo_reward(
    prompts: Sequence[Any], completions: Sequence[Any], reward_model: Sequence[Any], **_: Any
) -> list[float | None]:
    """For TRL's GRPO, which hands over the column `reward_model` of `rl`. It leaves None out of a group's mean."""
    answers = [read_messages(completion) for completion in completions]
    return [score.reward for score in open_function().score(answers, reward_model)]


async def slime_reward(args: Any, sample: Any, **_: Any) -> float | list[float]:
    """For slime: one sample, or with `--group-rm` all samples of a prompt. A sample's label is the ground truth."""
    group = sample if isinstance(sample, list) else [sample]
    truths = [truth_of(one.label) for one in group]
    scores = await asyncio.to_thread(open_function().score, [one.response for one in group], truths)
    for one, score in zip(group, scores, strict=True):
        if score.reward is None:
            one.remove_sample = True
    if isinstance(sample, list):
        return fill_in(scores, truths)
    return MEANS.fill_in(scores, truths)[0]


def fill_in(scores: Sequence[Score], truths: Sequence[str]) -> list[float]:
    """Rewards in which an answer without a verdict has the mean of the others of its task, so that its advantage over
    them is 0; 0 where there are no others."""
    judged: dict[str, list[float]] = {}
    for score, truth in zip(scores, truths, strict=True):
        if score.reward is not None:
            judged.setdefault(truth, []).append(score.reward)
    means = {truth: sum(rewards) / len(rewards) for truth, rewards in judged.items()}
    pairs = zip(scores, truths, strict=True)
    return [means.get(truth, 0.0) if score.reward is None else score.reward for score, truth in pairs]


class RunningMeans:
    """The mean reward of each task so far, for trainers that ask for one answer at a time."""

    def __init__(self) -> None:
        self._sums: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._all = (0.0, 0)
        self._lock = threading.Lock()

    def fill_in(self, scores: Sequence[Score], truths: Sequence[str]) -> list[float]:
        """Rewards in which an answer without a verdict has its task's mean so far, before there is one that of all
        tasks, and 0 before the first verdict."""
        with self._lock:
            return [self._reward(score, truth) for score, truth in zip(scores, truths, strict=True)]

    def _reward(self, score: Score, truth: str) -> float:
        if score.reward is None:
            total, count = self._sums.get(truth, self._all)
            return total / count if count else 0.0
        self._sums[truth] = _with(self._sums.get(truth, (0.0, 0)), score.reward)
        self._all = _with(self._all, score.reward)
        self._sums.move_to_end(truth)
        if len(self._sums) > _MOST_TASKS:
            self._sums.popitem(last=False)
        return score.reward


def _with(known: tuple[float, int], reward: float) -> tuple[float, int]:
    total, count = known
    return total + reward, count + 1


MEANS = RunningMeans()


def open_function(config: str = "") -> RewardFunction:
    """The reward function of this process by a config: the one that is named here, or by `MUSADATA_CONFIG`.

    Raises:
        MusadataError: the config is wrong.
    """
    with _opening:
        return _open(config or os.environ.get(CONFIG, ""), os.getpid())


@cache
def _open(path: str, process: int) -> RewardFunction:
    """Anew in a process that was forked, whose parent has the verifier's processes."""
    if path:
        config = load_config(path, needs_sources=False)
        opened = RewardFunction(config.verifier, config.sampling, config.rewards)
    else:
        opened = RewardFunction()
    atexit.register(opened.close)
    return opened


_opening = threading.Lock()
