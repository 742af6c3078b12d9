"""One step of SFT, DPO and GRPO by TRL on a corpus, with a tiny model made on the spot; prints what it saw as JSON.

python tests/corpus/train_with_trl.py CORPUS SCRATCH
"""

import json
import os
import sys

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", WANDB_DISABLED="true", CUDA_VISIBLE_DEVICES="")

from datasets import disable_progress_bars, load_dataset
from transformers import PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

from recipes.trl.make_tiny_model import make_model, make_tokenizer

LENGTH = 16384


def common(folder: str) -> dict:
    return {
        "output_dir": folder,
        "max_steps": 1,
        "per_device_train_batch_size": 2,
        "report_to": [],
        "use_cpu": True,
        "bf16": False,
        "disable_tqdm": True,
        "save_strategy": "no",
        "gradient_checkpointing": False,
    }


def train_sft(corpus: str, model: str, tokenizer: PreTrainedTokenizerFast, scratch: str) -> dict:
    rows = load_dataset(corpus, "sft", split="train")
    trainer = SFTTrainer(model=model, args=SFTConfig(**common(scratch), max_length=LENGTH), train_dataset=rows)
    trainer.train()
    report = {}
    for index, row in enumerate(rows):
        if row["family"] not in report:
            tokens = trainer.train_dataset[index]
            labels = trainer.data_collator([tokens])["labels"][0].tolist()
            learnt = tokenizer.decode([token for token in labels if token != -100], skip_special_tokens=True)
            report[row["family"]] = {
                "only_the_completion": learnt.strip() == row["completion"][0]["content"].strip(),
                "share": sum(token != -100 for token in labels) / len(labels),
            }
    return {"sft": report}


def train_dpo(corpus: str, model: str, scratch: str) -> dict:
    rows = load_dataset(corpus, "preferences", split="train")
    trainer = DPOTrainer(model=model, args=DPOConfig(**common(scratch), max_length=LENGTH), train_dataset=rows)
    trainer.train()
    return {"dpo_steps": trainer.state.global_step}


def train_grpo(corpus: str, model: str, scratch: str) -> dict:
    """The reward function sees the task that the verifier would judge the answer by."""
    from musadata.corpus.views import shape_sets_of, task_of

    seen = []

    def reward(completions, reward_model, **columns):
        seen.extend((task_of(one["ground_truth"]), shape_sets_of(one["ground_truth"])) for one in reward_model)
        return [float(len(one[0]["content"])) for one in completions]

    rows = load_dataset(corpus, "rl", split="train")
    args = GRPOConfig(**common(scratch), num_generations=2, max_completion_length=8)
    trainer = GRPOTrainer(model=model, args=args, reward_funcs=reward, train_dataset=rows)
    trainer.train()
    return {"grpo_steps": trainer.state.global_step, "grpo_columns": bool(seen) and all(sets for _, sets in seen)}


def main(corpus: str, scratch: str) -> None:
    disable_progress_bars()
    tokenizer = make_tokenizer()
    model = make_model(tokenizer, f"{scratch}/model")
    report = {
        **train_sft(corpus, model, tokenizer, scratch),
        **train_dpo(corpus, model, scratch),
        **train_grpo(corpus, model, scratch),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
