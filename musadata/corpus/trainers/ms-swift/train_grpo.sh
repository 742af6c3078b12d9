#!/bin/sh
# Trains on what lies beside this file. pip install ms-swift{{ " musadata" if "grpo" == "grpo" else "" }}
set -e
cd "$(dirname "$0")"
swift {{ "sft" if "grpo" == "sft" else "rlhf --rlhf_type grpo" }} --model {{ model }} \
  --dataset grpo_train.jsonl{% if "validation" in splits.grpo %} --val_dataset grpo_validation.jsonl{% endif %} \
  --max_length {{ lengths.grpo }} --truncation_strategy delete --output_dir out/grpo \
{% if "grpo" == "grpo" %}
  --external_plugins reward_plugin.py --reward_funcs musadata --max_completion_length {{ answer_length }} \
{% endif %}
  "$@"
