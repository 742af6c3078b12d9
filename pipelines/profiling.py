"""A step of stage 3: profiles of accepted kernels, with a diagnosis of each."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from musadata.config import BackendType, VerifierConfig
from musadata.corpus.views.supervised import make_sft
from musadata.records import Reject, Task
from musadata.sampling.profiling.profiles import FAMILY, STEP, Profile, is_profiled, profile_task
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
    reads: ClassVar[tuple[str, ...]] = ("stage1", "stage2", "stage3")
    part: ClassVar[str] = "profiling"
    writes: ClassVar[dict[str, type]] = {"sft": SftRow, "rejects": Reject}
    funnel: ClassVar[tuple[str, ...]] = (STEP,)

    @property
    def _counting(self) -> VerifierConfig:
        """The emulator counts, whatever judges."""
        return replace(self.config.verifier, backend=BackendType.EMULATED)

    def code(self) -> str:
        return profiles_version(self._counting)

    def settings(self, shard: Shard) -> Any:
        return [self.config.profiling, self.config.verifier, self.config.limit]

    def process(self, shard: Shard, out: Writers) -> None:
        counting = self._counting
        threads = limits.verdicts_at_once(counting, self.workers)
        config, candidates = self.config, candidates_by_task(self.corpus, shard)
        verifier = resources.verifier(counting, config.teacher.kind)

        def profile(task: Task) -> tuple[Task, Profile | Reject]:
            return task, profile_task(task, candidates[task.task_id], verifier.count_accesses, config.profiling)

        tasks = [task for task, _ in annotated_tasks(config, self.corpus, shard)]
        profiled = [one for one in tasks if one.task_id in candidates and is_profiled(one, config.profiling)]
        for task, result in concurrently(profile, profiled, threads):
            if found := out.take(STEP, result):
                teacher = CompilerTeacher.name
                row = make_sft(task, FAMILY, found.prompt, found.text, teacher, found.candidate, found.evidence)
                out.keep("sft", row)
