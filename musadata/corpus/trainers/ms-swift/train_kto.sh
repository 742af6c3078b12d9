#!/bin/sh
# Trains on what lies beside this file. pip install ms-swift{{ " musadata" if "kto" == "grpo" else "" }}
set -e
cd "$(dirname "$0")"
swift {{ "sft" if "kto" == "sft" else "rlhf --rlhf_type kto" }} --model {{ model }} \
  --dataset kto_train.jsonl{% if "validation" in splits.kto %} --val_dataset kto_validation.jsonl{% endif %} \
  --max_length {{ lengths.kto }} --truncation_strategy delete --output_dir out/kto \
{% if "kto" == "grpo" %}
  --external_plugins reward_plugin.py --reward_funcs musadata --max_completion_length {{ answer_length }} \
{% endif %}
  "$@"
