"""Many tasks through stage 1 without executing them: selection, dealing, shards, commits, manifest, no-op rerun.

    python -m benchmarks.million_tasks --tasks 100000 1000000 --output benchmarks/results/million_tasks.json

Probed tasks are made up: texts and graphs like those of the quickstart, one in ten a duplicate by graph, one in twenty
by text. Everything after that is the real command.
"""

import argparse
import shutil
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

from benchmarks.measuring import ROOT, report
from musadata.config import load_config
from musadata.corpus.manifest import create_corpus
from musadata.records import SCHEMA_VERSION, Kernel, Reject, Task
from musadata.schema import arrow_schema
from musadata.storage.commits import Commit, write_commit
from musadata.storage.shards import ShardWriter, deal
from musadata.tasks.text import PERMUTATIONS
from pipelines.stage1 import Probe, Stage1

REFERENCE = (ROOT / "tests" / "adversarial" / "references" / "layernorm.py").read_text()
ROWS_PER_SHARD = 1000


@dataclass(frozen=True)
class Run:
    """One command: wall seconds, the largest resident memory of any of its processes in GB, its exit code."""

    seconds: float
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


def make_rows(draw: "np.random.Generator", first: int, rows: int, tasks: int) -> pa.RecordBatch:
    """Made-up tasks `first` and following."""
    numbers = np.arange(first, first + rows)
    duplicate = numbers % 10 == 9
    graphs = np.where(duplicate, numbers - 9, numbers)
    texts = draw.integers(0, 1 << 32, (rows, PERMUTATIONS), dtype=np.int64)
    near = np.flatnonzero(numbers % 20 == 7)
    texts[near] = texts[near - 1] if len(near) and near[0] else texts[near]
    texts[near, :8] = draw.integers(0, 1 << 32, (len(near), 8), dtype=np.int64)
    provenance = {"origin": "made", "repository": "", "revision": "1", "path": "a.py", "lines": "1-9", "license": "MIT"}
    inputs = [
        {"name": "x", "kind": "normal", "dtype": "float32", "shape": [8, 33], "low": 0.0, "high": 0.0, "literal": ""}
    ]
    columns: dict[str, Any] = {
        "task_id": [f"task-{number:016x}" for number in numbers],
        "schema_version": [SCHEMA_VERSION] * rows,
        "source_kind": ["mined"] * rows,
        "name": ["LayerNorm"] * rows,
        "reference": [f"# {number}\n{REFERENCE}" for number in numbers],
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
    """Run a command and watch the resident memory of each of its processes."""
    start = time.monotonic()
    process = psutil.Popen(command, cwd=ROOT)
    over, peak = threading.Event(), [0]

    def watch() -> None:
        while not over.wait(0.2):
            try:
                for one in [process, *process.children(recursive=True)]:
                    peak[0] = max(peak[0], one.memory_info().rss)
            except psutil.Error:
                continue

    thread = threading.Thread(target=watch)
    thread.start()
    code = process.wait()
    over.set()
    thread.join()
    return Run(time.monotonic() - start, peak[0] / 2**30, code)


def measure(tasks: int, folder: Path) -> tuple[Run, Run]:
    """The stage on so many probed tasks, and the same command again."""
    shards = max(2, tasks // ROWS_PER_SHARD)
    config = folder / "config.yaml"
    config.write_text(
        f"seed: 1\nshards: {shards}\nsources: [{{kind: nnsmith, count: {shards}}}]\nteacher: {{kind: compiler}}\n"
    )
    corpus = folder / "corpus"
    shutil.rmtree(corpus, ignore_errors=True)
    make_probed(str(corpus), config, tasks, shards)
    command = [sys.executable, "-m", "pipelines.stage1", "--config", str(config), "--corpus", str(corpus)]
    return run(command), run(command)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    rows: list[tuple[str, str, str, bool]] = []
    rates, details = [], {}
    for tasks in arguments.tasks:
        with tempfile.TemporaryDirectory() as folder:
            first, again = measure(tasks, Path(folder))
        if first.code or again.code:
            raise SystemExit("benchmark: the command failed")
        rate = tasks / first.seconds
        rates.append(rate)
        details[str(tasks)] = {"seconds": first.seconds, "again_seconds": again.seconds, "peak_gb": first.peak_gb}
        rows.append(
            (f"stage 1 without probing, {tasks:,} tasks", ">= 2,000 tasks/s", f"{rate:,.0f} tasks/s", rate >= 2000)
        )
        rows.append(("... largest process", "<= 1 GB", f"{first.peak_gb:.2f} GB", first.peak_gb <= 1.0))
        rows.append(("... the same command again", "<= 3 s", f"{again.seconds:.1f} s", again.seconds <= 3))
    if len(rates) > 1:
        change = rates[0] / rates[-1] - 1
        rows.append(("cost per task, most against fewest", "within 15 %", f"{change:+.0%}", abs(change) <= 0.15))
    report("million tasks", rows, details, arguments.output)


if __name__ == "__main__":
    main()
