"""The command line, `musadata COMMAND …` or `python -m musadata COMMAND …`; a command is imported when it is used."""

import importlib
import importlib.metadata
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

from musadata.commands.parser import Parser
from musadata.errors import MusadataError


@dataclass(frozen=True)
class Command:
    """A module of `musadata.commands` with `add_arguments(parser)` and `run(arguments) -> exit code`."""

    module: str
    summary: str
    add_arguments: str = "add_arguments"
    run: str = "run"
    passes_on: bool = False  # options that it does not know, to what it starts


COMMANDS = {
    "run": Command("run", "make a corpus: the three stages in a row", passes_on=True),
    "prompt": Command("prompt", "print what a model is asked about a module, as in the rows of `rl`"),
    "verify": Command("verify", "judge one candidate against its reference"),
    "verify-batch": Command("verify", "judge a Parquet file of candidates", "add_batch_arguments", "run_batch"),
    "serve": Command("serve", "serve verdicts over HTTP, on one host or a Ray cluster"),
    "evaluate": Command("evaluate", "measure a served model on a benchmark"),
    "rejudge": Command("policies", "judge anew under another policy", "add_rejudge_arguments", "run_rejudge"),
    "policies": Command("policies", "list the policies, and what each refuses"),
    "trace": Command("trace", "show the facts of a reference, or where a row of a corpus came from"),
    "query": Command("query", "run SQL over a corpus"),
    "diff": Command("corpora", "compare two corpora row by row", "add_diff_arguments", "run_diff"),
    "merge": Command("corpora", "make one corpus of several", "add_merge_arguments", "run_merge"),
    "forget": Command(
        "corpora", "take a repository out of a corpus, with all made from it", "add_forget_arguments", "run_forget"
    ),
    "show": Command("show", "show rows of a corpus in a readable form"),
    "view": Command("view", "read a corpus in the browser"),
    "export": Command("export", "write the rows of a corpus as a trainer reads them, with configs"),
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
        if {"-v", "--verbose"}.intersection(arguments):
            traceback.print_exc()
        print(f"musadata: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("musadata: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _version() -> str:
    try:
        return importlib.metadata.version("musadata")
    except importlib.metadata.PackageNotFoundError:  # run from a checkout that is not installed
        return "(a checkout)"


def _run(argv: list[str]) -> int:
    name = next((word for word in argv if not word.startswith("-")), "")
    parser = Parser(
        prog="musadata",
        description="Makes, inspects and judges training data for models that write GPU kernels.",
    )
    parser.add_argument("--version", action="version", version=f"musadata {_version()}")
    parser.add_argument("-v", "--verbose", action="store_true", help="show where in the code an error came up")
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
            sub.set_defaults(run=getattr(module, command.run), passes_on=command.passes_on)
    arguments, rest = parser.parse_known_args(argv)
    if rest and not arguments.passes_on:
        sub = commands.choices[name]
        sub.error(f"unrecognized arguments: {' '.join(rest)}")
    if arguments.unsandboxed:
        from musadata.sandbox import allow_plain

        allow_plain()
    arguments.rest = rest
    code: int = arguments.run(arguments)
    return code
