"""Candidates that a corpus has accepted, in KernelBench's own harness: does it call them right as well?

    python -m benchmarks.corpus_in_harness export --corpus build/quickstart --count 60 --to drawn.json
    python -m benchmarks.corpus_in_harness run --harness HARNESS --drawn drawn.json --output FILE

HARNESS is a checkout of ScalingIntelligence/KernelBench. `export` draws candidates at random, each of another task, of
those that the harness can express: it casts every input to float32, indices too. It needs no device. `run` gives each
to `kernelbench.eval.eval_kernel_against_ref` in a fresh process, with 5 correctness runs and without timing, as many at
a time as there are cores: compiling takes most of the time. The harness constructs `Model` and `ModelNew` after the
same seed and copies no values. What it calls wrong is judged once more with a reference in float32: convolutions run in
TensorFloat-32 by default, whose errors are larger than the harness's tolerance. `FILE` holds what there is after every
candidate: a run that was cut off goes on with those that are not judged yet.
"""

import argparse
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from benchmarks.kernelbench_harness import evaluate, write_stand_ins
from benchmarks.measuring import Row, report

_ACCEPTED = """
    SELECT c.candidate_id AS name, c.task_id AS task, t.reference AS reference, c.source AS candidate
    FROM candidates c JOIN tasks t USING (task_id)
    WHERE c.accepted AND list_bool_and([input.dtype = 'float32' FOR input IN t.inputs]) ORDER BY c.candidate_id
"""
_TIMED = False


def draw(corpus: str, count: int, seed: int) -> list[dict[str, str]]:
    """Accepted candidates with their references, of different tasks."""
    from musadata.corpus.query import query

    table = query(corpus, _ACCEPTED)
    rows: list[dict[str, str]] = table.to_pylist() if table else []
    random.Random(seed).shuffle(rows)
    one_of_each = list({row["task"]: row for row in rows}.values())
    return one_of_each[:count]


def judge(drawn: Sequence[dict[str, str]], arguments: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and what the harness says, as they come; what has none in time is left out."""
    end = time.monotonic() + 60 * arguments.minutes
    with tempfile.TemporaryDirectory(prefix="musadata-harness-") as folder:
        write_stand_ins(Path(folder) / "stand_ins")
        sys.path[:0] = [str(arguments.harness / "src"), str(Path(folder) / "stand_ins")]
        os.environ["PYTHONPATH"] = os.pathsep.join([*sys.path[:2], os.environ.get("PYTHONPATH", "")])

        def judge_one(row: dict[str, str]) -> dict[str, Any]:
            start = time.monotonic()
            build = str(Path(folder) / row["name"])
            left = min(arguments.seconds_each, end - start)
            if left < 1:
                return {"trouble": "no time left"}
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                try:
                    given = row["reference"], row["candidate"], build, _TIMED
                    found = pool.apply_async(evaluate, given).get(left)
                    if not found["accepted"]:
                        found["exactly"] = pool.apply_async(evaluate, (*given, False)).get(left)
                except Exception as error:
                    found = {"trouble": f"{type(error).__name__}: {error}"[:300]}
            return {**found, "seconds": time.monotonic() - start}

        with ThreadPoolExecutor(arguments.cores) as threads:
            names = {threads.submit(judge_one, row): row["name"] for row in drawn}
            for done in as_completed(names):
                yield names[done], done.result()


def main(argv: Sequence[str] | None = None) -> int:
    """Draw, or judge what was drawn; 1 if the harness does not call every one right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    export = commands.add_parser("export")
    export.add_argument("--corpus", required=True)
    export.add_argument("--count", type=int, default=60)
    export.add_argument("--seed", type=int, default=0)
    export.add_argument("--to", type=Path, required=True)
    run = commands.add_parser("run")
    run.add_argument("--harness", type=Path, required=True)
    run.add_argument("--drawn", type=Path, required=True)
    run.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    run.add_argument("--minutes", type=float, default=9.0)
    run.add_argument("--seconds-each", type=float, default=300.0)
    run.add_argument("--output", type=Path)
    arguments = parser.parse_args(argv)
    if arguments.command == "export":
        drawn = draw(arguments.corpus, arguments.count, arguments.seed)
        arguments.to.write_text(json.dumps(drawn, indent=1) + "\n", encoding="utf-8")
        print(f"{len(drawn)} candidates in {arguments.to}")
        return 0
    arguments.harness = arguments.harness.resolve()
    drawn = json.loads(arguments.drawn.read_text(encoding="utf-8"))
    found = _read_judged(arguments.output)
    for name, one in judge([row for row in drawn if row["name"] not in found], arguments):
        found[name] = one
        print(name, json.dumps(one)[:300], flush=True)
        if arguments.output:  # the run may be cut off
            arguments.output.write_text(json.dumps({"found": found}, indent=1), encoding="utf-8")
    lines = summarise(found, len(drawn))
    report("candidates of a corpus in KernelBench's harness", lines, {"found": found}, arguments.output)
    return 0 if all(line[3] for line in lines) else 1


def _read_judged(output: Path | None) -> dict[str, dict[str, Any]]:
    """What an earlier run has found, but for what it had no time for."""
    before = json.loads(output.read_text(encoding="utf-8"))["found"] if output and output.is_file() else {}
    return {name: one for name, one in before.items() if "trouble" not in one}


def summarise(found: dict[str, dict[str, Any]], drawn: int) -> list[Row]:
    """The rows of the table."""
    right = sum(bool(one.get("accepted")) for one in found.values())
    exactly = sum(bool(one.get("exactly", one).get("accepted")) for one in found.values())
    unjudged = drawn - len(found) + sum("trouble" in one for one in found.values())
    return [
        ("candidates drawn", "", str(drawn), True),
        ("right in the harness", str(drawn), str(right), right == drawn),
        ("... with its reference in float32", str(drawn), str(exactly), exactly == drawn),
        ("not judged in time", "0", str(unjudged), unjudged == 0),
    ]


if __name__ == "__main__":
    raise SystemExit(main())
