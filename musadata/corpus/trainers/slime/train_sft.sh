#!/bin/sh
# Supervised fine-tuning with slime; run from its checkout: SLIME=/path/to/slime sh train_sft.sh
set -e
data="$(cd "$(dirname "$0")" && pwd)"
cd "${SLIME:?the checkout of slime}"
python train_async.py --hf-checkpoint {{ model }} --rollout-function-path slime.rollout.sft_rollout.generate_rollout \
  --prompt-data "$data/sft_train.parquet" --input-key messages --loss-type sft_loss --loss-mask-type qwen \
  --rollout-max-context-len {{ lengths.sft }} --disable-compute-advantages-and-returns --debug-train-only "$@"
