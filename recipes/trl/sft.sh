#!/bin/bash
# Supervised fine-tuning of MODEL on a corpus: $WORK/sft.
. "$(dirname "$0")/settings.sh"
export_rows
"$WORK/rows/train_sft.sh" --model_name_or_path "$MODEL" --output_dir "$WORK/sft" $LAUNCH $PRECISION $SFT
