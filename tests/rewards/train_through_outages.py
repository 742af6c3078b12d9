"""20 steps of TRL's GRPO on a CPU with rewards from a service that is killed twice; prints what each step saw as JSON.

python tests/rewards/train_through_outages.py SCRATCH

What the tiny model writes is replaced by answers whose rewards are known: right, wrong, without code, and right again.
No two steps have the same programs, so the service knows none of them.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.request import urlopen

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from musadata.rewards import grpo_reward
from recipes.trl.make_tiny_model import make_model, make_tokenizer
from tests.corpus.train_with_trl import common
from tests.rewards.train_with_grpo import make_row
from tests.verifier.conftest import RELU

STEPS, SHORT, LONG = 20, 7, 14  # at SHORT the service is back in time, at LONG it is not
CONFIG = "rewards: {{at_once: 4, seconds: 60, service: {address}}}\n"


class Service:
    """`musadata serve` at an address that stays."""

    def __init__(self, scratch: Path):
        self._log = (scratch / "service.log").open("a")
        self._command = [sys.executable, "-m", "musadata", "serve", "--backend", "emulated", "--at-once", "2"]
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        self._command += ["--journal", str(scratch / "verdicts"), "--port", str(port)]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stderr=self._log, start_new_session=True)
        while True:
            assert self._process.poll() is None, "the service ended"
            try:
                with urlopen(f"{self.address}/health"):
                    return
            except OSError:
                time.sleep(0.2)

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def make_answers(step: int) -> list[str]:
    wrong = RELU.replace("< 0.0f", "< 1.0f")
    return [
        f"```python\n# {step}{RELU}```",
        f"```python\n# {step}{wrong}```",
        "I cannot.",
        f"```python\n# {step}b{RELU}```",
    ]


class Watched(GRPOTrainer):
    """Breaks the service, and keeps what each step was made of."""

    service: Service
    seen: list[dict]

    def _generate_and_score_completions(self, inputs):
        step = len(self.seen) + 1
        breaking = threading.Timer(0.0 if step == LONG else 0.3, self._break, (step,))
        begun = time.monotonic()
        if step in (SHORT, LONG):
            breaking.start()
        if step == LONG:
            breaking.join()
        scored = super()._generate_and_score_completions(inputs)
        seconds = time.monotonic() - begun
        if step == SHORT:
            breaking.join()
        if step == LONG:
            self.service.start()
        (rewards,) = self._logs["rewards"].values()
        rewards, advantages = [str(one) for one in rewards], scored["advantages"].flatten().tolist()
        self.seen.append({"rewards": rewards[-len(advantages) :], "advantages": advantages, "seconds": seconds})
        return scored

    def _break(self, step: int) -> None:
        self.service.kill()
        if step == SHORT:
            self.service.start()


def main(scratch: str) -> None:
    service = Service(Path(scratch))
    config = Path(scratch) / "config.yaml"
    config.write_text(CONFIG.format(address=service.address))
    os.environ["MUSADATA_CONFIG"] = str(config)
    count = len(make_answers(0))

    def reward(prompts, completions, reward_model, **columns):
        answers = make_answers(len(trainer.seen) + 1)
        return grpo_reward(
            prompts, [[{"role": "assistant", "content": one}] for one in answers], reward_model, **columns
        )

    settings = common(scratch) | {"max_steps": STEPS, "per_device_train_batch_size": count, "num_generations": count}
    args = GRPOConfig(**settings, max_completion_length=8)
    model = make_model(make_tokenizer(), f"{scratch}/model")
    trainer = Watched(
        model=model, args=args, reward_funcs=reward, train_dataset=Dataset.from_list([make_row()] * count)
    )
    trainer.service, trainer.seen = service, []
    try:
        trainer.train()
    finally:
        service.kill()
    print(json.dumps({"steps": trainer.state.global_step, "seen": trainer.seen}))


if __name__ == "__main__":
    main(*sys.argv[1:])
