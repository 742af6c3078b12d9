"""The reward function inside the trainers themselves, where they are installed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def train(script: str, scratch: Path) -> dict:
    """What a script says of its training."""
    pytest.importorskip("trl", reason="pip install trl to train with its GRPO")
    command = [sys.executable, str(Path(__file__).with_name(script)), str(scratch)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_a_step_of_trls_grpo_learns_from_verdicts_and_not_from_an_outage(tmp_path):
    found = train("train_with_grpo.py", tmp_path)
    right, wrong, without, lost = found["rewards"]
    assert (found["steps"], right, without, lost) == (1, "1.0", "-1.0", "nan")
    assert -1.0 < float(wrong) < 0.0
    assert found["advantages"][0] > 0.0 > found["advantages"][1] > found["advantages"][2]
    assert found["advantages"][3] == 0.0


@pytest.mark.slow
def test_twenty_steps_of_trls_grpo_get_no_reward_from_a_service_that_is_away(tmp_path):
    pytest.importorskip("ray", reason="pip install 'musadata[ray]' for the service")
    found = train("train_through_outages.py", tmp_path)
    assert found["steps"] == len(found["seen"]) == 20
    waited, lost = found["seen"][6], found["seen"].pop(13)
    assert lost["rewards"] == ["nan"] * 4 and lost["advantages"] == [0.0] * 4  # away for longer than rewards.seconds
    assert waited["seconds"] > 2 * min(step["seconds"] for step in found["seen"])
    for step in found["seen"]:
        right, wrong, without, again = step["rewards"]
        assert (right, without, again) == ("1.0", "-1.0", "1.0") and -1.0 < float(wrong) < 0.0
        assert step["advantages"] == pytest.approx(found["seen"][0]["advantages"])
