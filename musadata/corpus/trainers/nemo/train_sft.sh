#!/bin/sh
# Supervised fine-tuning with NeMo Automodel. pip install nemo-automodel
set -e
cd "$(dirname "$0")"
automodel finetune llm -c automodel_sft.yaml "$@"
