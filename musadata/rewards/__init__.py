"""The verifier's reward, for trainers with reinforcement learning.

| trainer | how it finds the function | an answer without a verdict |
|---|---|---|
| TRL GRPO | `GRPOTrainer(reward_funcs=musadata.rewards.grpo_reward)` | None: out of the group's mean, advantage 0 |
| verl | `custom_reward_function.path=pkg://musadata.rewards`, `name=compute_score` | the mean of its task so far |
| verl, a batch at once | the same with `name=compute_scores` | the mean of its task in the batch |
| OpenRLHF | the path of `musadata/rewards/openrlhf.py` as the remote reward | the mean of its task so far |
| slime | `--custom-rm-path musadata.rewards.slime_reward` | `remove_sample`: no loss; the mean of its task so far |
| slime, `--group-rm` | the same | `remove_sample`: no loss; the mean of its group |

The ground truth is the column `reward_model` of `rl`, or its `ground_truth`. The environment variable
`MUSADATA_CONFIG` names the config whose `verifier`, `sampling` and `rewards` hold; without it the defaults do.
"""

from musadata.rewards.scoring import RewardFunction, Score
from musadata.rewards.trainers import compute_score, compute_scores, grpo_reward, slime_reward

__all__ = ["RewardFunction", "Score", "compute_score", "compute_scores", "grpo_reward", "slime_reward"]
