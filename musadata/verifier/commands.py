"""`python -m musadata verify` and `verify-batch`: verdicts from the command line."""

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import local
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from musadata.config import BackendType, VerifierConfig
from musadata.errors import MusadataError
from musadata.records import ErrorClass, Finding, InputSpec, Task, Verdict
from musadata.rows import arrow_schema, plain, restore
from musadata.sandbox import Sandbox
from musadata.verifier.adhoc import PRELOAD, read_task
from musadata.verifier.verifier import Verifier

ACCEPTED, REJECTED, UNDECIDED = 0, 1, 2
_MOST_BYTES = 100 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `verify`."""
    parser.add_argument(
        "--reference", required=True, type=Path, help="Python file with Model, get_inputs, get_init_inputs"
    )
    parser.add_argument("--candidate", required=True, type=Path, help="Python file with ModelNew, or a model's reply")
    parser.add_argument("--json", action="store_true", help="print the whole verdict as JSON")
    _add_common(parser)


def add_batch_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `verify-batch`."""
    parser.add_argument(
        "candidates", type=Path, help="Parquet file with the columns reference and source (or candidate)"
    )
    parser.add_argument("--output", required=True, type=Path, help="Parquet file to write: the same rows and a verdict")
    parser.add_argument(
        "--compile-workers", type=int, default=1, metavar="N", help="candidates judged at the same time"
    )
    parser.add_argument("--devices", default="", help="CUDA devices to use, as in 0,1")
    _add_common(parser)


def _add_common(parser: argparse.ArgumentParser) -> None:
    names = [kind.value for kind in BackendType]
    parser.add_argument("--backend", choices=names, default=BackendType.AUTO.value, help="where kernels run")
    parser.add_argument("--sanitize", action="store_true", help="also look for races and accesses out of bounds")
    parser.add_argument("--seed", type=int, default=0, help="the secret that inputs are drawn from")
    parser.add_argument("--seconds", type=float, default=VerifierConfig.seconds, help="CPU time a candidate may take")


def _config(arguments: argparse.Namespace) -> VerifierConfig:
    return VerifierConfig(
        backend=BackendType(arguments.backend),
        sanitize=arguments.sanitize,
        seed=arguments.seed,
        seconds=arguments.seconds,
    )


def run(arguments: argparse.Namespace) -> int:
    """Judge one candidate: 0 accepted, 1 rejected, 2 the verifier could not say."""
    reference = _read(arguments.reference)
    candidate = _read(arguments.candidate)
    config = _config(arguments)
    with Verifier(config) as verifier:
        verdict = verifier.verify(verifier.read_task(reference), candidate)
    print(json.dumps(plain(verdict), indent=2) if arguments.json else _render(verdict))
    return _exit_code(verdict)


def _exit_code(verdict: Verdict) -> int:
    if verdict.accepted:
        return ACCEPTED
    return UNDECIDED if verdict.error_class is ErrorClass.INFRA else REJECTED


def _read(path: Path) -> str:
    """A source file's text.

    Raises:
        MusadataError: it cannot be read, is too large, or is not UTF-8 text.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise MusadataError("is larger than 100 MB", where=str(path), remedy="name a source file")
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        remedy = "name an existing, readable file"
        raise MusadataError(f"cannot be read ({error.strerror})", where=str(path), remedy=remedy) from error
    except UnicodeDecodeError as error:
        raise MusadataError("is not UTF-8 text", where=str(path), remedy="save it as UTF-8") from error


def _render(verdict: Verdict) -> str:
    head = "accepted" if verdict.accepted else f"rejected ({verdict.error_class})"
    if verdict.error_class is ErrorClass.INFRA:
        head = "undecided"
    lines = [f"{head} at stage {verdict.stage}, backend {verdict.backend}, reward {verdict.reward:g}", verdict.feedback]
    if verdict.speedup is not None:
        lines.append(f"speedup over eager: {verdict.speedup:.2f}")
    return "\n".join(lines)


def run_batch(arguments: argparse.Namespace) -> int:
    """Judge every row of a Parquet file; the output has the same rows, in order, with a column `verdict`."""
    rows = _read_rows(arguments.candidates)
    config = _config(arguments)
    tasks = _read_tasks(rows, config)
    with ThreadPoolExecutor(max(1, arguments.compile_workers)) as pool:
        workers = _Workers(config, tasks)
        try:
            verdicts = list(pool.map(workers.judge, rows))
        finally:
            workers.close()
    table = pq.read_table(arguments.candidates)
    column = pa.array([plain(verdict) for verdict in verdicts], pa.struct(list(arrow_schema(Verdict))))
    if "verdict" in table.column_names:
        table = table.drop_columns(["verdict"])
    partial = arguments.output.with_name(arguments.output.name + ".partial")
    pq.write_table(table.append_column("verdict", column), partial, compression="zstd")
    partial.rename(arguments.output)
    accepted = sum(verdict.accepted for verdict in verdicts)
    print(f"{accepted} of {len(verdicts)} accepted; verdicts in {arguments.output}", file=sys.stderr)
    return 0


def _read_tasks(rows: list[dict[str, Any]], config: VerifierConfig) -> dict[str, Task | MusadataError]:
    """One task per distinct reference, or why there is none."""
    tasks: dict[str, Task | MusadataError] = {}
    with Sandbox(PRELOAD) as sandbox:
        for row in rows:
            reference = row["reference"]
            if reference in tasks:
                continue
            try:
                found = read_task(reference, config, sandbox)
                if row.get("inputs"):
                    found = replace(found, inputs=tuple(restore(InputSpec, spec) for spec in row["inputs"]))
                tasks[reference] = found
            except MusadataError as error:
                tasks[reference] = error
    return tasks


class _Workers:
    """One verifier per thread, opened when its first row comes."""

    def __init__(self, config: VerifierConfig, tasks: dict[str, Task | MusadataError]):
        self._config = config
        self._tasks = tasks
        self._own = local()
        self._open: list[Verifier] = []

    def judge(self, row: dict[str, Any]) -> Verdict:
        if not hasattr(self._own, "verifier"):
            self._own.verifier = Verifier(self._config).__enter__()
            self._open.append(self._own.verifier)
        verifier: Verifier = self._own.verifier
        task = self._tasks[row["reference"]]
        if isinstance(task, MusadataError):
            return verifier.give_up(Finding("reference.fails", str(task)))
        return verifier.verify(task, row.get("source") or row.get("candidate") or "")

    def close(self) -> None:
        for verifier in self._open:
            verifier.__exit__()


def _read_rows(path: Path) -> list[dict[str, Any]]:
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        what = " ".join(str(error).split())[:200]
        raise MusadataError(f"cannot be read ({what})", where=str(path), remedy="name a Parquet file") from error
    names = set(table.column_names)
    if "reference" not in names or not names & {"source", "candidate"}:
        raise MusadataError(
            "lacks the columns reference and source", where=str(path), remedy="join candidates with their tasks first"
        )
    return table.to_pylist()
