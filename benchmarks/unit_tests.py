"""Have the tasks of a corpus unit tests that tell right kernels from wrong ones?

    python -m benchmarks.unit_tests CORPUS [--fresh 20] [--output FILE]

The first two rows count the corpus' own rows: tasks with a test, and the wrong programs on which it was checked. The
last ones are about faults that no test was checked on: for some tasks the compiler teacher seeds others, the verifier
says which of these are wrong, and the task's test is run on them.
"""

import argparse
import random
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

import pyarrow.parquet as pq

from benchmarks.measuring import Row, report
from musadata.config import BackendType, TeacherConfig, VerifierConfig
from musadata.corpus.manifest import open_corpus
from musadata.records import Annotation, ErrorClass, Task, UnitTest
from musadata.rows import restore
from musadata.teacher.compiler_teacher import CompilerTeacher
from musadata.verifier import Verifier

SEED = 99  # another one than any config's, so that other faults are seeded
FAULTS = 6  # tried per task
LEAST_TASKS, LEAST_CAUGHT = 0.9, 0.8
WRONG = (ErrorClass.RUNTIME, ErrorClass.CORRECTNESS)

Kind = TypeVar("Kind")


def read(corpus: str, dataset: str, kind: type[Kind]) -> Iterator[Kind]:
    for path in open_corpus(corpus).paths(dataset):
        yield from (restore(kind, row) for row in pq.read_table(path).to_pylist())


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("--fresh", type=int, default=20, help="tasks whose tests are run on other faults")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args(argv)
    tasks = {task.task_id: task for task in read(arguments.corpus, "tasks", Task)}
    tests = {test.task_id: test for test in read(arguments.corpus, "unit_tests", UnitTest)}
    strong = [test for test in tests.values() if test.caught_share >= LEAST_CAUGHT]
    checked = [mutant for test in tests.values() for mutant in test.mutants]
    share, seen = len(strong) / max(1, len(tasks)), sum(bool(mutant.caught_by) for mutant in checked)
    rows: list[Row] = [
        ("tasks with a test that catches 80 % of its wrong programs", ">= 90 %", f"{share:.1%}", share >= LEAST_TASKS),
        ("wrong programs caught, of those that tests were checked on", "", f"{seen} of {len(checked)}", True),
    ]
    chosen = random.Random(SEED).sample(sorted(tests), min(arguments.fresh, len(tests)))
    traces = {one.task_id: one for one in read(arguments.corpus, "annotations", Annotation) if one.task_id in chosen}
    config = VerifierConfig(backend=BackendType.EMULATED)
    with CompilerTeacher(TeacherConfig(), SEED) as teacher, Verifier(config) as verifier:
        found = {one: catch_fresh(tests[one], tasks[one], traces[one], teacher, verifier) for one in chosen}
    caught, wrong = (sum(counts[index] for counts in found.values()) for index in (0, 1))
    good = [counts for counts in found.values() if counts[0] >= LEAST_CAUGHT * counts[1]]
    some = f"{len(good) / max(1, len(found)):.1%}"
    rows += [
        ("other faults caught", f">= {LEAST_CAUGHT:.0%}", f"{caught} of {wrong}", caught >= LEAST_CAUGHT * wrong),
        ("tasks whose test catches 80 % of its other faults", ">= 90 %", some, len(good) >= LEAST_TASKS * len(found)),
    ]
    report("unit_tests", rows, {"fresh": found}, arguments.output)
    return int(not all(kept for *_, kept in rows))


def catch_fresh(
    test: UnitTest, task: Task, annotation: Annotation, teacher: CompilerTeacher, verifier: Verifier
) -> tuple[int, int]:
    """How many of some newly seeded faults a test catches, and how many are wrong."""
    caught = wrong = 0
    shapes = [trace.inputs for trace in annotation.traces]
    for source, _ in islice(teacher.mutants(task, annotation.traces), FAULTS):
        if verifier.verify(task, source, shapes).error_class in WRONG:
            [run] = verifier.run_unit_test(task, test.source, [source])
            caught, wrong = caught + (not run.ok), wrong + 1
    return caught, wrong


if __name__ == "__main__":
    raise SystemExit(main())
