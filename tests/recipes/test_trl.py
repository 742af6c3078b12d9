"""The TRL recipe: its scripts name what there is, and run to their end with a tiny model where TRL is installed."""

import argparse
import importlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from musadata.commands.cli import COMMANDS
from musadata.config import load_config
from musadata.corpus.export import FOLDER

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "recipes/trl"
SCRIPTS = sorted(RECIPE.glob("*.sh"))
OPTION = re.compile(r"(?<!\S)['\"]?(--[a-z][\w-]*)")
TEXT = "\n".join(path.read_text() for path in SCRIPTS).replace("\\\n", " ")


def settings(name: str) -> set[str]:
    """Options in the values that the scripts give to a variable."""
    values = re.findall(rf"\b{name}=(?:\$\{{{name}-\"(.*?)\"\}}|'(.*?)')", TEXT)
    assert values, name
    return {option for pair in values for value in pair for option in OPTION.findall(f" {value}")}


def known_options(add_arguments) -> set[str]:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return {option for action in parser._actions for option in action.option_strings}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_parse_and_stop_at_the_first_error(path):
    subprocess.run(["bash", "-n", path], check=True)
    text = path.read_text()
    assert "set -euo pipefail" in text or '. "$(dirname "$0")/settings.sh"' in text


def test_commands_of_musadata_know_their_options():
    used = re.findall(r"\bmusadata ([a-z-]+)(.*)", TEXT)
    assert {"run", "export", "serve", "evaluate"} <= {command for command, _ in used}
    for command, rest in used:
        if command in COMMANDS:
            module = importlib.import_module(f"musadata.commands.{COMMANDS[command].module}")
            known = known_options(getattr(module, COMMANDS[command].add_arguments))
            assert set(OPTION.findall(rest.split("|")[0].replace("${", " "))) <= known, command
    evaluate = importlib.import_module("musadata.commands.evaluate")
    assert settings("EVALUATE") <= known_options(evaluate.add_arguments)


def test_files_that_scripts_and_pages_name_are_there():
    for path in (RECIPE / "README.md", ROOT / "recipes/README.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
            assert (path.parent / target).exists(), target
    for name in re.findall(r"\$here/([\w.]+)", TEXT):
        assert (RECIPE / name).exists(), name
    for name in re.findall(r"rows/(train_\w+\.sh)", TEXT):
        assert (FOLDER / "trl" / name).exists(), name
    load_config(RECIPE / "tiny.yaml")


@pytest.mark.parametrize("kind", ["sft", "dpo", "kto", "grpo"])
def test_trl_knows_every_key_and_option(kind):
    """It ignores keys that it does not know."""
    pytest.importorskip("trl", reason="pip install trl to check its options")
    parser = importlib.import_module(f"trl.scripts.{kind}").make_parser()
    known = {option for action in parser._actions for option in action.option_strings}
    config = yaml.safe_load((FOLDER / "trl" / f"{kind}.yaml").read_text().replace("{{", "").replace("}}", ""))
    assert {f"--{key}" for key in config} <= known
    given = {"sft": ("SFT", "RFT"), "grpo": ("GRPO",)}.get(kind, ())
    assert {option for name in (*given, "PRECISION") for option in settings(name)} <= known


@pytest.mark.slow
def test_all_steps_run_with_a_tiny_model_and_an_outage_costs_no_reward(whole_corpus, tmp_path):
    for name in ("trl", "openai", "ray"):
        pytest.importorskip(name, reason="pip install trl 'transformers[serving]' 'musadata[ray]'")
    environment = os.environ | {"CORPUS": whole_corpus, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = shlex.join([str(RECIPE / "tiny.sh"), str(tmp_path / "work")])
    done = subprocess.run(command, shell=True, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "20 steps, all rewards -1.0" in done.stdout.splitlines()[-1]
    for name in ("before", "after_sft", "after"):
        assert (tmp_path / "work" / name / "summary.json").exists()
    assert all((tmp_path / "work" / name / "model.safetensors").exists() for name in ("sft", "rft", "grpo"))
