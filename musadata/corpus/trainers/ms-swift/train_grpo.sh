#!/bin/sh
# Trains on what lies beside this file. pip install ms-swift musadata
set -e
cd "$(dirname "$0")"
swift rlhf --rlhf_type grpo --model {{ model }} \
  --dataset grpo_train.jsonl{% if "validation" in splits.grpo %} --val_dataset grpo_validation.jsonl{% endif %} \
  --max_length {{ lengths.grpo }} --truncation_strategy delete --output_dir out/grpo \
  --external_plugins reward_plugin.py --reward_funcs musadata --max_completion_length {{ answer_length }} \
  "$@"
