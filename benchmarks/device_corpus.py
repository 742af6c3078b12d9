"""A corpus whose candidates a real GPU has judged and timed, from the tasks of one that was made without.

    make quickstart
    python -m benchmarks.device_corpus --annotated build/quickstart --output build/device_corpus.json

Stage 3 is killed on its way and run again. Its verdicts are compared with the emulator's on the same programs, and
whatever differs is printed.
"""

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.measuring import ROOT, report, run_watched

_BEFORE = ("tasks", "annotations", "kernels", "rejects", "_probed", "_kernels", "_commits")


@dataclass(frozen=True)
class Difference:
    """A program on which two backends do not agree, with what each had to say."""

    task_id: str
    fault: str
    accepted: bool  # by the new corpus's backend
    feedback: str
    other_feedback: str


def make_corpus(annotated: Path, corpus: Path, backend: str, kill_after: float) -> float:
    """Seconds that stage 3 took in all, one kill included."""
    for name in _BEFORE:
        shutil.copytree(annotated / name, corpus / name)
    shutil.rmtree(corpus / "_commits" / "stage3", ignore_errors=True)
    text = (ROOT / "configs" / "quickstart.yaml").read_text(encoding="utf-8")
    config = corpus.with_suffix(".yaml")
    config.write_text(re.sub(r"backend: \w+", f"backend: {backend}", text), encoding="utf-8")
    command = [sys.executable, "-m", "pipelines.stage3", "--config", str(config), "--corpus", str(corpus)]
    killed, whole = run_watched(command, kill_after=kill_after), run_watched(command)
    if whole.code != 0:
        raise SystemExit(whole.output[-4000:])
    return killed.seconds + whole.seconds


def compare(corpus: Path, other: Path) -> tuple[int, list[Difference]]:
    """How many programs both corpora have judged for the same task, and on which they do not agree."""
    ours, theirs = (
        f"(SELECT DISTINCT task_id, source, fault, accepted, feedback FROM '{folder}/candidates/*.parquet')"
        for folder in (corpus, other)
    )
    rows = duckdb.execute(
        f"SELECT a.task_id, a.fault, a.accepted, a.feedback, b.feedback, a.accepted = b.accepted "
        f"FROM {ours} a JOIN {theirs} b USING (task_id, source)"
    ).fetchall()
    return len(rows), [Difference(*row[:5]) for row in rows if not row[5]]


def count(corpus: Path) -> dict[str, Any]:
    """Candidates, accepted ones, those of them that were timed or hold a seeded fault, and their median speedup."""
    names = ("candidates", "accepted", "timed", "faulty", "median_speedup")
    (row,) = duckdb.execute(
        "SELECT count(*), count(*) FILTER (accepted), count(speedup), count(*) FILTER (accepted AND fault <> ''), "
        f"median(speedup) FROM '{corpus}/candidates/*.parquet'"
    ).fetchall()
    return dict(zip(names, row, strict=True))


def main(argv: Sequence[str] | None = None) -> int:
    """Make it, compare, print; 1 if a seeded fault was accepted or the backends disagree too often."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--annotated", type=Path, required=True, help="a corpus of the quickstart")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--kill-after", type=float, default=60.0)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus"
        seconds = make_corpus(arguments.annotated, corpus, arguments.backend, arguments.kill_after)
        found, (both, differences) = count(corpus), compare(corpus, arguments.annotated)
    for one in differences:
        print(f"{one.task_id} {one.fault}\n  here: {one.feedback}\n  there: {one.other_feedback}")
    share = 1 - len(differences) / max(1, both)
    all_timed = found["timed"] == found["accepted"] or arguments.backend == "emulated"
    lines = [
        ("stage 3, killed once on its way", "", f"{seconds:.0f} s", True),
        ("candidates", "", str(found["candidates"]), True),
        ("accepted, all of them timed", "all timed", f"{found['accepted']}", all_timed),
        ("median speedup over eager", "", f"{found['median_speedup'] or 0:.2f}", True),
        ("seeded faults that passed", "0", str(found["faulty"]), found["faulty"] == 0),
        ("verdicts that agree with the emulator's", ">= 97%", f"{share:.1%} of {both}", share >= 0.97),
    ]
    details = {"seconds": seconds, "counts": found, "differences": [asdict(one) for one in differences]}
    report("a corpus on a device", lines, details, arguments.output)
    return 0 if all(reached for *_, reached in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
