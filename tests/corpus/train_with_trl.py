"""One step of SFT, DPO and GRPO by TRL on a corpus, with a tiny model made on the spot; prints what it saw as JSON.

python tests/corpus/train_with_trl.py CORPUS SCRATCH
"""

import json
import os
import sys

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", WANDB_DISABLED="true", CUDA_VISIBLE_DEVICES="")

from datasets import disable_progress_bars, load_dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LENGTH = 16384


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token per byte: nothing is downloaded."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = ["<|im_start|>", "<|im_end|>", "<|pad|>"]
    vocabulary = {token: index for index, token in enumerate([*special, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|pad|>")
    fast.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    fast.chat_template = TEMPLATE
    return fast


def make_model(tokenizer: PreTrainedTokenizerFast, folder: str) -> str:
    """A model of a few thousand weights, saved with its tokenizer."""
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": LENGTH}
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=len(tokenizer), **shape, **heads))
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


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
