"""The file whose path OpenRLHF takes for its remote reward."""

import re
from typing import Any

from musadata.rewards.scoring import truth_of
from musadata.rewards.trainers import MEANS, open_function

_TELLING = 200  # characters at the end of a prompt, where its beginning was cut off
_SPECIAL_TOKENS = re.compile(r"(?:\s*(?:<\|[^<>|\n]{1,40}\|>|<｜[^<>｜\n]{1,40}｜>|</s>|<eos>|<end_of_turn>))+\s*$")


def reward_func(queries: list[str], prompts: list[str], labels: list[Any], **_: Any) -> dict[str, Any]:
    """Rewards of answers that stand behind their prompts in `queries`; a label is the ground truth.

    `scores`, for dynamic filtering, is 1 for an accepted answer.
    """
    import torch

    answers = [answer_of(query, prompt) for query, prompt in zip(queries, prompts, strict=True)]
    truths = [truth_of(label) for label in labels]
    scores = open_function().score(answers, truths)
    rewards = torch.tensor(MEANS.fill_in(scores, truths), dtype=torch.float)
    accepted = torch.tensor([float(score.accepted) for score in scores])
    judged = torch.tensor([float(score.reward is not None) for score in scores])
    speed = torch.tensor([score.parts.speed for score in scores])
    return {
        "rewards": rewards,
        "scores": accepted,
        "extra_logs": {"accepted": accepted, "judged": judged, "reward_speed": speed},
    }


def answer_of(query: str, prompt: str) -> str:
    """What follows the prompt, or the rest of it that was not cut off, without special tokens at the end."""
    known = prompt if prompt in query else prompt[-_TELLING:]
    answer = query.partition(known)[2] if known and known in query else query
    return _SPECIAL_TOKENS.sub("\n", answer)
