#!/bin/bash
# Reinforcement learning against the service at MUSADATA_SERVICE, from $WORK/rft or $WORK/sft: $WORK/grpo.
. "$(dirname "$0")/settings.sh"
need_service
start=$WORK/rft
[ -e "$start/config.json" ] || start=$WORK/sft
export_rows
"$WORK/rows/train_grpo.sh" --model_name_or_path "$start" --output_dir "$WORK/grpo" $LAUNCH $PRECISION $GRPO
