"""Every text of the compiler teacher for many tasks, to compare what a change of the compiler changes (no claim).

    python -m benchmarks.compiler_programs write DIRECTORY [CORPUS] [--captured FILE] [--only TEXT] [--every N]
    python -m benchmarks.compiler_programs compare BEFORE AFTER [--show 3]

`write` asks for all schedules of a corpus's tasks, their analyses, seeded faults, repairs and mutants, and makes the
candidates of the compiler's own test references at several sizes; nothing is executed. A task's texts are one file, in
which each has a heading. Captured graphs are kept in FILE (by default beside DIRECTORY), so that a second run lowers
the same ones. `compare` counts the texts that differ by their kind, and shows the first differences of each kind.
"""

import argparse
import difflib
import hashlib
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.unit_tests import read
from musadata.compiler.candidate_set import read_graph
from musadata.compiler.capturing import CAPTURE, PRELOAD
from musadata.compiler.emission.candidate import build_candidate
from musadata.compiler.emission.schedule_plan import PLANS
from musadata.compiler.ir.lowering_errors import Unsupported
from musadata.config import TeacherConfig
from musadata.records import Annotation, Task
from musadata.rows import plain
from musadata.sandbox import Caller, Limits, Outcome, Sandbox
from musadata.teacher.compiler_teacher import CAPTURE_LIMITS, CompilerTeacher
from musadata.teacher.protocol import CannotAnswer, Request, RequestKind
from musadata.training_rows import ChatMessage
from tests.compiler.references import FIXTURES

SEED = 20260601
HONEST, FAULTY = len(PLANS), 3  # samples
SIZES = (0, 64, 1024, 8192)  # of all named sizes of a test reference; 0 leaves its own
WORKERS = 2
_FEEDBACK = (ChatMessage("user", "The kernels ran and gave wrong results: results are not right.\n- a row differs"),)
_HEADING = re.compile(r"^=====  (.*)  =====\n", re.M)


class KeptCaptures:
    """A sandbox whose outcomes are kept in a file of JSON lines."""

    def __init__(self, path: Path):
        self._path, self._opened = path, ExitStack()
        self._sandbox: Caller | None = None
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self._known: dict[str, dict[str, Any]] = dict(json.loads(line) for line in lines)

    def call(self, function: str, *arguments: Any, limits: Limits, files: Mapping[str, bytes] | None = None) -> Outcome:
        key = hashlib.sha256(json.dumps([function, arguments]).encode()).hexdigest()
        if key not in self._known:
            if self._sandbox is None:
                self._sandbox = self._opened.enter_context(Sandbox(PRELOAD))
            self._known[key] = asdict(self._sandbox.call(function, *arguments, limits=limits)) | {"files": {}}
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, self._known[key]]) + "\n")
        return Outcome(**self._known[key])

    def close(self) -> None:
        self._opened.close()


def texts_of(task: Task, annotation: Annotation, captures: KeptCaptures) -> Iterator[tuple[str, str]]:
    """All that the teacher writes for a task: a heading and a text each."""
    teacher = CompilerTeacher(TeacherConfig(samples=HONEST + FAULTY, faults=FAULTY), SEED, captures)

    def ask(kind: RequestKind, sample: int, turn: int = 1) -> Iterator[tuple[str, str]]:
        messages = _FEEDBACK if turn > 1 else ()
        answer = teacher.answer(Request(kind, task, annotation.traces, messages, sample=sample, turn=turn))
        words, fence, program = answer.text.partition("```python\n")
        is_honest = sample < HONEST and turn == 1
        yield f"{'program' if is_honest else 'faulty program'} {sample}.{turn} {answer.fault}", program
        yield f"{'words' if is_honest else 'words of a repair'} {sample}.{turn}", words if fence else answer.text
        yield f"schedule {sample}.{turn}", answer.schedule

    for sample in range(HONEST):
        try:
            yield from ask(RequestKind.GENERATE, sample)
        except CannotAnswer as reason:
            yield "no program", str(reason)
            return
        reasoning = teacher.answer(Request(RequestKind.REASON, task, annotation.traces, (), sample=sample)).text
        yield f"analysis {sample}", reasoning
    for sample in range(HONEST, HONEST + FAULTY):
        for turn in (1, 2):
            yield from ask(RequestKind.GENERATE if turn == 1 else RequestKind.REPAIR, sample, turn)
    for number, (source, fault) in enumerate(teacher.mutants(task, annotation.traces)):
        yield f"mutant {number} {fault}", source


def texts_of_fixture(name: str, captures: KeptCaptures) -> Iterator[tuple[str, str]]:
    """The candidates of a test reference at several sizes."""
    fixture = FIXTURES[name]
    outcome = captures.call(CAPTURE, fixture.source, plain(list(fixture.sets)), 0, limits=CAPTURE_LIMITS)
    graph = read_graph(outcome.value)
    for size in SIZES:
        sizes = dict.fromkeys((origin.name for origin in graph.sizes if not origin.attribute), size) if size else {}
        for plan in PLANS:
            try:
                candidate = build_candidate(graph, plan, sizes)
            except Unsupported as reason:
                yield f"no program {size} {plan.name}", str(reason)
                continue
            yield f"program {size} {plan.name}", candidate.source
            yield f"schedule {size} {plan.name}", candidate.schedule


def _write(directory: Path, captured: Path, corpus: str, only: str, every: int, worker: int) -> int:
    captures = KeptCaptures(captured.with_suffix(f".{worker}.jsonl"))
    tasks = {task.task_id: task for task in read(corpus, "tasks", Task)} if corpus else {}
    annotations = {one.task_id: one for one in read(corpus, "annotations", Annotation)} if corpus else {}
    known: list[tuple[str, Any]] = [(f"fixture {name}", name) for name in FIXTURES]
    known += [(f"{tasks[one].name} {one}", one) for one in sorted(annotations)]
    written = 0
    for place, (name, key) in enumerate(known):
        if place % WORKERS != worker or only not in name or (key in tasks and place // WORKERS % every):
            continue
        texts = texts_of(tasks[key], annotations[key], captures) if key in tasks else texts_of_fixture(key, captures)
        try:
            found = list(texts)
        except Exception as error:  # to be compared like any other text
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            found = [("error", f"{type(error).__name__}: {error}")]
        path = directory / f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', name)}.txt"
        path.write_text("".join(f"=====  {head}  =====\n{text.rstrip()}\n" for head, text in found), encoding="utf-8")
        written += 1
    captures.close()
    return written


def read_texts(path: Path) -> dict[str, str]:
    """The texts of one file by their headings."""
    _, *parts = _HEADING.split(path.read_text(encoding="utf-8"))
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _kind(heading: str) -> str:
    return re.sub(r" \d.*", "", heading)


def compare(before: Path, after: Path, show: int) -> int:
    """Print what differs of the tasks that were written afterwards; how many texts do."""
    total, differing = Counter[str](), Counter[str]()
    examples: dict[str, list[str]] = defaultdict(list)
    names = sorted({path.name for path in after.glob("*.txt")})
    for name in names:
        paths = (before / name, after / name)
        if not paths[0].exists():
            differing["file"] += 1
            examples["file"].append(name)
            continue
        old, new = map(read_texts, paths)
        for heading in dict.fromkeys((*old, *new)):
            kind, one, other = _kind(heading), old.get(heading), new.get(heading)
            total[kind] += 1
            if one == other:
                continue
            differing[kind] += 1
            lines = difflib.unified_diff((one or "").splitlines(), (other or "").splitlines(), "", "", lineterm="", n=1)
            examples[kind].append("\n".join([f"--- {name}: {heading}", *list(lines)[2:40]]))
    for kind, number in total.items():
        print(f"{kind}: {differing[kind]} of {number} differ")
    for kind, found in examples.items():
        for text in found[:: max(1, len(found) // show)][:show] if show else ():
            print(f"\n[{kind}] {text}")
    return differing.total()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = parser.add_subparsers(dest="mode", required=True)
    writing, comparing = modes.add_parser("write"), modes.add_parser("compare")
    writing.add_argument("directory", type=Path)
    writing.add_argument("corpus", nargs="?", default="")
    writing.add_argument("--captured", type=Path, help="where captured graphs are kept")
    writing.add_argument("--only", default="", help="tasks and references whose name holds this text")
    writing.add_argument(
        "--every", type=int, default=1, help="only each so-many-th task of the corpus, for a quick look"
    )
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--show", type=int, default=2, help="differences shown of each kind")
    arguments = parser.parse_args(argv)
    if arguments.mode == "compare":
        return int(compare(arguments.before, arguments.after, arguments.show) > 0)
    arguments.directory.mkdir(parents=True, exist_ok=True)
    captured = arguments.captured or arguments.directory.with_suffix(".captured")
    with ProcessPoolExecutor(WORKERS) as pool:
        given = (arguments.directory, captured, arguments.corpus, arguments.only, arguments.every)
        written = sum(pool.map(_write, *zip(*[(*given, worker) for worker in range(WORKERS)], strict=True)))
    print(f"{written} files in {arguments.directory}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
