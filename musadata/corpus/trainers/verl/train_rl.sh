#!/bin/sh
# GRPO with verl against the verifier. pip install verl vllm musadata; settings: docs/training.md
set -e
cd "$(dirname "$0")"
python -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \
  data.train_files=rl/train.parquet data.val_files=rl/{{ "validation" if "validation" in splits.rl else "train" }}.parquet \
  data.max_prompt_length={{ lengths.rl }} data.max_response_length={{ answer_length }} data.train_batch_size=32 \
  actor_rollout_ref.model.path={{ model }} actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.n=8 \
  actor_rollout_ref.actor.ppo_mini_batch_size=32 actor_rollout_ref.actor.use_dynamic_bsz=true \
  actor_rollout_ref.actor.ppo_max_token_len_per_gpu={{ lengths.rl + answer_length }} \
  reward.custom_reward_function.path=pkg://musadata.rewards reward.custom_reward_function.name=compute_score \
  trainer.n_gpus_per_node="${GPUS:-1}" trainer.project_name=musadata trainer.experiment_name=rl "$@"
