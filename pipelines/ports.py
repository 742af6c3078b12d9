"""A step of stage 3: accepted candidates in the form for MUSA, and pairs that people wrote as rows of `sft`."""

from dataclasses import dataclass
from typing import Any, ClassVar

from musadata.corpus.views.translation import translate_kernel
from musadata.records import Candidate, Kernel, Port, Reject, Task
from musadata.sampling.ports import STEP, port_candidates
from musadata.storage.shards import Shard, read_shard
from musadata.training_rows import SftRow
from pipelines.steps import ShardStep, Writers, annotated_tasks, candidates_by_task
from pipelines.versions import ports_version


@dataclass(frozen=True)
class PortKernels(ShardStep):
    """Ports every accepted candidate of a task that has no seeded fault. A port is no row of `sft`: it only renames."""

    stage: ClassVar[str] = "stage3.ports"
    reads: ClassVar[tuple[str, ...]] = ("stage1", "stage2", "stage3")
    part: ClassVar[str] = "ports"
    writes: ClassVar[dict[str, type]] = {"ports": Port, "sft": SftRow, "rejects": Reject}
    funnel: ClassVar[tuple[str, ...]] = (STEP,)

    def code(self) -> str:
        return ports_version()

    def settings(self, shard: Shard) -> Any:
        return [self.config.ports, self.config.limit]

    def process(self, shard: Shard, out: Writers) -> None:
        candidates = candidates_by_task(self.corpus, shard)
        for task, _ in annotated_tasks(self.config, self.corpus, shard):
            self._port(task, candidates.get(task.task_id, []), out)
        for kernel in read_shard(self.corpus, "kernels", shard, Kernel):
            row = translate_kernel(kernel)
            if row is not None:
                out.keep("sft", row)

    def _port(self, task: Task, candidates: list[Candidate], out: Writers) -> None:
        for port in port_candidates(task, candidates, self.config.ports.per_task):
            if taken := out.take(STEP, port):
                out.keep("ports", taken)
