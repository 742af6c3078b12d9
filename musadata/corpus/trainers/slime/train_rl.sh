#!/bin/sh
# Reinforcement learning with slime against the verifier; run from its checkout: SLIME=/path/to/slime sh train_rl.sh
set -e
data="$(cd "$(dirname "$0")" && pwd)"
cd "${SLIME:?the checkout of slime}"
python train.py --hf-checkpoint {{ model }} --prompt-data "$data/rl_train.parquet" --input-key prompt \
  --label-key reward_model --metadata-key metadata --apply-chat-template --rollout-max-prompt-len {{ lengths.rl }} \
  --rollout-max-response-len {{ answer_length }} --custom-rm-path musadata.rewards.slime_reward "$@"
