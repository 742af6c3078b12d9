#!/bin/sh
# Supervised fine-tuning with torchtune. pip install torchtune torchao; tune download {{ model }}
set -e
cd "$(dirname "$0")"
tune run full_finetune_single_device --config "${CONFIG:-qwen2_5/7B_full_single_device}" \
  dataset._component_=torchtune.datasets.chat_dataset dataset.source=json dataset.data_files=sft_train.jsonl \
  dataset.conversation_column=messages dataset.conversation_style=openai dataset.split=train \
  tokenizer.max_seq_len={{ lengths.sft }} output_dir=out/sft "$@"
