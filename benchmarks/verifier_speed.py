"""How long a verdict takes on the emulated backend, compilation included, against the compiler alone.

    taskset -c 0 python -m benchmarks.verifier_speed --output build/verifier_speed.json

Every honest kernel of `tests/adversarial` is judged twice by one warm verifier: with its artifact not yet made (a
comment is added to its sources, so that the cache knows nothing of it), and again with it. What the reference takes is
shared by a task's candidates and so measured apart. The rival is measured in the same run: the compiler on the same
sources, with nothing around it.
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.measuring import report
from musadata.config import BackendType, VerifierConfig
from musadata.verifier import Verifier
from musadata.verifier.backends.protocol import Backend
from musadata.verifier.compilation.built import Built
from musadata.verifier.compilation.sources import CandidateSources
from musadata.verifier.trusted import plan
from musadata.verifier.trusted.expectation import ReferenceRunner
from tests.adversarial.programs import Exercise, read_exercise, read_programs

GOAL_SECONDS = 0.6


class _Stopwatch:
    """Adds up the time that one verdict spends in the compiler."""

    def __init__(self, backend: Backend):
        self.seconds = 0.0
        self._compile = backend.compile

    def compile(self, sources: CandidateSources) -> Built:
        start = time.perf_counter()
        try:
            return self._compile(sources)
        finally:
            self.seconds += time.perf_counter() - start


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if the goal is not reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--limit", type=int, default=1000)
    arguments = parser.parse_args(argv)
    config = VerifierConfig(backend=BackendType.EMULATED)
    nonce = f"\n# measured {time.time_ns()}\n"
    rows, references = [], dict[str, float]()
    with Verifier(config) as verifier:
        opened = verifier._opened
        watch = _Stopwatch(opened.backend)
        opened.backend = replace(opened.backend, compile=watch.compile)
        for program in read_programs("honest")[: arguments.limit]:
            exercise = read_exercise(program.value("task"))
            start = time.perf_counter()
            _expect(opened.references, config, exercise)
            references.setdefault(exercise.task.task_id, time.perf_counter() - start)
            source = _fresh(program.source, nonce)
            watch.seconds = 0.0
            start = time.perf_counter()
            verdict = verifier.verify(exercise.task, source, exercise.shape_sets)
            cold, compiler = time.perf_counter() - start, watch.seconds
            start = time.perf_counter()
            verifier.verify(exercise.task, source, exercise.shape_sets)
            rows.append((program.name, verdict.accepted, cold, compiler, time.perf_counter() - start))
    return _report(rows, references, arguments.output)


def _expect(references: ReferenceRunner, config: VerifierConfig, exercise: Exercise) -> None:
    """Run the reference as the verifier will."""
    task, shapes = exercise.task, plan.collect_shapes(exercise.task, exercise.shape_sets)
    sets = plan.plan_sets(config, task.task_id, shapes)
    references.expect(task.reference, shapes, sets, plan.derive_seed(config, task.task_id, "state"))


def _fresh(source: str, nonce: str) -> str:
    """The same program with other C++ text, as far as the hash of an artifact is concerned."""
    return source.replace("#include <torch/extension.h>", f"//{nonce.strip()}\n#include <torch/extension.h>")


def _report(
    rows: list[tuple[str, bool, float, float, float]], references: dict[str, float], output: Path | None
) -> int:
    cold, compiler, warm = (statistics.median(times) for times in list(zip(*rows, strict=True))[2:])
    reference = statistics.median(references.values())
    reached = cold <= GOAL_SECONDS
    lines = [
        ("candidates, all accepted", str(len(rows)), str(sum(row[1] for row in rows)), all(row[1] for row in rows)),
        ("verdict, compilation included, median s", f"<= {GOAL_SECONDS}", f"{cold:.3f}", reached),
        ("verdict / compiler alone, medians", "", f"{cold / compiler:.2f}", True),
        ("verdict of a compiled candidate, median s", "", f"{warm:.3f}", True),
        ("the reference, once for each task, median s", "", f"{reference:.3f}", True),
    ]
    names = ("name", "accepted", "seconds", "compiler_seconds", "compiled_seconds")
    found = [dict(zip(names, row, strict=True)) for row in rows]
    report("verifier speed", lines, {"candidates": found, "references": references}, output)
    return 0 if reached else 1


if __name__ == "__main__":
    raise SystemExit(main())
