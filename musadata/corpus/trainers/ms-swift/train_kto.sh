#!/bin/sh
# Trains on what lies beside this file. pip install ms-swift
set -e
cd "$(dirname "$0")"
swift rlhf --rlhf_type kto --model {{ model }} \
  --dataset kto_train.jsonl{% if "validation" in splits.kto %} --val_dataset kto_validation.jsonl{% endif %} \
  --max_length {{ lengths.kto }} --truncation_strategy delete --output_dir out/kto \
  "$@"
