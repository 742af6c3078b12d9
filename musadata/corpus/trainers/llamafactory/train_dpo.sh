#!/bin/sh
# Trains on what lies beside this file. pip install llamafactory
set -e
cd "$(dirname "$0")"
llamafactory-cli train dpo.yaml "$@"
