"""What stages 2 and 3 cost a task by themselves: without executing its reference, asking a teacher and judging.

    python -m pipelines.all --config configs/quickstart.yaml --corpus build/quickstart
    python -m benchmarks.stage_costs --corpus build/quickstart --output benchmarks/results/stage_costs.json

The tasks of a finished corpus are copied under new names until there are enough. What the corpus holds stands for
whoever is left out: its traces for the sandbox, its answers for the teacher (each with a comment of its own, so that no
two are equal), its candidates for the verifier. All else is what a worker does with a shard: it reads and writes
Parquet, renders prompts, checks the reasoning against the traces, writes and reads the journals, and assembles
candidates, trajectories and the four training views. The figures are CPU seconds of one process, threads included.
"""

import argparse
import dataclasses
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle, islice
from pathlib import Path
from unittest.mock import patch

from benchmarks.measuring import Row, report
from musadata.config import load_config
from musadata.corpus.manifest import create_corpus, open_corpus
from musadata.records import Annotation, Candidate, InputSpec, Kernel, Task, Trajectory, Verdict
from musadata.storage.commits import Commit, read_commit, write_commit
from musadata.storage.shards import deal, read_shard, write_shard
from musadata.teacher.prompts import STEPS, render_steps
from musadata.teacher.protocol import Answer, CannotAnswer, Request
from musadata.verifier.extract import extract
from pipelines import resources, stage2
from pipelines.stage2 import Annotate
from pipelines.stage3 import Assemble, Converse
from pipelines.steps import ShardStep

ROWS_PER_SHARD = 250
PROMISED_MS = 1.0  # of CPU: 2,000 tasks/s on two cores
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
                texts = [message.content for message in trajectory.messages if message.role == "assistant"]
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
            driver="",
            toolchain="",
            seed_policy="",
            version="",
            operators=(),
            kernels=(),
            timings=(),
            speedup=candidate.speedup,
            reward=candidate.reward,
        )

    def trace(self, task: Task, *_: object) -> object:
        return self.annotations[original(task)].traces

    def answer(self, request: Request) -> Answer:
        task_id, number = request.task.task_id.split(_COPY)
        if not request.reasoning and request.kind.value == "reason":
            steps = [step for step in self.annotations[task_id].reasoning if step.step in STEPS]
            return Answer(render_steps(steps))
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


def measure(recorded: Recorded, tasks: int, samples: int) -> tuple[dict[str, float], dict[str, float]]:
    """CPU milliseconds of a task by step, and rows of a task by dataset."""
    shards = max(1, tasks // ROWS_PER_SHARD)
    with tempfile.TemporaryDirectory() as folder, standing_in(recorded):
        config_file, corpus = Path(folder, "config.yaml"), str(Path(folder, "corpus"))
        teacher = f"teacher: {{kind: compiler, samples: {samples}}}"
        config_file.write_text(f"seed: 1\nshards: {shards}\nsources: [{{kind: nnsmith, count: {tasks}}}]\n{teacher}\n")
        config = load_config(str(config_file))
        make_tasks(corpus, recorded, tasks, shards)
        steps: dict[str, ShardStep | Converse] = {
            "stage 2": Annotate(config, corpus),
            "stage 3, conversations": Converse(config, corpus, workers=2),
            "stage 3, assembly": Assemble(config, corpus),
        }
        for step in steps.values():
            if isinstance(step, ShardStep):
                step.code()  # versions of code are computed once a process
        found = {}
        for name, step in steps.items():
            start = time.process_time()
            for shard in deal(shards):
                step.run(shard)
            found[name] = (time.process_time() - start) / tasks * 1e3
        commits = [read_commit(corpus, stage, shard) for stage in ("stage2", "stage3") for shard in deal(shards)]
        rows: dict[str, float] = {}
        for output in (output for commit in commits if commit is not None for output in commit.outputs):
            rows[output.dataset] = rows.get(output.dataset, 0.0) + output.rows / tasks
    return found, rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True, help="a finished one, such as the quickstart's")
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    recorded = Recorded(arguments.corpus)
    costs, made = measure(recorded, arguments.tasks, arguments.samples)
    rows: list[Row] = [(f"{name}, CPU time", "", f"{cost:.2f} ms a task", True) for name, cost in costs.items()]
    total = sum(costs.values())
    kept = total <= PROMISED_MS
    rows.append(("stages 2 and 3 together", f"<= {PROMISED_MS:.0f} ms a task", f"{total:.2f} ms a task", kept))
    rows.append(("... by calculation on two cores", ">= 2,000 tasks/s", f"{2e3 / total:,.0f} tasks/s", kept))
    details = {"tasks": arguments.tasks, "samples": arguments.samples, "rows_a_task": made, "milliseconds": costs}
    report("own cost of stages 2 and 3", rows, details, arguments.output)


if __name__ == "__main__":
    main()
