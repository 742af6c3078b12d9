"""One step of TRL's GRPO on a CPU with the verifier's reward; prints rewards and advantages as JSON.

python tests/rewards/train_with_grpo.py SCRATCH

The model is a tiny one with random weights, so what it writes is replaced by answers whose rewards are known: right,
wrong, one without code, and one whose verifier is out of order.
"""

import json
import os
import sys

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from musadata.rewards import grpo_reward
from musadata.rows import plain
from musadata.verifier.task_from_reference import given_task
from recipes.trl.make_tiny_model import make_model, make_tokenizer
from tests.corpus.train_with_trl import common
from tests.verifier.conftest import REFERENCE, RELU

ANSWERS = [f"```python{RELU}```", f"```python{RELU.replace('< 0.0f', '< 1.0f')}```", "I cannot.", f"```python{RELU}```"]
LOST = 3  # the answer of which nothing can be said
CONFIG = "sources: [{kind: nnsmith, count: 1}]\nverifier: {backend: emulated}\nrewards: {at_once: 2}\n"


def make_row() -> dict:
    task = plain(given_task(REFERENCE, [{"name": "x", "kind": "normal", "dtype": "float32", "shape": [37, 53]}]))
    truth = json.dumps({"task": task, "shape_sets": []})
    prompt = [{"role": "user", "content": f"Write this in CUDA.\n{REFERENCE}"}]
    return {"prompt": prompt, "reward_model": {"style": "rule", "ground_truth": truth}}


def reward(prompts, completions, reward_model, **columns):
    assert len(completions) == len(ANSWERS) and all(one[0]["role"] == "assistant" for one in completions)
    broken = reward_model[LOST]["ground_truth"].replace("return torch.relu(x)", "raise ValueError")
    truths = [*reward_model[:LOST], {**reward_model[LOST], "ground_truth": broken}]
    return grpo_reward(prompts, [[{"role": "assistant", "content": text}] for text in ANSWERS], truths, **columns)


class Watched(GRPOTrainer):
    """Keeps what the step was made of."""

    def _generate_and_score_completions(self, inputs):
        self.scored = super()._generate_and_score_completions(inputs)
        return self.scored


def main(scratch: str) -> None:
    with open(f"{scratch}/config.yaml", "w") as file:  # noqa: PTH123
        file.write(CONFIG)
    os.environ["MUSADATA_CONFIG"] = f"{scratch}/config.yaml"
    model = make_model(make_tokenizer(), f"{scratch}/model")
    settings = {**common(scratch), "per_device_train_batch_size": len(ANSWERS), "num_generations": len(ANSWERS)}
    args = GRPOConfig(**settings, max_completion_length=8)
    trainer = Watched(model=model, args=args, reward_funcs=reward, train_dataset=Dataset.from_list([make_row()] * 4))
    trainer.train()
    (rewards,) = trainer._logs["rewards"].values()
    found = {"steps": trainer.state.global_step, "rewards": [str(one) for one in rewards]}
    print(json.dumps(found | {"advantages": trainer.scored["advantages"].flatten().tolist()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
