"""What the conversations of a shard came to, as rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from musadata.corpus.datasets import DATASETS
from musadata.corpus.views import VIEWS
from musadata.corpus.views.supervised import REASONED, names_beyond, why_no_target
from musadata.records import HUMAN, Annotation, Candidate, Kernel, Reject, Task, Trajectory
from musadata.sampling.assembly import KEEP, Conversation, assemble, keep_different
from musadata.sampling.request_cache import RequestCache
from musadata.sampling.retry import RetryBuffer, find_failure
from musadata.sampling.rollout import Ask, Attempt, CutShort, Judge, judge_program, run_rollout
from musadata.sampling.sample_plan import SamplePlan
from musadata.storage.shards import Shard, read_shard
from musadata.teacher.protocol import REQUEST_FAILED, CannotAnswer, RequestFailed
from musadata.training_rows import RetryRow
from pipelines import journals, resources
from pipelines.retries import count_rounds, fill_buffer, replay
from pipelines.steps import (
    ShardStep,
    Writers,
    annotated_tasks,
    asking_settings,
)
from pipelines.versions import assembly_version


@dataclass(frozen=True)
class Assemble(ShardStep):
    """Writes what the conversations of a shard came to. The journal already holds every answer and verdict."""

    stage: ClassVar[str] = "stage3"
    reads: ClassVar[tuple[str, ...]] = ("stage1", "stage2")
    writes: ClassVar[dict[str, type]] = {
        "candidates": Candidate,
        "trajectories": Trajectory,
        "retries": RetryRow,
        **{name: DATASETS[name].kind for name in VIEWS},
        "rejects": Reject,
    }
    funnel: ClassVar[tuple[str, ...]] = ("generate", "verify", "keep")

    def code(self) -> str:
        return assembly_version(self.config)

    def settings(self, shard: Shard) -> Any:
        rounds = count_rounds(self.corpus)
        return [
            self.config.verifier,
            self.config.sampling,
            *asking_settings(self.config),
            *([{"rounds": rounds}] if rounds else []),
        ]

    def process(self, shard: Shard, out: Writers) -> None:
        with journals.request_cache(self.config, self.corpus, self.stage) as cache:
            self._process(shard, cache, out)

    def _process(self, shard: Shard, cache: RequestCache, out: Writers) -> None:
        asked = resources.teacher(self.config, self.corpus)
        teacher = asked.name
        ask, judge = cache.recall_answers(asked), cache.recall_verdicts(self.config.verifier)
        programs, tasks = human_programs(self.corpus, shard), annotated_tasks(self.config, self.corpus, shard)
        buffer, again = self._retry(shard, tasks, ask, judge, out)
        for task, annotation in tasks:
            conversations = self._converse(task, annotation, ask, judge, out)
            if again is None and (failure := find_failure(task, annotation, conversations)):
                buffer.add(failure)
            conversations += (again or {}).get(task.task_id, [])
            candidates, trajectories = assemble(task, conversations, teacher, self.config.sampling)
            for sample, program in enumerate(programs.get(task.task_id, ()), start=SamplePlan.of(self.config).most):
                attempts = judge_program(task, annotation, sample, program, self.config.seed, judge)
                more = assemble(task, [attempts], HUMAN, self.config.sampling)
                candidates, trajectories = candidates + more[0], trajectories + more[1]
            candidates, rejects = keep_different(candidates, self.config.sampling)
            _count(candidates, out)
            for reject in rejects:
                out.reject(reject)
            if annotation.grounded:
                _count_reasoning(task, annotation, out)
            _count_targets(task, candidates, trajectories, out)
            _count_seeded(task, trajectories, out)
            _keep(task, annotation, candidates, trajectories, out)
        for row in buffer.rows(teacher):
            out.keep("retries", row)

    def _retry(
        self, shard: Shard, tasks: Sequence[tuple[Task, Annotation]], ask: Ask, judge: Judge, out: Writers
    ) -> tuple[RetryBuffer, dict[str, list[Conversation]] | None]:
        """The buffer of failed tasks after all rounds, and their conversations. Without a round the buffer is empty and
        there is None: it is filled as tasks go by."""
        rounds = count_rounds(self.corpus)
        if not rounds:
            return RetryBuffer(self.config.sampling, self.config.seed, shard), None

        def report(task: Task, sample: int, why: CannotAnswer, turn: int) -> None:
            if isinstance(why, RequestFailed):
                out.reject(_failed(task, sample, why, turn))
            else:
                out.reject(_unanswered(task, sample, str(why)))

        buffer = fill_buffer(self.config, shard, tasks, ask, judge)
        return buffer, replay(buffer, rounds, self.config.sampling.turns, self.config.seed, ask, judge, report)

    def _converse(self, task: Task, annotation: Annotation, ask: Ask, judge: Judge, out: Writers) -> list[Conversation]:
        turns, seed = self.config.sampling.turns, self.config.seed

        def converse(sample: int) -> list[Attempt]:
            out.funnel.came_in("generate")
            try:
                attempts = run_rollout(task, annotation, sample, turns, seed, ask, judge)
            except CutShort as cut:
                out.reject(_failed(task, sample, cut, len(cut.attempts) + 1))
                attempts = cut.attempts
            except RequestFailed as failure:
                out.reject(_failed(task, sample, failure, 1))
                return []
            except CannotAnswer as refusal:
                out.reject(_unanswered(task, sample, str(refusal)))
                return []
            out.funnel.went_on("generate")
            return attempts

        return list(SamplePlan.of(self.config).hold(converse))


def _keep(
    task: Task,
    annotation: Annotation,
    candidates: Sequence[Candidate],
    trajectories: Sequence[Trajectory],
    out: Writers,
) -> None:
    rows: dict[str, Sequence[Any]] = {
        "candidates": candidates,
        "trajectories": trajectories,
        **{name: view(task, annotation, candidates, trajectories) for name, view in VIEWS.items()},
    }
    for dataset, some in rows.items():
        for row in some:
            out.keep(dataset, row)


def _count_targets(
    task: Task, candidates: Sequence[Candidate], trajectories: Sequence[Trajectory], out: Writers
) -> None:
    """A reject where a task has right programs and none that is worth training on."""
    if reason := why_no_target(candidates, trajectories):
        out.take("generation", Reject("sft", "generation", reason, "", task.task_id))


def _count_seeded(task: Task, trajectories: Sequence[Trajectory], out: Writers) -> None:
    """A reject for each conversation that no repair is made of, since its fault was seeded."""
    for trajectory in trajectories:
        if trajectory.fault and trajectory.success and len(trajectory.candidates) > 1:
            out.take("repair", Reject("sft", "repair", "seeded fault", trajectory.fault, task.task_id))


def _count_reasoning(task: Task, annotation: Annotation, out: Writers) -> None:
    """A reject where the six steps name what their prompt leaves out."""
    found: Annotation | Reject = annotation
    if beyond := names_beyond(task, annotation):
        detail = f"{len(beyond)} tensors, {beyond[0]} the first"
        found = Reject("sft", REASONED, "names what the prompt leaves out", detail, task.task_id)
    out.take(REASONED, found)


def _count(candidates: Sequence[Candidate], out: Writers) -> None:
    for candidate in candidates:
        out.funnel.came_in("verify")
        if candidate.accepted:
            out.funnel.went_on("verify")
            out.funnel.came_in(KEEP)
            if candidate.kept:
                out.funnel.went_on(KEEP)
        else:
            out.funnel.dropped("verify", candidate.error_class.value if candidate.error_class else "rejected")


def _unanswered(task: Task, sample: int, reason: str) -> Reject:
    return Reject("candidates", "generate", reason, f"sample {sample}", task.task_id)


def _failed(task: Task, sample: int, failure: RequestFailed, turn: int) -> Reject:
    detail = f"sample {sample}, turn {turn}: {failure}"
    return Reject("candidates", "generate", REQUEST_FAILED, detail, task.task_id)


def human_programs(corpus: str, shard: Shard) -> dict[str, list[str]]:
    """What people wrote for the tasks of a shard, by task id."""
    found: dict[str, list[str]] = {}
    for kernel in read_shard(corpus, "kernels", shard, Kernel):
        if kernel.task_id:
            found.setdefault(kernel.task_id, []).append(kernel.candidate)
    return found
