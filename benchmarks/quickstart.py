"""The quickstart's promises, measured: time, memory, yield, resumption and determinism.

python -m benchmarks.quickstart [--output benchmarks/results/quickstart.json] [--only clean,again,workers,kill,flink]

`flink` needs a running Flink with Beam's job server: give Beam's flags in FLINK_FLAGS and, for the fault test, the
commands that print the TaskManager's process id and start another one in FLINK_TASKMANAGER_PID and FLINK_TASKMANAGER.
"""

import argparse
import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.initial_state import count_equal
from benchmarks.measuring import ROOT, Row, python, report, run_watched

CONFIG = ROOT / "configs" / "quickstart.yaml"
BUILD = ROOT / "build" / "benchmark"


def command(corpus: Path, *flags: str) -> list[str]:
    return [python(), "-m", "pipelines.all", "--config", str(CONFIG), "--corpus", str(corpus), *flags]


def fingerprint(corpus: Path) -> dict[str, str]:
    """SHA-256 of every shard and of the manifest, by relative path."""
    files = sorted([*corpus.glob("*/*.parquet"), *corpus.glob("_probed/*.parquet"), corpus / "manifest.json"])
    return {str(file.relative_to(corpus)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def differences(one: dict[str, str], other: dict[str, str]) -> list[str]:
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def fresh(name: str) -> Path:
    corpus = BUILD / name
    shutil.rmtree(corpus, ignore_errors=True)
    return corpus


def must_succeed(run: Any) -> Any:
    if run.code != 0:
        raise SystemExit(f"benchmark: the command failed with exit code {run.code}:\n{run.output[-4000:]}")
    return run


def measure_clean(rows: list[Row], details: dict[str, Any]) -> None:
    corpus = fresh("reference")
    run = must_succeed(run_watched(command(corpus)))
    rows.append(("quickstart, 2 cores", "<= 360 s", f"{run.seconds:.0f} s", run.seconds <= 360))
    rows.append(("peak memory over all processes", "<= 4 GB", f"{run.peak_gb:.2f} GB", run.peak_gb <= 4))
    measure_yield(corpus, rows, details)


def measure_yield(corpus: Path, rows: list[Row], details: dict[str, Any]) -> None:
    def ask(sql: str) -> Any:
        return duckdb.execute(sql.replace("{", f"read_parquet('{corpus}/").replace("}", "/*.parquet')")).fetchall()

    kinds = dict(ask("SELECT source_kind, count(*) FROM {tasks} GROUP BY 1"))
    rows.append(("tasks mined from torch", ">= 60", str(kinds.get("mined", 0)), kinds.get("mined", 0) >= 60))
    rows.append(("tasks from NNSmith", ">= 60", str(kinds.get("nnsmith", 0)), kinds.get("nnsmith", 0) >= 60))
    unknown = ask(
        "SELECT count(*) FROM {tasks} WHERE '' IN (provenance.origin, provenance.revision, provenance.license)"
    )[0][0]
    rows.append(("tasks without provenance", "0", str(unknown), unknown == 0))
    share, total = ask(
        "SELECT avg((task_id IN (SELECT task_id FROM {candidates} WHERE accepted))::int), count(*) FROM {tasks}"
    )[0]
    rows.append(("tasks with an accepted candidate", ">= 60 %", f"{share:.0%} of {total}", share >= 0.6))
    # A label joins the features of all kernels, so it alone does not show which of them another plan changed.
    different = "SELECT count(DISTINCT (structure, algorithm)) n FROM {candidates} WHERE accepted GROUP BY task_id"
    mean = ask(f"SELECT avg(n) FROM ({different})")[0][0]
    rows.append(("accepted structures per accepted task", ">= 2", f"{mean:.2f}", mean >= 2))
    repaired, kinds_of_fault = ask(
        "SELECT count(*), count(DISTINCT fault) FROM {trajectories} WHERE success AND len(candidates) > 1"
    )[0]
    rows.append(("repair conversations that succeed", ">= 30", str(repaired), repaired >= 30))
    rows.append(("kinds of fault among them", ">= 8", str(kinds_of_fault), kinds_of_fault >= 8))
    passed = ask("SELECT fault, count(*) FROM {candidates} WHERE fault <> '' AND accepted GROUP BY 1 ORDER BY 1")
    rows.append(("seeded faults that the verifier passed", "0", str(sum(n for _, n in passed)), not passed))
    measure_form(ask, rows)
    details["faults_passed"] = dict(passed)
    details["families"] = dict(ask("SELECT operator_family, count(*) FROM {tasks} GROUP BY 1 ORDER BY 2 DESC"))
    details["rejects"] = {
        f"{step}: {reason}": n
        for step, reason, n in ask(
            "SELECT step, reason, count(*) FROM {rejects} GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 30"
        )
    }


def measure_form(ask: Callable[[str], Any], rows: list[Row]) -> None:
    """Measure sizes, and whether candidates start as their references do."""
    total, sized, median = ask(
        "SELECT count(*), count(*) FILTER (len(measure) > 0), median(largest) FROM (SELECT measure, list_max("
        "[list_product(s.shape) FOR s IN measure IF s.kind <> 'literal']) AS largest FROM {tasks})"
    )[0]
    rows.append(("tasks with a measure size", ">= 98 %", f"{sized / total:.1%} of {total}", sized >= 0.98 * total))
    enough = median >= 4_000_000
    rows.append(("elements of its largest input, median", ">= 4,000,000", f"{median:,.0f}", enough))
    pairs = ask("SELECT t.reference, c.source FROM {candidates} c JOIN {tasks} t USING (task_id) WHERE c.accepted")
    equal, stateful = count_equal(pairs)
    what = "accepted candidates with parameters that start as the reference's"
    rows.append((what, "100 %", f"{equal} of {stateful}", equal == stateful))


def measure_again(rows: list[Row], details: dict[str, Any]) -> None:
    corpus = BUILD / "reference"
    journal = lambda: {p: p.stat().st_size for p in (corpus / "_journal").rglob("*") if p.is_file()}  # noqa: E731
    before, shards = journal(), fingerprint(corpus)
    run = must_succeed(run_watched(command(corpus)))
    rows.append(("the same command again", "<= 30 s", f"{run.seconds:.1f} s", run.seconds <= 30))
    calls = "no" if journal() == before else "yes"
    rows.append(("... teacher calls or verifications", "no", calls, calls == "no" and fingerprint(corpus) == shards))


def compare(name: str, corpus: Path, rows: list[Row]) -> None:
    different = differences(fingerprint(BUILD / "reference"), fingerprint(corpus))
    found = "identical" if not different else f"{len(different)} differ, first {different[0]}"
    rows.append((name, "byte-identical", found, not different))


def measure_workers(rows: list[Row], details: dict[str, Any]) -> None:
    corpus = fresh("one-worker")
    details["seconds_one_worker"] = must_succeed(run_watched(command(corpus, "--direct_num_workers=1"))).seconds
    compare("clean runs with 1 and 2 workers", corpus, rows)


def measure_kill(rows: list[Row], details: dict[str, Any]) -> None:
    corpus = fresh("killed")
    details["killed_at_seconds"] = []
    for seconds in (40, 110):
        run_watched(command(corpus), kill_after=seconds)
        details["killed_at_seconds"].append(seconds)
    must_succeed(run_watched(command(corpus)))
    compare("kill -9 twice in the middle, then the same command", corpus, rows)


def measure_flink(rows: list[Row], details: dict[str, Any]) -> None:
    if "FLINK_FLAGS" not in os.environ:
        print("flink: skipped, FLINK_FLAGS is not set")
        return
    flags = [*shlex.split(os.environ["FLINK_FLAGS"]), "--parallelism=2"]
    corpus = fresh("flink")
    details["seconds_flink"] = must_succeed(run_watched(command(corpus, *flags))).seconds
    compare("the same on Flink", corpus, rows)
    corpus = fresh("flink-killed")
    threading.Thread(target=_kill_task_manager, args=(details["seconds_flink"] / 2,), daemon=True).start()
    details["seconds_flink_killed"] = must_succeed(run_watched(command(corpus, *flags))).seconds
    compare("... with its TaskManager killed half-way", corpus, rows)


def _kill_task_manager(after: float) -> None:
    time.sleep(after)
    pid = int(subprocess.check_output(shlex.split(os.environ["FLINK_TASKMANAGER_PID"]), text=True))
    os.kill(pid, signal.SIGKILL)
    time.sleep(5)
    subprocess.run(shlex.split(os.environ["FLINK_TASKMANAGER"]), check=True)


def measure_environment(rows: list[Row], details: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "clone", "--quiet", str(ROOT), folder], check=True)
        run = must_succeed(run_watched(["make", "env"], Path(folder)))
    rows.append(("environment from nothing", "<= 120 s", f"{run.seconds:.0f} s", run.seconds <= 120))


PARTS = {
    "environment": measure_environment,
    "clean": measure_clean,
    "again": measure_again,
    "workers": measure_workers,
    "kill": measure_kill,
    "flink": measure_flink,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--only", default=",".join(PARTS))
    arguments = parser.parse_args()
    rows: list[Row] = []
    details: dict[str, Any] = {}
    for part in arguments.only.split(","):
        PARTS[part](rows, details)
        report("quickstart", rows, details, arguments.output)


if __name__ == "__main__":
    main()
