#!/bin/sh
# Trains on what lies beside this file. pip install ms-swift
set -e
cd "$(dirname "$0")"
swift rlhf --rlhf_type dpo --model {{ model }} \
  --dataset dpo_train.jsonl{% if "validation" in splits.dpo %} --val_dataset dpo_validation.jsonl{% endif %} \
  --max_length {{ lengths.dpo }} --truncation_strategy delete --output_dir out/dpo \
  "$@"
