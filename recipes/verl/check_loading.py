"""Rows, options and reward of an export for verl, read by verl's own code on a CPU; nothing is trained.

python check_loading.py EXPORT TOKENIZER

EXPORT is the folder of `musadata export CORPUS --for verl`. An answer without code must have the reward -1.
"""

import asyncio
import re
import shlex
import sys
from pathlib import Path

import torch
from hydra import compose, initialize_config_module
from omegaconf import DictConfig, open_dict
from transformers import AutoTokenizer
from verl import DataProto
from verl.experimental.reward_loop.reward_loop import migrate_legacy_reward_impl
from verl.trainer.ppo.reward import load_reward_manager
from verl.trainer.ppo.utils import create_rl_dataset
from verl.utils.dataset.rl_dataset import collate_fn

ANSWER = "I cannot."


def read_options(script: Path) -> list[str]:
    """The options that a script gives to verl."""
    text = script.read_text(encoding="utf-8").replace("\\\n", " ").replace('"${GPUS:-1}"', "1")
    return [word for word in shlex.split(text, comments=True) if re.match(r"\+*[\w.]+=", word)]


def score(config: DictConfig, tokenizer, row: dict) -> dict:
    """What verl's reward loop makes of an answer to a row."""

    async def judge() -> dict:
        manager = load_reward_manager(config, tokenizer)
        ids = tokenizer(ANSWER, return_tensors="pt", add_special_tokens=False)["input_ids"]
        data = DataProto.from_single_dict(collate_fn([row]))
        data.batch = DataProto.from_dict({"responses": ids, "attention_mask": torch.ones_like(ids)}).batch
        return await manager.run_single(data)

    return asyncio.run(judge())


def main(export: str, tokenizer_path: str) -> None:
    folder, tokenizer = Path(export), AutoTokenizer.from_pretrained(tokenizer_path)
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = migrate_legacy_reward_impl(compose("ppo_trainer", read_options(folder / "train_rl.sh")))
    with open_dict(config.data):
        config.data.filter_overlong_prompts = False  # by this tokenizer, which is not the model's
    for name in ("train_files", "val_files"):
        dataset = create_rl_dataset(str(folder / config.data[name]), config.data, tokenizer, None)
        print(f"{name}: {len(dataset)} rows")
    found = score(config, tokenizer, dataset[0])
    print(f"an answer without code: {found}")
    if found["reward_score"] != -1.0 or found["reward_extra_info"]["judged"] != 1.0:
        sys.exit("its reward is not -1")


if __name__ == "__main__":
    main(*sys.argv[1:])
