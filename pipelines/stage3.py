"""Stage 3: candidates -> verdicts -> repair -> a diverse, verified corpus.

python -m pipelines.stage3 --config configs/quickstart.yaml --corpus build/quickstart --runner DirectRunner
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from musadata.config import BackendType, Config
from musadata.corpus.datasets import DATASETS
from musadata.corpus.mixture import check_mixing
from musadata.corpus.views import VIEWS
from musadata.records import (
    HUMAN,
    SCHEMA_VERSION,
    Annotation,
    Candidate,
    Kernel,
    Reject,
    Task,
    Trajectory,
    Verdict,
)
from musadata.sampling.assembly import KEEP, Conversation, assemble, keep_different
from musadata.sampling.request_cache import RequestCache
from musadata.sampling.retry import RetryBuffer, find_failure
from musadata.sampling.rollout import Ask, CutShort, Judge, NotKnownYet, judge_program, run_rollout
from musadata.storage.commits import Commit, require_commit
from musadata.storage.shards import Shard, read_shard
from musadata.teacher.protocol import REQUEST_FAILED, Answer, CannotAnswer, RequestFailed, Teacher
from musadata.training_rows import RetryRow
from pipelines import resources
from pipelines.options import parse_options, run_command
from pipelines.ports import PortKernels
from pipelines.profiling import ProfileKernels
from pipelines.questions import WriteQuestions
from pipelines.retries import count_rounds, fill_buffer, replay, retries_of_round
from pipelines.run import run_stages
from pipelines.stage import Stage
from pipelines.steps import (
    ShardStep,
    Undone,
    Writers,
    all_found,
    annotated_tasks,
    asking_settings,
    concurrently,
)
from pipelines.unit_tests import TestKernels
from pipelines.versions import assembly_version

if TYPE_CHECKING:
    import apache_beam as beam

DEVICE = {"accelerator": "type:nvidia-h100;count:1;install-nvidia-driver"}


@dataclass(frozen=True)
class Assemble(ShardStep):
    """Writes what the conversations of a shard came to. The journal already holds every answer and verdict."""

    stage: ClassVar[str] = "stage3"
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

    def inputs(self, shard: Shard) -> list[Commit]:
        return [require_commit(self.corpus, stage, shard) for stage in ("stage1", "stage2")]

    def process(self, shard: Shard, out: Writers) -> None:
        with resources.request_cache(self.config, self.corpus, self.stage) as cache:
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
            for sample, program in enumerate(programs.get(task.task_id, ()), start=self.config.teacher.samples):
                attempts = judge_program(task, annotation, sample, program, self.config.seed, judge)
                more = assemble(task, [attempts], HUMAN, self.config.sampling)
                candidates, trajectories = candidates + more[0], trajectories + more[1]
            candidates, rejects = keep_different(candidates, self.config.sampling)
            _count(candidates, out)
            for reject in rejects:
                out.reject(reject)
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
        config, conversations = self.config, list[Conversation]()
        for sample in range(config.teacher.samples):
            out.funnel.came_in("generate")
            try:
                attempts = run_rollout(task, annotation, sample, config.sampling.turns, config.seed, ask, judge)
            except CutShort as cut:
                out.reject(_failed(task, sample, cut, len(cut.attempts) + 1))
                attempts = cut.attempts
            except RequestFailed as failure:
                out.reject(_failed(task, sample, failure, 1))
                continue
            except CannotAnswer as refusal:
                out.reject(_unanswered(task, sample, str(refusal)))
                continue
            out.funnel.went_on("generate")
            conversations.append(attempts)
        return conversations


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
    return Reject(SCHEMA_VERSION, "candidates", "generate", reason, f"sample {sample}", task.task_id)


def _failed(task: Task, sample: int, failure: RequestFailed, turn: int) -> Reject:
    detail = f"sample {sample}, turn {turn}: {failure}"
    return Reject(SCHEMA_VERSION, "candidates", "generate", REQUEST_FAILED, detail, task.task_id)


def human_programs(corpus: str, shard: Shard) -> dict[str, list[str]]:
    """What people wrote for the tasks of a shard, by task id."""
    found: dict[str, list[str]] = {}
    for kernel in read_shard(corpus, "kernels", shard, Kernel):
        if kernel.task_id:
            found.setdefault(kernel.task_id, []).append(kernel.candidate)
    return found


@dataclass(frozen=True)
class RolloutStep(ABC):
    """One part of one turn for every conversation of a shard.

    A conversation goes on as far as the part is able to, and what it finds goes into the journal; where another part
    has to come first, it is left for later.
    """

    config: Config
    corpus: str
    workers: int = 1  # how many share a machine

    @abstractmethod
    def abilities(self, cache: RequestCache) -> tuple[Ask, Judge]:
        """How this part asks and judges."""

    @abstractmethod
    def at_once(self) -> int:
        """How many conversations of a shard may go on at the same time."""

    def run(self, shard: Shard) -> Shard:
        if Assemble(self.config, self.corpus).found(shard) is None:
            threads, shared = self.at_once(), self.threads()
            with resources.request_cache(self.config, self.corpus, Assemble.stage) as cache:
                for _ in concurrently(_as_far_as_known, self._conversations(shard, cache), threads, shared):
                    pass
                for number in range(1, count_rounds(self.corpus) + 1):
                    again = self._retries(shard, number, cache)
                    for _ in concurrently(_as_far_as_known, again, threads, shared):
                        pass
        return shard

    def _retries(self, shard: Shard, number: int, cache: RequestCache) -> Sequence[Callable[[], object]]:
        tasks = annotated_tasks(self.config, self.corpus, shard)
        recall = cache.recall_answers(self.teacher()), cache.recall_verdicts(self.config.verifier)
        return retries_of_round(self.config, shard, tasks, number, recall, self.abilities(cache))

    def threads(self) -> ThreadPoolExecutor | None:
        """The threads that all shards of this process share; None for some of each shard's own."""
        return None

    def _conversations(self, shard: Shard, cache: RequestCache) -> Iterator[Callable[[], object]]:
        samples, turns, seed = self.config.teacher.samples, self.config.sampling.turns, self.config.seed
        ask, judge = self.abilities(cache)
        programs = human_programs(self.corpus, shard)
        for task, annotation in annotated_tasks(self.config, self.corpus, shard):
            for sample in range(samples):
                yield partial(run_rollout, task, annotation, sample, turns, seed, ask, judge)
            for sample, program in enumerate(programs.get(task.task_id, ()), start=samples):
                yield partial(judge_program, task, annotation, sample, program, seed, judge)

    def teacher(self) -> Teacher:
        return resources.teacher(self.config, self.corpus)


def _as_far_as_known(conversation: Callable[[], object]) -> None:
    with suppress(NotKnownYet, CannotAnswer):
        conversation()


class AskTeacher(RolloutStep):
    """Asks; runs anywhere."""

    def at_once(self) -> int:
        return resources.requests_at_once(self.config)

    def threads(self) -> ThreadPoolExecutor | None:
        return resources.asking_threads(self.at_once())

    def abilities(self, cache: RequestCache) -> tuple[Ask, Judge]:
        return cache.ask_teacher(self.teacher()), cache.recall_verdicts(self.config.verifier)


class Compile(RolloutStep):
    """Compiles what was answered; needs a compiler, but no device."""

    def at_once(self) -> int:
        return resources.verdicts_at_once(self.config.verifier, self.workers)

    def abilities(self, cache: RequestCache) -> tuple[Ask, Judge]:
        verifier = resources.verifier(self.config.verifier, self.config.teacher.kind)
        return cache.recall_answers(self.teacher()), cache.compile_only(self.config.verifier, verifier)


class Execute(RolloutStep):
    """Executes what was compiled and judges it; where the backend needs a device, this step does."""

    def at_once(self) -> int:
        return resources.verdicts_at_once(self.config.verifier, self.workers)

    def abilities(self, cache: RequestCache) -> tuple[Ask, Judge]:
        verifier = resources.verifier(self.config.verifier, self.config.teacher.kind)
        return cache.recall_answers(self.teacher()), cache.verify(self.config.verifier, verifier)


class Converse(RolloutStep):
    """Asks and judges in one process, so that a conversation goes on to its end: some wait for answers while others are
    judged."""

    def at_once(self) -> int:
        verdicts = self._verdicts()
        return verdicts + resources.requests_at_once(self.config) if self._is_remote() else verdicts

    def threads(self) -> ThreadPoolExecutor | None:
        return resources.asking_threads(self.at_once())

    def abilities(self, cache: RequestCache) -> tuple[Ask, Judge]:
        verifier = resources.verifier(self.config.verifier, self.config.teacher.kind)
        verify, turn = cache.verify(self.config.verifier, verifier), resources.judging(self._verdicts())

        def judge(task: Task, annotation: Annotation, answer: Answer) -> Verdict:
            with turn:
                return verify(task, annotation, answer)

        ask = cache.ask_teacher(self.teacher())
        return (ask if self._is_remote() else resources.one_at_a_time(ask)), judge

    def _is_remote(self) -> bool:
        return resources.is_remote(self.config.teacher)

    def _verdicts(self) -> int:
        return resources.verdicts_at_once(self.config.verifier, self.workers)


class Stage3(Stage):
    """Ask, compile and execute for every turn, then assemble."""

    name = "stage3"
    needs = "stage2"
    makes = "candidates"
    asks = True

    def check(self) -> None:
        check_mixing(self.config)

    def expand(self, shards: "beam.PCollection[Shard | Undone]") -> "beam.PCollection[Commit | Undone]":
        import apache_beam as beam

        from pipelines.beam_runner import workers_here
        from pipelines.graph import EachShard

        config, corpus, workers = self.config, self.corpus, workers_here(shards.pipeline.options)
        together = resources.shards_at_once(config)
        if workers:
            shards |= "Converse" >> EachShard(Converse(config, corpus, workers).run, together)
            return self._finish(shards, together)
        on_device = config.verifier.backend in resources.DEVICE_BACKENDS
        for turn in range(1, config.sampling.turns * (1 + count_rounds(corpus)) + 1):
            shards |= f"Ask {turn}" >> EachShard(AskTeacher(config, corpus).run, together)
            execute: beam.PTransform = EachShard(Execute(config, corpus).run)
            if on_device:
                shards |= f"Compile {turn}" >> EachShard(Compile(config, corpus).run)
                execute = execute.with_resource_hints(**DEVICE)
            shards |= f"Execute {turn}" >> execute
        return self._finish(shards, together)

    def _finish(self, shards: "beam.PCollection[Shard | Undone]", together: int) -> "beam.PCollection[Commit | Undone]":
        """The rows of candidates, and then what is made of these: unit tests and questions."""
        import apache_beam as beam

        from pipelines.beam_runner import workers_here
        from pipelines.graph import RunStep, shard_of

        workers = workers_here(shards.pipeline.options)
        commits = shards | "Assemble" >> RunStep(Assemble(self.config, self.corpus))
        for step in self._steps(workers or 1)[1:]:
            name = type(step).__name__
            run: beam.PTransform = RunStep(step, together)
            if (
                isinstance(step, TestKernels)
                and self.config.verifier.backend in resources.DEVICE_BACKENDS
                and not workers
            ):
                run = run.with_resource_hints(**DEVICE)
            commits = commits | f"Before {name}" >> beam.Map(shard_of) | name >> run
        return commits

    def _steps(self, workers: int = 1) -> list[ShardStep]:
        """Those that write rows, in their order."""
        steps: list[ShardStep] = [Assemble(self.config, self.corpus)]
        if self.config.unit_tests.samples:
            steps.append(TestKernels(self.config, self.corpus, workers))
        if self.config.questions.per_task:
            steps.append(WriteQuestions(self.config, self.corpus))
        if self.config.ports.per_task:
            steps.append(PortKernels(self.config, self.corpus))
        if self.config.profiling.share and self.config.verifier.backend is BackendType.EMULATED:
            steps.append(ProfileKernels(self.config, self.corpus, workers))
        return steps

    def is_done(self) -> bool:
        return all(map(all_found, self._steps()))


def main(argv: Sequence[str] | None = None) -> int:
    return run_command(lambda: run_stages([Stage3], parse_options(argv, "Stage 3: sample, verify, repair and keep.")))


if __name__ == "__main__":
    from pipelines import stage3  # by its real name, under which workers find what is defined here

    sys.exit(stage3.main())
