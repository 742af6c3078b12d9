"""`musadata trace`: the facts about a reference that a teacher is given."""

import argparse
import json
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from musadata.commands.row_rendering import draw_row, draw_trace
from musadata.config import TracingConfig, VerifierConfig
from musadata.errors import MusadataError
from musadata.records import Reject, Task, Trace
from musadata.rows import plain


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reference", type=Path, help="Python file with Model, get_inputs and get_init_inputs")
    parser.add_argument("--shapes", type=int, default=2, metavar="N", help="sets of input shapes (default: 2)")
    parser.add_argument("--json", action="store_true", help="print JSON instead")


def run(arguments: argparse.Namespace) -> int:
    try:
        reference = arguments.reference.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MusadataError(
            f"cannot be read ({error})", where=str(arguments.reference), remedy="name a Python file"
        ) from error
    task, traces = trace_reference(arguments.reference.stem, reference, arguments.shapes)
    if arguments.json:
        print(json.dumps(plain(traces), indent=1, ensure_ascii=False))
        return 0
    console = Console()
    console.print(draw_row(task))
    for number, trace in enumerate(traces, 1):
        console.print(draw_trace(number, trace))
    return 0


def trace_reference(name: str, reference: str, shape_sets: int) -> tuple[Task, tuple[Trace, ...]]:
    """Execute and trace a reference in the sandbox, as stage 2 does.

    Raises:
        MusadataError: the reference does not run, or none of its shapes can vary.
    """
    from musadata.sandbox import Sandbox
    from musadata.tasks.family import operator_family
    from musadata.tracing.task import PRELOAD, trace_task
    from musadata.verifier.task_from_reference import read_task

    with Sandbox(PRELOAD) as sandbox:
        task = read_task(reference, VerifierConfig(), sandbox)
        traces = trace_task(task, TracingConfig(shape_sets=shape_sets), sandbox, seed=0)
    if isinstance(traces, Reject):
        raise MusadataError(
            f"{traces.reason} ({traces.detail})", where=name, remedy="change get_inputs, or ask for fewer --shapes"
        )
    operators = traces[0].operators
    return replace(task, name=name, operators=operators, operator_family=operator_family(operators)), traces
