"""The reward function inside the trainers themselves, where they are installed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_step_of_trls_grpo_learns_from_verdicts_and_not_from_an_outage(tmp_path):
    pytest.importorskip("trl", reason="pip install trl to train with its GRPO")
    command = [sys.executable, str(Path(__file__).with_name("train_with_grpo.py")), str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    right, wrong, without, lost = found["rewards"]
    assert (found["steps"], right, without, lost) == (1, "1.0", "-1.0", "nan")
    assert -1.0 < float(wrong) < 0.0
    assert found["advantages"][0] > 0.0 > found["advantages"][1] > found["advantages"][2]
    assert found["advantages"][3] == 0.0
