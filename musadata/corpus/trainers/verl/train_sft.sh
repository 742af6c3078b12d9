#!/bin/sh
# Supervised fine-tuning with verl: the loss is on the only assistant's message. pip install verl
set -e
cd "$(dirname "$0")"
torchrun --standalone --nproc_per_node="${GPUS:-1}" -m verl.trainer.sft_trainer \
  data.train_files=sft/train.parquet {% if "validation" in splits.sft %}data.val_files=sft/validation.parquet{% else %}data.val_files=null{% endif %} \
  data.messages_key=messages data.max_length={{ lengths.sft }} data.max_token_len_per_gpu={{ lengths.sft }} \
  data.truncation=error data.train_batch_size=32 data.micro_batch_size_per_gpu=1 \
  model.path={{ model }} trainer.project_name=musadata trainer.experiment_name=sft "$@"
