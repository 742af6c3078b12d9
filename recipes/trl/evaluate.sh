#!/bin/bash
# evaluate.sh MODEL NAME: figures of a model on the benchmark, in $WORK/NAME; the same command continues them.
. "$(dirname "$0")/settings.sh"
serve_model "$1"
musadata evaluate --base-url "$server_url" --model "$1" --problems "$PROBLEMS" --to "$WORK/$2" \
  ${JUDGE_GPUS:+--devices "$JUDGE_GPUS"} $EVALUATE
