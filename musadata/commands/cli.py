"""The command line, `musadata COMMAND …` or `python -m musadata COMMAND …`; a command is imported when it is used."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from musadata.errors import MusadataError


@dataclass(frozen=True)
class Command:
    """A module of `musadata.commands` with `add_arguments(parser)` and `run(arguments) -> exit code`."""

    module: str
    summary: str
    add_arguments: str = "add_arguments"
    run: str = "run"


COMMANDS = {
    "verify": Command("verify", "judge one candidate against its reference"),
    "verify-batch": Command("verify", "judge a Parquet file of candidates", "add_batch_arguments", "run_batch"),
    "serve": Command("serve", "serve verdicts over HTTP, on one host or a Ray cluster"),
    "rejudge": Command("policies", "judge anew under another policy", "add_rejudge_arguments", "run_rejudge"),
    "policies": Command("policies", "list the policies, and what each refuses"),
    "trace": Command("trace", "show shapes, operators, FLOPs and bytes of a reference"),
    "query": Command("query", "run SQL over a corpus"),
    "show": Command("show", "show rows of a corpus in a readable form"),
    "report": Command("report", "write report.html, one page about a corpus"),
    "doctor": Command("doctor", "check this machine and, if one is named, a corpus"),
    "schemas": Command("schemas", "write or check the JSON Schemas of all datasets"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Exit code 2 stands for an error that the user can fix; it is printed as one line."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(arguments)
    except MusadataError as error:
        print(f"musadata: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("musadata: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(argv: list[str]) -> int:
    name = next((word for word in argv if not word.startswith("-")), "")
    parser = argparse.ArgumentParser(
        prog="musadata",
        description="Inspects and judges training data for models that write GPU kernels. "
        "`python -m pipelines.all` makes a corpus.",
    )
    parser.add_argument(
        "--unsandboxed",
        action="store_true",
        help="where the system gives no namespaces, run foreign code under resource limits alone",
    )
    commands = parser.add_subparsers(title="commands", dest="command", required=True, metavar="COMMAND")
    for command_name, command in COMMANDS.items():
        summary = command.summary
        sub = commands.add_parser(command_name, help=summary, description=summary[:1].upper() + summary[1:] + ".")
        if command_name == name:  # import this command only: others may need torch
            module = importlib.import_module(f"musadata.commands.{command.module}")
            getattr(module, command.add_arguments)(sub)
            sub.set_defaults(run=getattr(module, command.run))
    arguments = parser.parse_args(argv)
    if arguments.unsandboxed:
        from musadata.sandbox import allow_plain

        allow_plain()
    code: int = arguments.run(arguments)
    return code
