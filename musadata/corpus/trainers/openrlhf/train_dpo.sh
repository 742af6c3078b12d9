#!/bin/sh
# DPO with OpenRLHF. pip install openrlhf
set -e
cd "$(dirname "$0")"
deepspeed --module openrlhf.cli.train_dpo --model.model_name_or_path {{ model }} \
  --data.dataset dpo_train.jsonl{% if "validation" in splits.dpo %} --eval.dataset dpo_validation.jsonl{% endif %} \
  --data.prompt_key prompt --data.chosen_key chosen --data.rejected_key rejected --data.apply_chat_template \
  --data.max_len {{ lengths.dpo }} "$@"
