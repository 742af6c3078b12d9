#!/bin/sh
# Reinforcement learning with OpenRLHF against the verifier. pip install openrlhf[vllm] musadata
set -e
cd "$(dirname "$0")"
reward=$(python -c "import importlib.util; print(importlib.util.find_spec('musadata.rewards.openrlhf').origin)")
python -m openrlhf.cli.train_ppo_ray --actor.model_name_or_path {{ model }} \
  --data.prompt_dataset rl_train.jsonl --data.input_key prompt --data.label_key reward_model \
  --data.apply_chat_template --data.max_len {{ lengths.rl + answer_length }} --reward.remote_url "$reward" "$@"
