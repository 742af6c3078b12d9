"""Stage 2: tasks -> traces -> six grounded reasoning steps.

python -m pipelines.stage2 --config configs/quickstart.yaml --corpus build/quickstart --runner DirectRunner
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from musadata.records import Annotation, Reject, Task
from musadata.sampling.request_cache import RequestCache
from musadata.storage.commits import Commit
from musadata.storage.shards import Shard, read_shard
from musadata.teacher.annotation import annotate
from musadata.teacher.protocol import Conversation
from musadata.tracing.task import Traced, trace_task
from pipelines import journals, limits, resources
from pipelines.conversations import converse
from pipelines.options import parse_options, run_command
from pipelines.run import run_stages
from pipelines.stage import Stage
from pipelines.steps import ShardStep, Undone, Writers, all_found, asking_settings, task_limit
from pipelines.versions import annotation_version

if TYPE_CHECKING:
    import apache_beam as beam


@dataclass(frozen=True)
class Annotate(ShardStep):
    """Traces every task of a shard and has the teacher reason about it."""

    workers: int = 1  # how many share a machine

    stage: ClassVar[str] = "stage2"
    reads: ClassVar[tuple[str, ...]] = ("stage1",)
    writes: ClassVar[dict[str, type]] = {"annotations": Annotation, "rejects": Reject}
    funnel: ClassVar[tuple[str, ...]] = ("trace", "reason")

    def code(self) -> str:
        return annotation_version(self.config.teacher)

    def settings(self, shard: Shard) -> Any:
        return [self.config.tracing, self.config.grounding, *asking_settings(self.config)]

    def process(self, shard: Shard, out: Writers) -> None:
        with journals.request_cache(self.config, self.corpus, self.stage) as cache:
            self._annotate(shard, cache, out)

    def _annotate(self, shard: Shard, cache: RequestCache, out: Writers) -> None:
        config, sandbox = self.config, resources.references(self.config.teacher.kind)
        teacher = resources.teacher(config, self.corpus)
        executing = limits.executing_threads(self.workers) if limits.is_remote(config.teacher) else None

        def reason(task: Task, found: Traced | Reject) -> Conversation[tuple[bool, Annotation | Reject]]:
            if isinstance(found, Reject):
                return False, found
            asked = found.traces, teacher.name, config.seed, config.grounding, found.declared
            return True, (yield from annotate(task, *asked))

        def trace(task: Task) -> Conversation[tuple[bool, Annotation | Reject]]:
            return reason(task, trace_task(task, config.tracing, sandbox, config.seed))

        tasks = islice(read_shard(self.corpus, "tasks", shard, Task), task_limit(config, shard))
        for went_on, result in converse(trace, tasks, config, self.corpus, cache, executing):
            if went_on:
                out.funnel.came_in("trace")
                out.funnel.went_on("trace")
            if annotation := out.take("reason" if went_on else "trace", result):
                out.keep("annotations", annotation)


class Stage2(Stage):
    """Annotate every shard."""

    name = "stage2"
    needs = "stage1"
    makes = "annotations"
    asks = True

    def expand(self, shards: "beam.PCollection[Shard | Undone]") -> "beam.PCollection[Commit | Undone]":
        from pipelines.beam_runner import workers_here
        from pipelines.graph import EachShard

        step = Annotate(self.config, self.corpus, workers_here(shards.pipeline.options) or 1)
        return shards | "Annotate" >> EachShard(step.run, limits.shards_at_once(self.config))

    def is_done(self) -> bool:
        return all_found(Annotate(self.config, self.corpus))


def main(argv: Sequence[str] | None = None) -> int:
    return run_command(lambda: run_stages([Stage2], parse_options(argv, "Stage 2: trace tasks and reason about them.")))


if __name__ == "__main__":
    from pipelines import stage2  # by its real name, under which workers find what is defined here

    sys.exit(stage2.main())
