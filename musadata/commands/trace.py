"""`musadata trace`: the facts about a reference that a teacher is given."""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from musadata.commands.row_rendering import draw_row, draw_trace
from musadata.commands.verify import read_reference
from musadata.config import TracingConfig, VerifierConfig
from musadata.errors import MusadataError
from musadata.records import Reject, Task, Trace
from musadata.rows import plain


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "reference",
        help="Python file with Model, get_inputs and get_init_inputs; with --corpus, a row's id or its start",
    )
    parser.add_argument("--corpus", metavar="CORPUS", help="trace a row of this corpus back to the code it came from")
    parser.add_argument("--shapes", type=int, default=2, metavar="N", help="sets of input shapes (default: 2)")
    parser.add_argument("--json", action="store_true", help="print JSON instead")


def run(arguments: argparse.Namespace) -> int:
    if arguments.corpus:
        return _trace_row(arguments)
    path = Path(arguments.reference)
    task, traces = trace_reference(path.stem, read_reference(path), arguments.shapes)
    if arguments.json:
        print(json.dumps(plain(traces), indent=1, ensure_ascii=False))
        return 0
    console = Console()
    console.print(draw_row(task))
    for number, trace in enumerate(traces, 1):
        console.print(draw_trace(trace, f"shapes {number}"))
    return 0


def _trace_row(arguments: argparse.Namespace) -> int:
    from musadata.corpus.lineage import trace_row

    steps = trace_row(arguments.corpus, arguments.reference)
    if arguments.json:
        rows = [{"dataset": step.dataset, "through": step.through, "row": step.row} for step in steps]
        print(json.dumps(rows, indent=1, ensure_ascii=False, default=str))
        return 0
    console = Console()
    for step in steps:
        about = f"{step.dataset}, named by {step.through}" if step.through else step.dataset
        console.print(Text.assemble((step.id, "bold"), f"  ({about})"))
        for name, value in _facts(step.row).items():
            console.print(Text(f"    {name:<14}{' '.join(str(value).split())}"))
    return 0


_SHOWN = ("name", "source_kind", "license", "family", "teacher", "served_model", "server", "turn", "schedule", "fault")
_VERDICT = ("accepted", "error_class", "stage", "backend", "policy", "test_share", "speedup", "reward", "split")


def _facts(row: dict[str, Any]) -> dict[str, Any]:
    """What of a row says where it came from."""
    origin = row.get("provenance") or {}
    facts = {name: row.get(name) for name in (*_SHOWN, *_VERDICT)}
    facts |= {
        name: origin.get(name) for name in ("origin", "repository", "revision", "path", "lines", "license") if origin
    }
    for name in ("prompt", "messages", "turns"):
        if said := row.get(name):
            facts[name] = f"{said[-1].get('content') or said[-1].get('question')!s:.200} …"
    return {name: value for name, value in facts.items() if value not in (None, "")}


def trace_reference(name: str, reference: str, shape_sets: int) -> tuple[Task, tuple[Trace, ...]]:
    """Execute and trace a reference in the sandbox, as stage 2 does; the declared size comes first.

    Raises:
        MusadataError: the reference does not run, or none of its shapes can vary.
    """
    from musadata.sandbox import Sandbox
    from musadata.tasks.family import operator_family
    from musadata.tracing.task import PRELOAD, trace_task
    from musadata.verifier.task_from_reference import read_task

    with Sandbox(PRELOAD) as sandbox:
        task = read_task(reference, VerifierConfig(), sandbox)
        found = trace_task(task, TracingConfig(shape_sets=shape_sets), sandbox, seed=0)
    if isinstance(found, Reject):
        raise MusadataError(
            f"{found.reason} ({found.detail})", where=name, remedy="change get_inputs, or ask for fewer --shapes"
        )
    operators = found.traces[0].operators
    return replace(task, name=name, operators=operators, operator_family=operator_family(operators)), found.told
