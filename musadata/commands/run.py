"""`musadata run`: the three stages in a row, in a process of their own, since only `pipelines` knows Beam."""

import argparse
import os
import sys
from pathlib import Path

from musadata.config import load_config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", help="YAML file; configs/ has commented examples")
    parser.add_argument("--corpus", help="folder or URL of the corpus (default: build/ and the name of the config)")
    parser.epilog = "All other options are those of `python -m pipelines.all`: --limit, --dry-run, --runner …"


def run(arguments: argparse.Namespace) -> int:
    load_config(arguments.config)  # what is wrong with it is told at once
    corpus = arguments.corpus or f"build/{Path(arguments.config).stem}"
    command = [sys.executable, "-m", "pipelines.all", "--config", arguments.config, "--corpus", corpus]
    command += ["--unsandboxed"] if arguments.unsandboxed else []
    sys.stdout.flush()
    os.execv(sys.executable, [*command, *arguments.rest])
