"""The command line: `python -m musadata COMMAND …`. Each command lives beside what it shows and is imported on use."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from musadata.errors import MusadataError


@dataclass(frozen=True)
class Command:
    """A module with `add_arguments(parser)` and `run(arguments) -> exit code`, or functions of other names in it."""

    module: str
    summary: str
    add_arguments: str = "add_arguments"
    run: str = "run"


COMMANDS = {
    "verify": Command("musadata.commands.verify", "judge one candidate against its reference"),
    "verify-batch": Command(
        "musadata.commands.verify", "judge a Parquet file of candidates", "add_batch_arguments", "run_batch"
    ),
    "trace": Command("musadata.commands.trace", "show shapes, operators, FLOPs and bytes of a reference"),
    "query": Command("musadata.corpus.query", "run SQL over a corpus"),
    "show": Command("musadata.commands.show", "show rows of a corpus as a person would read them"),
    "report": Command("musadata.corpus.report", "write report.html, one page about a corpus"),
    "doctor": Command("musadata.commands.doctor", "check this machine and, if one is named, a corpus"),
    "schemas": Command("musadata.corpus.schemas", "write or check the JSON Schemas of all datasets"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 2 for what the user can mend, which is printed as one line."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(arguments)
    except MusadataError as error:
        print(f"musadata: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("musadata: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `… | head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(argv: list[str]) -> int:
    name = next((word for word in argv if not word.startswith("-")), "")
    parser = argparse.ArgumentParser(
        prog="python -m musadata",
        description="Looks at and judges training data for models that write GPU kernels. "
        "The corpus itself is made by `python -m pipelines.all`.",
    )
    commands = parser.add_subparsers(title="commands", dest="command", required=True, metavar="COMMAND")
    for command_name, command in COMMANDS.items():
        summary = command.summary
        sub = commands.add_parser(command_name, help=summary, description=summary[:1].upper() + summary[1:] + ".")
        if command_name == name:  # only this one's module is imported: others may need torch
            getattr(importlib.import_module(command.module), command.add_arguments)(sub)
    arguments = parser.parse_args(argv)
    command = COMMANDS[arguments.command]
    code: int = getattr(importlib.import_module(command.module), command.run)(arguments)
    return code
