#!/bin/bash
# tiny.sh [WORK]: all.sh with a tiny random model on a CPU. The service is killed in the middle of GRPO.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export WORK=${1:-build/tiny-recipe} HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false CUDA_VISIBLE_DEVICES=
mkdir -p "$WORK"
if [ -z "${CORPUS:-}" ]; then
  export CORPUS=$WORK/corpus
  musadata run "$here/tiny.yaml" --corpus "$CORPUS"
fi
export MODEL=$WORK/model SERVER=transformers JUDGE_GPUS='' PROBLEMS=$WORK/problems
[ -e "$MODEL" ] || python "$here/make_tiny_model.py" "$MODEL"
mkdir -p "$PROBLEMS/level1"
cat > "$PROBLEMS/level1/1_scale.py" << 'PROBLEM'
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2.0 + 1.0


def get_inputs():
    return [torch.rand(8, 33)]


def get_init_inputs():
    return []
PROBLEM

export LAUNCH='' PRECISION='--use_cpu true --bf16 false'
export SFT='--max_steps 2 --gradient_accumulation_steps 1 --max_length 65536' # a token has one byte only
export RFT=$SFT
export GRPO='--max_steps 20 --num_generations 2 --gradient_accumulation_steps 2 --max_completion_length 64 --logging_steps 1'
export EVALUATE='--backend emulated --samples 2 --max-tokens 256'
export SAMPLE='--samples 2 --limit 4 --max-tokens 256 --least -1' # nothing that it writes is accepted
free_port='import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
SERVER_PORT=$(python -c "$free_port") service_port=$(python -c "$free_port")
export SERVER_PORT MUSADATA_SERVICE=http://127.0.0.1:$service_port

start_service() {
  setsid musadata serve --backend emulated --at-once 1 --port "$service_port" --journal "$WORK/verdicts" \
    >> "$WORK/service.log" 2>&1 &
  echo $! > "$WORK/service.pid"
  until curl -sf "$MUSADATA_SERVICE/health" > /dev/null; do
    kill -0 "$(cat "$WORK/service.pid")" || { tail "$WORK/service.log" >&2 && exit 1; }
    sleep 0.5
  done
}

break_service() { # once some steps are done
  until [ "$(grep -c "'reward'" "$WORK/all.log")" -ge 6 ]; do sleep 0.2; done
  kill -9 -- "-$(cat "$WORK/service.pid")"
  sleep 5
  start_service
}

start_service
trap 'kill "$breaking" 2> /dev/null || true; kill -- "-$(cat "$WORK/service.pid")" 2> /dev/null || true' EXIT
: > "$WORK/all.log"
break_service &
breaking=$!
"$here/all.sh" 2>&1 | tee "$WORK/all.log"
wait "$breaking"
python "$here/check_rewards.py" "$WORK/grpo" 20
