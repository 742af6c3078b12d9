#!/bin/sh
# Trains on what lies beside this file. pip install ms-swift
set -e
cd "$(dirname "$0")"
swift sft --model {{ model }} \
  --dataset sft_train.jsonl{% if "validation" in splits.sft %} --val_dataset sft_validation.jsonl{% endif %} \
  --max_length {{ lengths.sft }} --truncation_strategy delete --output_dir out/sft \
  "$@"
