#!/bin/sh
# DPO with torchtune. pip install torchtune torchao; tune download {{ model }}
set -e
cd "$(dirname "$0")"
tune run lora_dpo_single_device --config "${CONFIG:-llama3_1/8B_lora_dpo_single_device}" \
  dataset._component_=torchtune.datasets.preference_dataset dataset.source=json dataset.data_files=dpo_train.jsonl \
  dataset.split=train tokenizer.max_seq_len={{ lengths.dpo }} output_dir=out/dpo "$@"
