#!/bin/sh
# Reinforcement learning against the verifier. pip install trl musadata
set -e
cd "$(dirname "$0")"
trl grpo --config grpo.yaml "$@"
