#!/bin/sh
# Trains on what lies beside this file. pip install ms-swift{{ " musadata" if "dpo" == "grpo" else "" }}
set -e
cd "$(dirname "$0")"
swift {{ "sft" if "dpo" == "sft" else "rlhf --rlhf_type dpo" }} --model {{ model }} \
  --dataset dpo_train.jsonl{% if "validation" in splits.dpo %} --val_dataset dpo_validation.jsonl{% endif %} \
  --max_length {{ lengths.dpo }} --truncation_strategy delete --output_dir out/dpo \
{% if "dpo" == "grpo" %}
  --external_plugins reward_plugin.py --reward_funcs musadata --max_completion_length {{ answer_length }} \
{% endif %}
  "$@"
