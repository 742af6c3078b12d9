#!/bin/sh
# Trains on what lies beside this file. pip install trl
set -e
cd "$(dirname "$0")"
trl kto --config kto.yaml "$@"
