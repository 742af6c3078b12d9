"""Do the analyses of the compiler teacher plan the kernels that its answers have, and why those?

    python -m benchmarks.analyses CORPUS [--show] [--output FILE]

Asks the teacher anew about every task of the corpus: for the analysis and for its honest answers. Names of kernels are
read from both texts; an analysis that names none plans as many as its words say. A task has a choice if its answers
have different schedules; its analysis makes it if a table weighs two or more.
"""

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from benchmarks.measuring import Row, report
from benchmarks.unit_tests import read
from musadata.config import TeacherConfig
from musadata.records import Annotation, Task
from musadata.teacher.compiler_teacher import CompilerTeacher
from musadata.teacher.protocol import Answer, CannotAnswer, Request, RequestKind

SEED = 20260601
NUMBERS = ["no", "One", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
_KERNEL = re.compile(r"__global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\((.*?)\)\s*\{(.*?)\n\}\n", re.DOTALL)
_NAMED = re.compile(r"`(\w+_kernel)`")
_COUNTED = re.compile(r"\b(One) kernel (?:is enough|can do)|(?:makes|A plan of) (\w+)(?: kernels|:)")
_WEIGHED = re.compile(r"^\| .+ \| \d+ × \d+ \|", re.MULTILINE)


@dataclass
class Found:
    """What the answers of all tasks come to."""

    answers: int = 0
    agreeing: int = 0
    differing: list[str] = field(default_factory=list)
    unfused: list[str] = field(default_factory=list)
    declared: int = 0
    tasks: int = 0
    weighed: list[bool] = field(default_factory=list)


def kernels_of(answer: str) -> list[str]:
    """Names of the kernels of an answer."""
    return [name for name, _, _ in _KERNEL.findall(answer)]


def agrees(analysis: str, answer: str) -> bool:
    """Whether an analysis plans the kernels that an answer has."""
    kernels, tensors = kernels_of(answer), re.findall(r"`(\w+)` (?:\((?=\d|a single)|=)", analysis)
    named = set(_NAMED.findall(analysis)).difference(set(tensors).difference(kernels))  # `prelu_kernel` (4, 37)
    if named:
        return named == set(kernels)
    match = _COUNTED.search(analysis)
    return match is not None and NUMBERS[: len(kernels) + 1][-1] == (match[1] or match[2])


def unfused(answer: str) -> list[str]:
    """Buffers that a kernel without a loop writes and another such kernel reads at the same place, unless what that one
    reads as well needs the first to have ended."""
    heads = [(head, body) for _, head, body in _KERNEL.findall(answer)]
    reads = [set(re.findall(r"\bconst \w+\* __restrict__ (\w+)", head)) for head, _ in heads]
    writes = [set(re.findall(r"__restrict__ (\w+)", head)) - read for (head, _), read in zip(heads, reads, strict=True)]
    plain = [  # sums by atomics end with the grid
        not re.search(r"__shared__|atomicAdd|for \((?!int i = blockIdx)", body) for _, body in heads
    ]
    found: set[str] = set()
    for first, made in enumerate(writes):
        later: set[str] = set()  # what depends on it by way of another kernel
        for number in range(first + 1, len(heads)) if plain[first] else ():
            taken = {name for name in reads[number] & made if f"{name}[i]" in heads[number][1]}
            if plain[number] and not reads[number] & later:
                found |= taken
            if reads[number] & (made | later):
                later |= writes[number]
    return sorted(found)


def look_at(task: Task, annotation: Annotation, teacher: CompilerTeacher, samples: int, found: Found) -> None:
    def ask(kind: RequestKind, sample: int = 0) -> Answer:
        return teacher.answer(Request(kind, task, annotation.traces, (), sample=sample, declared=annotation.declared))

    analysis = ask(RequestKind.REASON).text
    found.tasks += 1
    found.declared += bool(annotation.declared) or not task.measure
    try:
        made = [ask(RequestKind.GENERATE, sample) for sample in range(samples)]
    except CannotAnswer:
        return
    if len({answer.schedule for answer in made}) > 1:
        found.weighed.append(len(_WEIGHED.findall(analysis)) > 1)
    for answer in dict.fromkeys(answer.text for answer in made):
        found.answers += 1
        if agrees(analysis, answer):
            found.agreeing += 1
        else:
            found.differing.append(task.name)
        if unfused(answer):
            found.unfused.append(task.name)


def rows_of(found: Found) -> list[Row]:
    weighed, tasks = found.weighed, found.tasks
    return [
        ("tasks with facts at the declared size", "100 %", _of(found.declared, tasks), found.declared == tasks),
        (
            "analyses that weigh schedules, of tasks with several",
            ">= 90 %",
            _of(sum(weighed), len(weighed)),
            sum(weighed) >= 0.9 * len(weighed),
        ),
        ("answers with the kernels of the analysis", "100 %", _of(found.agreeing, found.answers), not found.differing),
        ("answers with unfused pointwise kernels", "0", str(len(found.unfused)), not found.unfused),
    ]


def _of(part: int, whole: int) -> str:
    return f"{part / max(1, whole):.1%} ({part} of {whole})"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("--samples", type=int, default=3, help="honest answers per task")
    parser.add_argument("--show", action="store_true", help="name the tasks")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args(argv)
    tasks = {task.task_id: task for task in read(arguments.corpus, "tasks", Task)}
    config, found = TeacherConfig(samples=arguments.samples, faults=0), Found()
    with CompilerTeacher(config, SEED) as teacher:
        for annotation in read(arguments.corpus, "annotations", Annotation):
            look_at(tasks[annotation.task_id], annotation, teacher, arguments.samples, found)
    details = {
        "differing": sorted(set(found.differing)),
        "unfused": sorted(set(found.unfused)),
    }
    if arguments.show:
        print(yaml.safe_dump(details, sort_keys=False, width=200))
    rows = rows_of(found)
    report("one plan", rows, details, arguments.output)
    return 0 if all(kept for *_, kept in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
