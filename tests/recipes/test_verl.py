"""The verl recipe: its script parses, and verl's own code reads what it is given where it is installed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from musadata.config import load_config
from musadata.corpus.export import export
from musadata.training_config import OnOutage

RECIPE = Path(__file__).parents[2] / "recipes/verl"


def test_the_script_parses_and_names_what_there_is():
    subprocess.run(["bash", "-n", RECIPE / "grpo.sh"], check=True)
    for target in re.findall(r"\]\(([^)#:]+)\)", (RECIPE / "README.md").read_text()):
        assert (RECIPE / target).exists(), target


def test_the_training_ends_rather_than_learns_from_a_service_that_stays_away():
    limits = load_config(RECIPE / "rewards.yaml", needs_sources=False).rewards
    assert limits.outage is OnOutage.RAISE and limits.batch_seconds > limits.seconds >= 3600


@pytest.mark.slow
def test_verl_reads_rows_options_and_rewards(whole_corpus, tmp_path):
    pytest.importorskip("verl", reason="pip install verl to load what it trains on")
    from recipes.trl.make_tiny_model import make_tokenizer

    make_tokenizer().save_pretrained(tmp_path / "tokenizer")
    export(whole_corpus, "verl", tmp_path / "rows")
    command = [sys.executable, RECIPE / "check_loading.py", tmp_path / "rows", tmp_path / "tokenizer"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "train_files: " in done.stdout and "'reward_score': -1.0" in done.stdout
