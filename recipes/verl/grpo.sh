#!/bin/bash
# GRPO with verl from MODEL on a corpus, with rewards from the service at MUSADATA_SERVICE: $WORK/checkpoints.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
: "${CORPUS:?set it to the folder or URL of a corpus}"
: "${WORK:=build/recipe-verl}"
: "${MODEL:=Qwen/Qwen2.5-Coder-7B-Instruct}"
: "${MUSADATA_SERVICE:?set it to the address of musadata serve}"
: "${MUSADATA_CONFIG:=$here/rewards.yaml}"
export GPUS=${GPUS:-8}
STEPS=${STEPS:-200}

mkdir -p "$WORK"
WORK=$(cd "$WORK" && pwd)
[ ! -d "$CORPUS" ] || CORPUS=$(cd "$CORPUS" && pwd)
[ ! -d "$MODEL" ] || MODEL=$(cd "$MODEL" && pwd)
[ -e "$WORK/rows/train_rl.sh" ] || musadata export "$CORPUS" --for verl --to "$WORK/rows" --model "$MODEL"
# Ray's workers on other nodes do not have this environment.
environment=+ray_kwargs.ray_init.runtime_env.env_vars
"$WORK/rows/train_rl.sh" actor_rollout_ref.model.path="$MODEL" trainer.total_training_steps="$STEPS" \
  trainer.default_local_dir="$WORK/checkpoints" 'trainer.logger=[console]' \
  $environment.MUSADATA_SERVICE="$MUSADATA_SERVICE" $environment.MUSADATA_CONFIG="$MUSADATA_CONFIG" "$@"
