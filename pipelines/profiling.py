"""A step of stage 3: profiles of accepted kernels, with a diagnosis of each."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from musadata.corpus.views.supervised import make_sft
from musadata.records import Reject
from musadata.sampling.profiling.profiles import FAMILY, STEP, Profile, is_profiled, profile_task
from musadata.storage.commits import Commit, require_commit
from musadata.storage.shards import Shard
from musadata.teacher.compiler_teacher import CompilerTeacher
from musadata.training_rows import SftRow
from pipelines import limits, resources
from pipelines.steps import ShardStep, Writers, annotated_tasks, candidates_by_task, concurrently
from pipelines.versions import profiles_version


@dataclass(frozen=True)
class ProfileKernels(ShardStep):
    """Counts what one accepted candidate does to memory, for a share of the tasks, and words what the counts show."""

    workers: int = 1  # how many share a machine

    stage: ClassVar[str] = "stage3.profiling"
    part: ClassVar[str] = "profiling"
    writes: ClassVar[dict[str, type]] = {"sft": SftRow, "rejects": Reject}
    funnel: ClassVar[tuple[str, ...]] = (STEP,)

    def code(self) -> str:
        return profiles_version(self.config)

    def settings(self, shard: Shard) -> Any:
        return [self.config.profiling, self.config.verifier, self.config.limit]

    def inputs(self, shard: Shard) -> list[Commit]:
        return [require_commit(self.corpus, stage, shard) for stage in ("stage1", "stage2", "stage3")]

    def process(self, shard: Shard, out: Writers) -> None:
        threads = limits.verdicts_at_once(self.config.verifier, self.workers)
        for task, profile in concurrently(lambda work: work(), self._work(shard), threads):
            out.funnel.came_in(STEP)
            if isinstance(profile, Reject):
                out.reject(profile)
                continue
            out.funnel.went_on(STEP)
            teacher = CompilerTeacher.name
            row = make_sft(task, FAMILY, profile.prompt, profile.text, teacher, profile.candidate, profile.evidence)
            out.keep("sft", row)

    def _work(self, shard: Shard) -> Iterator[Callable[[], Any]]:
        """One for each task that is profiled."""
        config, candidates = self.config, candidates_by_task(self.corpus, shard)
        verifier = resources.verifier(config.verifier, config.teacher.kind)

        def profile(task: Any) -> tuple[Any, Profile | Reject]:
            return task, profile_task(task, candidates[task.task_id], verifier.count_accesses, config.profiling)

        for task, _ in annotated_tasks(config, self.corpus, shard):
            if task.task_id in candidates and is_profiled(task, config.profiling):
                yield partial(profile, task)
