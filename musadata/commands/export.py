"""`musadata export`: the rows of a corpus as a trainer reads them, with configs and scripts."""

import argparse
from pathlib import Path

from musadata.corpus.export import MODEL, TRAINERS, export


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("corpus", help="folder or URL of the corpus")
    parser.add_argument("--for", dest="trainer", required=True, choices=list(TRAINERS), help="the trainer")
    parser.add_argument("--to", required=True, type=Path, metavar="DIR", help="a new or empty folder")
    parser.add_argument("--model", default=MODEL, help=f"the model that configs name (default: {MODEL})")


def run(arguments: argparse.Namespace) -> int:
    for file in export(arguments.corpus, arguments.trainer, arguments.to, arguments.model):
        rows = f"  {file.rows:,} rows, up to {file.length:,} tokens" if file.rows else ""
        print(f"{arguments.to / file.path}{rows}")
    return 0
