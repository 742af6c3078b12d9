"""Many tasks through stage 1 without executing them: selection, dealing, shards, commits, manifest, no-op rerun.

    python -m benchmarks.million_tasks --tasks 100000 1000000 --output benchmarks/results/million_tasks.json

Probed tasks are made up: each text is drawn from the lines of torch.nn.functional, one task in ten is a duplicate by
graph, one in twenty by text. Everything after that is the real command. On a machine that does other things as well,
judge by the CPU seconds, which are those of all processes of the command.
"""

import argparse
import contextlib
import importlib.util
import io
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import psutil
import pyarrow as pa

from benchmarks.measuring import ROOT, Row, report
from musadata.config import load_config
from musadata.corpus.manifest import create_corpus
from musadata.records import SCHEMA_VERSION, InputSpec, Kernel, Provenance, Reject, Task
from musadata.rows import plain
from musadata.schema import arrow_schema
from musadata.storage import files
from musadata.storage.commits import Commit, require_commit, write_commit
from musadata.storage.shards import ShardWriter, deal
from musadata.tasks.text import PERMUTATIONS
from pipelines.stage1 import Keep, Probe, Stage1, select_tasks, selection_digest

REFERENCE_LINES = 40
ROWS_PER_SHARD = 1000


MOST_READ = 2.0  # bytes of probed shards that are read, per byte of them
READ_TASKS = 20_000


@dataclass(frozen=True)
class Run:
    """One command: wall seconds, CPU seconds of all its processes, the largest resident memory of any of them in GB,
    its exit code."""

    seconds: float
    cpu_seconds: float
    peak_gb: float
    code: int


def make_probed(corpus: str, config_file: Path, tasks: int, shards: int) -> None:
    """Write a corpus whose references have all been probed."""
    config = load_config(str(config_file))
    create_corpus(corpus)
    stage = Stage1(config, corpus)
    stage.check()
    stage.prepare()
    draw, made = np.random.default_rng(1), 0
    for shard in deal(shards):
        rows = tasks * (shard.index + 1) // shards - made
        outputs = []
        for dataset, kind in (("_probed", Task), ("_kernels", Kernel), ("rejects", Reject)):
            name = "rejects-stage1.probe" if dataset == "rejects" else ""
            with ShardWriter(corpus, dataset, shard, kind, name=name) as writer:
                if dataset == "_probed":
                    writer.write_batch(make_rows(draw, made, rows, tasks))
            outputs.append(writer.output)
        made += rows
        step = Probe(config, corpus)
        counts = {name: {"in": rows, "out": rows, "dropped": {}} for name in step.funnel}
        write_commit(corpus, Commit(step.stage, shard, step.digest(shard), (), tuple(outputs), counts))


@cache
def code_lines() -> "np.ndarray[Any, Any]":
    """Lines of Python for the texts of references: as varied as code is, so that they compress as it does."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None and spec.origin is not None
    text = (Path(spec.origin).parent / "nn" / "functional.py").read_text()
    return np.array([line for line in text.splitlines() if line.strip()], dtype=object)


def make_rows(draw: "np.random.Generator", first: int, rows: int, tasks: int) -> pa.RecordBatch:
    """Made-up tasks `first` and following."""
    numbers = np.arange(first, first + rows)
    duplicate = numbers % 10 == 9
    graphs = np.where(duplicate, numbers - 9, numbers)
    texts = draw.integers(0, 1 << 32, (rows, PERMUTATIONS), dtype=np.int64)
    near = np.flatnonzero(numbers % 20 == 7)
    texts[near] = texts[near - 1] if len(near) and near[0] else texts[near]
    texts[near, :8] = draw.integers(0, 1 << 32, (len(near), 8), dtype=np.int64)
    lines = code_lines()[draw.integers(0, len(code_lines()), (rows, REFERENCE_LINES))]
    provenance = plain(Provenance("made", "", "1", "a.py", "1-9", "MIT"))
    inputs = [plain(InputSpec("x", "normal", "float32", (8, 33)))]
    columns: dict[str, Any] = {
        "task_id": [f"task-{number:016x}" for number in numbers],
        "schema_version": [SCHEMA_VERSION] * rows,
        "source_kind": ["mined"] * rows,
        "name": ["LayerNorm"] * rows,
        "reference": ["\n".join(some) for some in lines],
        "operators": [["aten.native_layer_norm.default", "aten.relu.default"]] * rows,
        "operator_family": ["normalization"] * rows,
        "level": [2] * rows,
        "inputs": [inputs] * rows,
        "provenance": [provenance] * rows,
        "split": ["train"] * rows,
        "text_signature": pa.ListArray.from_arrays(
            np.arange(0, (rows + 1) * PERMUTATIONS, PERMUTATIONS, dtype=np.int32), texts.ravel()
        ),
        "graph_fingerprint": [f"graph-{number:016x}" for number in graphs],
        "measure": [inputs] * rows,
        "measure_note": [""] * rows,
    }
    schema = arrow_schema(Task)
    arrays = [
        columns[field.name].cast(field.type)
        if isinstance(columns[field.name], pa.Array)
        else pa.array(columns[field.name], field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def run(command: list[str]) -> Run:
    """Run a command and watch the resident memory and the CPU time of each of its processes."""
    start = time.monotonic()
    process = psutil.Popen(command, cwd=ROOT)
    over, peak, used = threading.Event(), [0], {}

    def watch() -> None:
        while not over.wait(0.1):
            with contextlib.suppress(psutil.Error):
                for one in [process, *process.children(recursive=True)]:
                    with contextlib.suppress(psutil.Error), one.oneshot():
                        peak[0] = max(peak[0], one.memory_info().rss)
                        times = one.cpu_times()
                        used[one.pid, one.create_time()] = times.user + times.system

    thread = threading.Thread(target=watch)
    thread.start()
    code = process.wait()
    over.set()
    thread.join()
    return Run(time.monotonic() - start, sum(used.values()), peak[0] / 2**30, code)


def write_config(folder: Path, shards: int) -> Path:
    config = folder / "config.yaml"
    config.write_text(
        f"seed: 1\nshards: {shards}\nsources: [{{kind: nnsmith, count: {shards}}}]\nteacher: {{kind: compiler}}\n"
    )
    return config


def measure_reading(folder: Path) -> float:
    """Bytes of probed shards that selecting and keeping read, per byte of them."""
    shards = READ_TASKS // ROWS_PER_SHARD
    config_file, corpus = write_config(folder, shards), str(folder / "corpus")
    make_probed(corpus, config_file, READ_TASKS, shards)
    config, read = load_config(str(config_file)), [0]

    class Counting(io.FileIO):
        def readinto(self, buffer: Any) -> int:
            count = super().readinto(buffer) or 0
            read[0] += count
            return count

        def read(self, size: int | None = -1) -> bytes:
            data = super().read(-1 if size is None else size) or b""
            read[0] += len(data)
            return data

    @contextlib.contextmanager
    def open_counted(path: str) -> Iterator[Any]:
        with Counting(path) if "/_probed/" in path else Path(path).open("rb") as file:
            yield file

    probed = [require_commit(corpus, Probe.stage, shard) for shard in deal(shards)]
    with patch.object(files, "open_for_reading", open_counted):
        selection, digest = select_tasks(config, corpus, probed), selection_digest(config, probed)
        for shard in deal(shards):
            Keep(config, corpus, digest, selection).run(shard)
    return read[0] / sum(commit.output("_probed").bytes for commit in probed)


def measure(tasks: int, folder: Path) -> tuple[Run, Run]:
    """The stage on so many probed tasks, and the same command again."""
    shards = max(2, tasks // ROWS_PER_SHARD)
    config = write_config(folder, shards)
    corpus = folder / "corpus"
    shutil.rmtree(corpus, ignore_errors=True)
    make_probed(str(corpus), config, tasks, shards)
    command = [sys.executable, "-m", "pipelines.stage1", "--config", str(config), "--corpus", str(corpus)]
    return run(command), run(command)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure each number of tasks, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args(argv)
    rows: list[Row] = []
    costs, details = [], {}
    for tasks in arguments.tasks:
        with tempfile.TemporaryDirectory() as folder:
            first, again = measure(tasks, Path(folder))
        if first.code or again.code:
            raise SystemExit("benchmark: the command failed")
        rate = tasks / first.seconds
        costs.append((first.seconds / tasks, first.cpu_seconds / tasks))
        details[str(tasks)] = {"first": asdict(first), "again": asdict(again)}
        what = f"stage 1 without probing, {tasks:,} tasks"
        rows.append((what, ">= 2,000 tasks/s", f"{rate:,.0f} tasks/s", rate >= 2000))
        rows.append(("... CPU time of all processes", "", f"{1e3 * costs[-1][1]:.2f} ms a task", True))
        rows.append(("... largest process", "<= 1 GB", f"{first.peak_gb:.2f} GB", first.peak_gb <= 1.0))
        rows.append(("... the same command again", "<= 3 s", f"{again.seconds:.1f} s", again.seconds <= 3))
    for index, kind in enumerate(("wall", "CPU") if len(costs) > 1 else ()):
        change = costs[-1][index] / costs[0][index] - 1
        what = f"{kind} time of a task, most tasks against fewest"
        rows.append((what, "<= +15 %", f"{change:+.0%}", change <= 0.15))
    with tempfile.TemporaryDirectory() as folder:
        read = measure_reading(Path(folder))
    what = "bytes of probed shards read, per byte of them"
    rows.append((what, f"<= {MOST_READ:.0f}", f"{read:.2f}", read <= MOST_READ))
    report("million tasks", rows, details, arguments.output)


if __name__ == "__main__":
    main()
