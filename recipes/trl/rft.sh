#!/bin/bash
# Rejection sampling: the model of $WORK/sft answers the tasks of the corpus, and learns from what the service accepts.
. "$(dirname "$0")/settings.sh"
need_service
export_rows
serve_model "$WORK/sft"
python "$here/sample_accepted.py" --rows "$WORK/rows/grpo/train.parquet" --base-url "$server_url" --model "$WORK/sft" \
  --answers "$WORK/rft_answers.jsonl" --to "$WORK/rft_rows" $SAMPLE
stop_model
if [ ! -e "$WORK/rft_rows/train.parquet" ]; then
  echo "no answer was accepted: GRPO goes on from $WORK/sft"
  exit
fi
"$WORK/rows/train_sft.sh" --model_name_or_path "$WORK/sft" --dataset_name "$WORK/rft_rows" --output_dir "$WORK/rft" \
  $LAUNCH $PRECISION $RFT
