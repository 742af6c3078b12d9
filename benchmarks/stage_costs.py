"""What stages 2 and 3 cost a task by themselves: without executing its reference, asking a teacher and judging.

    python -m pipelines.all --config configs/quickstart.yaml --corpus build/quickstart
    python -m benchmarks.stage_costs --corpus build/quickstart --output benchmarks/results/stage_costs.json

The tasks of a finished corpus are copied under new names until there are enough. What the corpus holds stands for
whoever is left out: its traces for the sandbox, its answers for the teacher (each with a comment of its own, so that no
two are equal), its candidates for the verifier. All else is what a worker does with a shard: it reads and writes
Parquet, renders prompts, checks the reasoning against the traces, writes and reads the journals, and assembles
candidates, trajectories and the four training views. The figures are CPU milliseconds of one process, threads included.

Each part's floor is what libraries alone take for the same values: pyarrow for the rows, the JSON encoder and SHA-256
for identities, the JSON encoder and decoder for journals, one `ast.parse` for each program.
"""

import argparse
import ast
import dataclasses
import hashlib
import io
import json
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.cpu_parts import CpuParts, replaced
from benchmarks.measuring import Row, report
from musadata.config import load_config
from musadata.corpus.manifest import create_corpus, open_corpus
from musadata.corpus.views import VIEWS
from musadata.records import Annotation, Candidate, InputSpec, Kernel, Task, Trajectory, Verdict
from musadata.rows import content_id, plain, restore
from musadata.sampling import request_cache
from musadata.sampling.diversity import choose_diverse
from musadata.sampling.structure import describe_structure
from musadata.storage.commits import Commit, find_commit, require_commit, write_commit
from musadata.storage.journal import Journal
from musadata.storage.shards import ShardWriter, deal, read_rows, read_shard
from musadata.teacher.claims.judging import judge_claims, share_checked
from musadata.teacher.claims.steps import parse_claims, parse_steps, render_analysis
from musadata.teacher.prompts import (
    render_correction,
    render_generation,
    render_reasoning,
    render_repair,
)
from musadata.teacher.protocol import Answer, CannotAnswer, Request
from musadata.verifier.extract import extract
from pipelines import lifetime, resources, stage2
from pipelines.assembly import Assemble
from pipelines.rollout_steps import Converse
from pipelines.stage2 import Annotate
from pipelines.steps import ShardStep
from tests.written_shards import write_shard

STAGES = "stage1", "stage2", "stage3"
ROWS_PER_SHARD = 250
PROMISED_MS = 4.0  # of CPU: 500 tasks/s on two cores
LEFT_OUT = "stand-ins for sandbox, teacher and verifier"
REPLIES = "check of the analyses' claims"
READING, WRITING = "rows read from Parquet", "rows written to Parquet"
IDS, JOURNALS, PROGRAMS = "identities and keys", "journals", "programs found in replies"
PROMPTS, STRUCTURE, VIEWING = "prompts", "structure and choice of candidates", "views for trainers"
COMMITS, REST = "commits", "the rest"
WATCHED = {
    REPLIES: (parse_steps, parse_claims, judge_claims, share_checked),
    READING: (read_rows,),
    IDS: (content_id,),
    PROGRAMS: (extract,),
    PROMPTS: (render_reasoning, render_correction, render_generation, render_repair),
    STRUCTURE: (describe_structure, choose_diverse),
    VIEWING: tuple(VIEWS.values()),
    COMMITS: (find_commit, require_commit, write_commit),
}
WATCHED_METHODS: dict[str, tuple[type, tuple[str, ...]]] = {
    WRITING: (ShardWriter, ("write", "__exit__")),
    JOURNALS: (Journal, ("get", "put", "flush", "refresh")),
}
_COPY = "~"  # between the id of a task and the number of its copy
_FENCE = "```python\n"


class Recorded:
    """What is known of the tasks of a finished corpus; it answers as its teacher did and judges as its verifier did."""

    name = "recorded"

    def __init__(self, corpus: str):
        self.annotations: dict[str, Annotation] = {}
        self._answers: dict[tuple[str, int, int], Answer] = {}
        self._verdicts: dict[str, Verdict] = {}
        opened = open_corpus(corpus, "stage3")
        shards = [commit.shard for commit in opened.stage("stage3")]
        for shard in shards:
            self.annotations |= {one.task_id: one for one in read_shard(corpus, "annotations", shard, Annotation)}
            candidates = {one.candidate_id: one for one in read_shard(corpus, "candidates", shard, Candidate)}
            for trajectory in read_shard(corpus, "trajectories", shard, Trajectory):
                texts = [turn.answer for turn in trajectory.turns]
                for candidate_id, text in zip(trajectory.candidates, texts, strict=True):
                    self._record(candidates[candidate_id], text)
        tasks = [task for shard in shards for task in read_shard(corpus, "tasks", shard, Task)]
        self.tasks = [task for task in tasks if task.task_id in self.annotations]

    def _record(self, candidate: Candidate, text: str) -> None:
        answer = Answer(text, candidate.schedule, candidate.fault)
        self._answers[candidate.task_id, candidate.sample, candidate.turn] = answer
        self._verdicts[candidate.source] = Verdict(
            accepted=candidate.accepted,
            stage=candidate.stage,
            error_class=candidate.error_class,
            test_share=candidate.test_share,
            findings=candidate.findings,
            feedback=candidate.feedback,
            backend=candidate.backend,
            device="recorded",
            speedup=candidate.speedup,
            reward=candidate.reward,
        )

    def trace(self, task: Task, *_: object) -> object:
        return self.annotations[original(task)].traces

    def answer(self, request: Request) -> Answer:
        task_id, number = request.task.task_id.split(_COPY)
        if not request.reasoning and request.kind.value == "reason":
            annotation = self.annotations[task_id]
            claims = [(one.sentence, one.expression) for one in annotation.claims]
            return Answer(render_analysis(annotation.reasoning, claims))
        found = self._answers.get((task_id, request.sample, request.turn))
        if found is None:
            raise CannotAnswer("nothing is recorded")
        return dataclasses.replace(found, text=found.text.replace(_FENCE, f"{_FENCE}# {number}\n", 1))

    def verify(self, task: Task, text: str, shapes: Sequence[Sequence[InputSpec]]) -> Verdict:
        source = extract(text).source
        return self._verdicts[source.partition("\n")[2] if source.startswith("# ") else source]


def original(task: Task) -> str:
    return task.task_id.partition(_COPY)[0]


def make_tasks(corpus: str, recorded: Recorded, tasks: int, shards: int) -> None:
    """Commit stage 1 with copies of the recorded tasks."""
    create_corpus(corpus)
    copies = (
        dataclasses.replace(task, task_id=f"{task.task_id}{_COPY}{number:08d}")
        for number, task in enumerate(cycle(recorded.tasks))
    )
    for shard in deal(shards):
        rows = list(islice(copies, tasks // shards))
        written = write_shard(corpus, "tasks", shard, rows, Task), write_shard(corpus, "kernels", shard, [], Kernel)
        write_commit(corpus, Commit("stage1", shard, "made", (), written))


@contextmanager
def standing_in(recorded: Recorded) -> Iterator[None]:
    """Let `recorded` stand for the sandbox, the teacher and the verifier."""
    with ExitStack() as stack:
        for where, name, what in (
            (resources, "teacher", lambda *_: recorded),
            (resources, "verifier", lambda *_: recorded),
            (resources, "references", lambda *_: None),
            (stage2, "trace_task", recorded.trace),
        ):
            stack.enter_context(patch.object(where, name, what))
        yield


@contextmanager
def watching(parts: CpuParts) -> Iterator[None]:
    """Count the time of all parts."""
    with ExitStack() as stack:
        for name, functions in WATCHED.items():
            for function in functions:
                stack.enter_context(replaced(function, parts.watched(name, function)))
        for name, (kind, methods) in WATCHED_METHODS.items():
            for method in methods:
                stack.enter_context(patch.object(kind, method, parts.watched(name, getattr(kind, method))))
        of_answers: tuple[Callable[..., Any], ...] = (plain, restore)
        for function in of_answers:  # and of verdicts
            stack.enter_context(patch.object(request_cache, function.__name__, parts.watched(JOURNALS, function)))
        for method in ("trace", "answer", "verify"):
            stack.enter_context(patch.object(Recorded, method, parts.watched(LEFT_OUT, getattr(Recorded, method))))
        yield


class Values:
    """What goes through the libraries: the values of identities and of journals, and the programs."""

    def __init__(self) -> None:
        self.identities: list[Any] = []
        self.journals: list[Any] = []
        self.programs: set[str] = set()

    @contextmanager
    def collected(self) -> Iterator[None]:
        identify, find, keep = content_id, extract, Journal.put

        def identifying(prefix: str, *about: Any) -> str:
            self.identities.append([plain(part) for part in about])
            return identify(prefix, *about)

        def finding(reply: str) -> Any:
            self.programs.add(find(reply).source)
            return find(reply)

        def keeping(journal: Journal, key: str, value: Any) -> None:
            self.journals.append(value)
            keep(journal, key, value)

        with replaced(content_id, identifying), replaced(extract, finding), patch.object(Journal, "put", keeping):
            yield

    def floors(self) -> dict[str, float]:
        """CPU seconds of the libraries."""
        encoder = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return {
            IDS: cpu_seconds(lambda: [hashlib.sha256(encoder.encode(one).encode()) for one in self.identities]),
            JOURNALS: cpu_seconds(lambda: [json.loads(json.dumps(one)) for one in self.journals]),
            PROGRAMS: cpu_seconds(lambda: [ast.parse(one) for one in self.programs]),
        }


def cpu_seconds(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def parquet_floors(corpus: str, commits: Sequence[Commit]) -> dict[str, float]:
    """CPU seconds in which pyarrow alone reads, as Python values, the rows that the stages read, and writes those that
    they write."""
    found = {READING: 0.0, WRITING: 0.0}
    for commit in commits:
        for output in commit.outputs:
            path = Path(corpus, output.path)
            table = pq.read_table(path, partitioning=None)
            rows = table.to_pylist()
            if output.dataset in ("tasks", "annotations"):
                found[READING] += cpu_seconds(partial(read_with_pyarrow, path))
            if commit.stage != "stage1":
                found[WRITING] += cpu_seconds(partial(write_with_pyarrow, rows, table.schema))
    return found


def read_with_pyarrow(path: Path) -> None:
    pq.read_table(path, partitioning=None).to_pylist()


def write_with_pyarrow(rows: list[Any], schema: pa.Schema) -> None:
    pq.write_table(pa.Table.from_pylist(rows, schema), io.BytesIO(), compression="zstd", compression_level=6)


@dataclasses.dataclass(frozen=True)
class Costs:
    """CPU milliseconds of a task by stage and by part, the floors of parts, and rows of a task by dataset."""

    stages: dict[str, float]
    parts: dict[str, float]
    floors: dict[str, float]
    rows_a_task: dict[str, float]


def measure(recorded: Recorded, tasks: int, samples: int) -> Costs:
    """What a worker does, one shard after the other; then the same again for what the libraries get."""
    shards = max(1, tasks // ROWS_PER_SHARD)
    parts, values, stages, rows = CpuParts(), Values(), defaultdict[str, float](float), Counter[str]()
    with tempfile.TemporaryDirectory() as folder, standing_in(recorded):
        with watching(parts):
            steps = prepare(recorded, Path(folder, "measured"), tasks, samples, shards)
            parts.seconds.clear()
            for shard in deal(shards):
                for name, step in steps.items():
                    stages[name] += cpu_seconds(partial(step.run, shard))
        corpus = next(iter(steps.values())).corpus
        commits = [require_commit(corpus, stage, shard) for stage in STAGES for shard in deal(shards)]
        floors = parquet_floors(corpus, commits)
        for output in (output for commit in commits if commit.stage != "stage1" for output in commit.outputs):
            rows[output.dataset] += output.rows
        with values.collected():
            for step in prepare(recorded, Path(folder, "again"), tasks, samples, shards).values():
                for shard in deal(shards):
                    step.run(shard)
    spent = dict(parts.seconds)
    spent[REST] = sum(stages.values()) - sum(spent.values())
    per_task = 1e3 / tasks
    return Costs(
        {name: value * per_task for name, value in stages.items()},
        {name: spent.get(name, 0.0) * per_task for name in (*WATCHED, *WATCHED_METHODS, REST, LEFT_OUT)},
        {name: value * per_task for name, value in {**floors, **values.floors()}.items()},
        {name: count / tasks for name, count in rows.items()},
    )


def prepare(recorded: Recorded, folder: Path, tasks: int, samples: int, shards: int) -> dict[str, ShardStep | Converse]:
    """The steps, on a new corpus in which stage 1 is done."""
    folder.mkdir()
    config_file, corpus = folder / "config.yaml", str(folder / "corpus")
    teacher = f"teacher: {{kind: compiler, samples: {samples}}}"
    config_file.write_text(f"seed: 1\nshards: {shards}\nsources: [{{kind: nnsmith, count: {tasks}}}]\n{teacher}\n")
    config = load_config(str(config_file))
    make_tasks(corpus, recorded, tasks, shards)
    annotating, assembling = Annotate(config, corpus), Assemble(config, corpus)
    for step in (annotating, assembling):
        step.code()  # versions of code are computed once a process
    conversing = Converse(config, corpus, workers=2)
    return {"stage 2": annotating, "stage 3, conversations": conversing, "stage 3, assembly": assembling}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True, help="a finished one, such as the quickstart's")
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    lifetime.collect_rarely()  # as workers do
    recorded = Recorded(arguments.corpus)
    measure(recorded, ROWS_PER_SHARD, arguments.samples)  # imports, and what is computed once a process
    costs = measure(recorded, arguments.tasks, arguments.samples)
    own, floor = sum(costs.parts.values()) - costs.parts[LEFT_OUT], sum(costs.floors.values())
    rows: list[Row] = [
        ("stages 2 and 3, CPU time", f"<= {PROMISED_MS:.0f} ms a task", f"{own:.2f} ms a task", own <= PROMISED_MS),
        ("... by calculation on two cores", ">= 500 tasks/s", f"{2e3 / own:,.0f} tasks/s", own <= PROMISED_MS),
        ("... of that in libraries, called with the same values", "", f"{floor:.2f} ms a task", True),
    ]
    for name in sorted(costs.parts, key=lambda name: -costs.parts[name]):
        if name != LEFT_OUT:
            library = f", libraries alone {costs.floors[name]:.2f}" if name in costs.floors else ""
            rows.append((f"... {name}", "", f"{costs.parts[name]:.2f} ms{library}", True))
    details = {"tasks": arguments.tasks, "samples": arguments.samples, **dataclasses.asdict(costs)}
    report("own cost of stages 2 and 3", rows, details, arguments.output)


if __name__ == "__main__":
    main()
