#!/bin/sh
# Supervised fine-tuning with OpenRLHF: the loss is on the completion. pip install openrlhf
set -e
cd "$(dirname "$0")"
deepspeed --module openrlhf.cli.train_sft --model.model_name_or_path {{ model }} \
  --data.dataset sft_train.jsonl{% if "validation" in splits.sft %} --eval.dataset sft_validation.jsonl{% endif %} \
  --data.input_key prompt --data.output_key completion --data.apply_chat_template --data.max_len {{ lengths.sft }} \
  "$@"
