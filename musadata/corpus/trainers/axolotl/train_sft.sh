#!/bin/sh
# Trains on what lies beside this file. pip install axolotl
set -e
cd "$(dirname "$0")"
axolotl train sft.yaml "$@"
