#!/bin/sh
# Trains on what lies beside this file. pip install ms-swift{{ " musadata" if "sft" == "grpo" else "" }}
set -e
cd "$(dirname "$0")"
swift {{ "sft" if "sft" == "sft" else "rlhf --rlhf_type sft" }} --model {{ model }} \
  --dataset sft_train.jsonl{% if "validation" in splits.sft %} --val_dataset sft_validation.jsonl{% endif %} \
  --max_length {{ lengths.sft }} --truncation_strategy delete --output_dir out/sft \
{% if "sft" == "grpo" %}
  --external_plugins reward_plugin.py --reward_funcs musadata --max_completion_length {{ answer_length }} \
{% endif %}
  "$@"
