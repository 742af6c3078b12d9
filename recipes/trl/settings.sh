# What all steps share: settings, each of which may be set in the environment, and the model server.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

: "${CORPUS:?set it to the folder or URL of a corpus}"
: "${WORK:=build/recipe}"                         # everything that is made
: "${MODEL:=Qwen/Qwen2.5-Coder-7B-Instruct}"      # the model that training starts from
: "${PROBLEMS:=KernelBench}"                      # a checkout of the benchmark
: "${GPUS:=8}"                                    # processes of a training, one for each GPU of this host

# Options of each command beside those of the exported configs. An empty value is kept.
LAUNCH=${LAUNCH-"--accelerate_config zero3 --num_processes $GPUS"}
PRECISION=${PRECISION-"--dtype bfloat16"}
SFT=${SFT-"--num_train_epochs 2"}
RFT=${RFT-"--num_train_epochs 1"}
GRPO=${GRPO-"--max_steps 200 --use_vllm true --vllm_mode colocate --logging_steps 1"}
SAMPLE=${SAMPLE-"--samples 8"}
EVALUATE=${EVALUATE-"--samples 8 --backend cuda"}

# The model server of evaluation and RFT, and the GPUs that judge in the meantime: timing needs GPUs of its own.
: "${SERVER:=vllm}"                               # or transformers, which runs on a CPU
: "${SERVER_PORT:=8000}"
: "${SERVER_GPUS:=0}"
: "${JUDGE_GPUS=1}"                               # may be empty: all, or none with --backend emulated

mkdir -p "$WORK"
WORK=$(cd "$WORK" && pwd)
[ ! -d "$CORPUS" ] || CORPUS=$(cd "$CORPUS" && pwd)
[ ! -d "$MODEL" ] || MODEL=$(cd "$MODEL" && pwd)
server_url=http://127.0.0.1:$SERVER_PORT/v1

# Serves a model until the script ends.
serve_model() {
  local log=$WORK/server.log count
  if curl -sf "$server_url/models" > /dev/null; then
    echo "something answers at $server_url already: set SERVER_PORT" >&2
    exit 1
  fi
  case $SERVER in
    vllm)
      count=$(tr ',' '\n' <<< "$SERVER_GPUS" | wc -l)
      CUDA_VISIBLE_DEVICES=$SERVER_GPUS vllm serve "$1" --port "$SERVER_PORT" --tensor-parallel-size "$count" > "$log" 2>&1 &
      ;;
    transformers) transformers serve "$1" --device cpu --port "$SERVER_PORT" > "$log" 2>&1 & ;;
    *) echo "SERVER is vllm or transformers" >&2 && exit 1 ;;
  esac
  server=$!
  trap stop_model EXIT
  until curl -sf "$server_url/models" > /dev/null; do
    kill -0 "$server" 2> /dev/null || { tail -20 "$log" >&2 && exit 1; }
    sleep 1
  done
}

stop_model() {
  kill "$server" 2> /dev/null || true
  wait "$server" || true
}

# Rewards come from the service at MUSADATA_SERVICE.
need_service() {
  export MUSADATA_SERVICE=${MUSADATA_SERVICE:?set it to the address of musadata serve}
  curl -sf "$MUSADATA_SERVICE/health" > /dev/null || { echo "no service is ready at $MUSADATA_SERVICE" >&2 && exit 1; }
}

# The corpus's rows for TRL with configs and scripts, in $WORK/rows; made once.
export_rows() {
  [ -e "$WORK/rows/train_sft.sh" ] || musadata export "$CORPUS" --for trl --to "$WORK/rows" --model "$MODEL"
}
