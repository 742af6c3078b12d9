"""A model of a few thousand random weights with a tokenizer of bytes; nothing is downloaded.

python make_tiny_model.py FOLDER
"""

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LENGTH = 131072  # tokens: a prompt of 6,000 usual ones has 20,000 bytes
HIDDEN = 16
_TOWARDS_THE_END = 1.5  # logit of the token that ends an answer, over that of others: some 60 tokens


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token per byte."""
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


def make_model(tokenizer: PreTrainedTokenizerFast, folder: str, ends: bool = False) -> str:
    """Save a model with its tokenizer. `ends`: its answers end by themselves, which random ones hardly do."""
    shape = {"hidden_size": HIDDEN, "intermediate_size": 32, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": LENGTH}
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=len(tokenizer), **shape, **heads))
    if ends:
        _end_answers(model, tokenizer.eos_token_id)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.do_sample = True  # what `transformers serve` goes by
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@torch.no_grad()
def _end_answers(model: Qwen2ForCausalLM, end: int) -> None:
    """Shift all embeddings the same way, which the last state then points to, and so does the weight of the end."""
    model.get_input_embeddings().weight += 1.0
    model.get_output_embeddings().weight[end] = _TOWARDS_THE_END / HIDDEN


if __name__ == "__main__":
    make_model(make_tokenizer(), sys.argv[1], ends=True)
