"""`musadata prompt`: what a model is asked about a module: the prompt of the rows of `rl`, for any module."""

import argparse
import json
from pathlib import Path

from musadata.errors import MusadataError
from musadata.rows import plain


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reference", type=Path, help="Python file with Model, get_inputs and get_init_inputs")
    parser.add_argument("--shapes", type=int, default=2, metavar="N", help="sets of input shapes (default: 2)")
    parser.add_argument(
        "--format",
        choices=("text", "messages", "row"),
        default="text",
        help="the user's message (default), the messages as JSON, or a whole row of rl, with what a reward needs",
    )


def run(arguments: argparse.Namespace) -> int:
    from musadata.commands.trace import trace_reference
    from musadata.commands.verify import read_reference
    from musadata.corpus.views.prompts import rl_row

    path: Path = arguments.reference
    if arguments.shapes < 2:
        raise MusadataError(f"is {arguments.shapes}", where="--shapes", remedy="give 2 or more")
    row = plain(rl_row(*trace_reference(path.stem, read_reference(path), arguments.shapes)))
    if arguments.format == "text":
        print(row["prompt"][-1]["content"])
    else:
        print(json.dumps(row["prompt"] if arguments.format == "messages" else row, ensure_ascii=False))
    return 0
