"""How long it takes to judge many verdicts anew under another policy.

    python -m benchmarks.rejudge --verdicts 100000 --output benchmarks/results/rejudge.json

The verdicts are those of the honest kernels and cheats of tests/adversarial that `--kinds` draws evenly, each judged
once by the emulator and repeated. `musadata rejudge` reads the file and writes another one; nothing is executed.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from benchmarks.measuring import report, run_watched
from musadata.config import BackendType, VerifierConfig
from musadata.verifier import Verifier
from musadata.verifier.batch import replace_verdicts
from tests.adversarial.programs import read_exercise, read_programs

GOAL_SECONDS = 60.0


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if it takes too long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verdicts", type=int, default=100_000)
    parser.add_argument("--kinds", type=int, default=24, help="different verdicts among them")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args(argv)
    programs = [*read_programs("honest"), *read_programs("cheats")]
    drawn = programs[:: max(1, len(programs) // arguments.kinds)]
    with Verifier(VerifierConfig(backend=BackendType.EMULATED)) as verifier:
        exercises = [(read_exercise(one.value("task")), one.source) for one in drawn]
        verdicts = [verifier.verify(one.task, source, one.shape_sets) for one, source in exercises]
    many = [verdicts[at % len(verdicts)] for at in range(arguments.verdicts)]
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder) / "verdicts.parquet", Path(folder) / "anew.parquet"
        replace_verdicts(pa.table({"number": list(range(len(many)))}), many, given)
        command = [sys.executable, "-m", "musadata", "rejudge", str(given), "--policy", "paper", "--output", str(made)]
        run = run_watched(command)
    what = f"{len(many):,} verdicts under another policy"
    kept = run.code == 0 and run.seconds <= GOAL_SECONDS
    rows = [
        (what, f"<= {GOAL_SECONDS:.0f} s", f"{run.seconds:.1f} s", kept),
        ("memory", "", f"{run.peak_gb:.2f} GB", True),
    ]
    report("rejudge", rows, {"summary": run.output.splitlines()[-30:]}, arguments.output)
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
