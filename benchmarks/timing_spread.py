"""How far the time of one kernel differs between ten runs, each in a process of its own.

    python -m benchmarks.timing_spread --output build/timing_spread.json

Each run is a whole verdict: the candidate's process is new every time, its compiled artifact is not. The kernels are
honest ones of `tests/adversarial` on sizes at which they take more than 50 µs on a recent device; shorter ones are
measured as well and not judged. The spread is (longest − shortest) / median of the ten medians.
"""

import argparse
import re
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.measuring import Row, report
from musadata.config import BackendType, VerifierConfig
from musadata.records import Task
from musadata.verifier import Verifier
from tests.adversarial.programs import read_exercise, read_programs

GOAL, FROM_MS = 0.03, 0.05
# Candidate, and the shapes of its arguments.
KERNELS = (
    ("matmul_tiled", ((1024, 1024), (1024, 1024))),
    ("matmul_register_tiles", ((1536, 1024), (1024, 1280))),
    ("softmax_online", ((2048, 2048),)),
    ("relu_float4", ((1000, 1000),)),
)


def resize(task: Task, shapes: Sequence[tuple[int, ...]]) -> Task:
    """The task on other shapes."""
    inputs = tuple(replace(spec, shape=shape) for spec, shape in zip(task.inputs, shapes, strict=True))
    return replace(task, inputs=inputs, task_id=f"{task.task_id}-{re.sub('[^0-9]+', '-', str(shapes))}")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if the goal is not reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--runs", type=int, default=10)
    arguments = parser.parse_args(argv)
    programs = {program.name: program for program in read_programs("honest")}
    lines, details = [], {}
    with Verifier(VerifierConfig(backend=BackendType(arguments.backend), input_sets=2)) as verifier:
        for name, shapes in KERNELS:
            task = resize(read_exercise(programs[name].value("task")).task, shapes)
            verdicts = [verifier.verify(task, programs[name].source) for _ in range(arguments.runs)]
            details[f"{name} {shapes}"] = [
                {
                    "timings": [vars(timing) for timing in verdict.timings],
                    "findings": [f.rule for f in verdict.findings],
                }
                for verdict in verdicts
            ]
            lines += _lines(name, [{t.name: t.median_ms for t in verdict.timings} for verdict in verdicts])
    report("timing spread", lines, {"kernels": details}, arguments.output)
    return 0 if all(line[3] for line in lines) else 1


def _lines(name: str, medians: list[dict[str, float]]) -> list[Row]:
    lines: list[Row] = []
    for side in ("candidate", "eager"):
        times: list[Any] = [run[side] for run in medians if side in run]
        if len(times) < len(medians):
            lines.append((f"{name}, {side}", "timed", f"{len(times)} of {len(medians)} runs", False))
            continue
        median = statistics.median(times)
        spread = (max(times) - min(times)) / median
        promised = f"<= {GOAL:.0%}" if median >= FROM_MS else ""
        reached = spread <= GOAL or median < FROM_MS
        lines.append((f"{name}, {side}, {median * 1e3:.1f} µs", promised, f"{spread:.2%}", reached))
    return lines


if __name__ == "__main__":
    raise SystemExit(main())
