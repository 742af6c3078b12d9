"""Stage 1: sources -> drafts -> tasks.

python -m pipelines.stage1 --config configs/quickstart.yaml --corpus build/quickstart --runner DirectRunner
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import apache_beam as beam

from musadata.config import Config
from musadata.corpus.commits import Commit, code_version, find_commit, require_commit, stage_digest
from musadata.corpus.shards import Shard, deal, read_shard
from musadata.mining.kernels import check_licenses, with_task, without_task
from musadata.records import SCHEMA_VERSION, Draft, Kernel, KernelDraft, Reject, Task
from musadata.tasks.probe import probe
from musadata.tasks.selection import TaskSignature, select, signature_of
from pipelines import resources
from pipelines.options import RunOptions, parse_options, run_command
from pipelines.run import run_stage
from pipelines.steps import DealShards, ShardStep, Writers

PROBE_CODE = ("sandbox", "sources", "mining", "tasks")


@dataclass(frozen=True)
class Probe(ShardStep):
    """Drafts every unit of a shard and executes each draft once."""

    stage: ClassVar[str] = "stage1.probe"
    writes: ClassVar[dict[str, type]] = {"_probed": Task, "_kernels": Kernel, "rejects": Reject}
    funnel: ClassVar[tuple[str, ...]] = ("draft", "pair", "probe")

    def code(self) -> str:
        return code_version(PROBE_CODE, ("torch", "nnsmith"))

    def settings(self, shard: Shard) -> Any:
        units = [(origin, unit) for origin, unit, _ in self.units(shard)]
        return [self.config.sources, self.config.tasks, self.config.seed, units]

    def units(self, shard: Shard) -> Iterator[tuple[str, str, Any]]:
        """(origin, unit, source) of every unit that is dealt into this shard, round robin over all sources."""
        position = 0
        for config in self.config.sources:
            source = resources.source(config, self.config.seed)
            for unit in source.units():
                if position % shard.count == shard.index:
                    yield source.origin, unit, source
                position += 1

    def process(self, shard: Shard, out: Writers) -> None:
        sandbox = resources.probing()
        for _, unit, source in self.units(shard):
            for draft in source.drafts(unit, sandbox):
                out.funnel.came_in("draft")
                if isinstance(draft, Reject):
                    out.reject(draft)
                    continue
                out.funnel.went_on("draft")
                if isinstance(draft, KernelDraft):
                    self._keep_kernel(draft, out)
                else:
                    self._keep_task(draft, out)

    def _keep_task(self, draft: Draft, out: Writers) -> Task | None:
        out.funnel.came_in("probe")
        task = probe(draft, self.config.tasks, resources.probing(), self.config.seed)
        if isinstance(task, Reject):
            out.reject(task)
            return None
        out.funnel.went_on("probe")
        out.keep("_probed", task)
        return task

    def _keep_kernel(self, draft: KernelDraft, out: Writers) -> None:
        out.funnel.came_in("pair")
        reject = check_licenses(draft.kernel, self.config.tasks.licenses)
        if reject is not None:
            out.reject(reject)
            return
        out.funnel.went_on("pair")
        task = self._keep_task(draft.draft, out) if draft.draft else None
        out.keep("_kernels", with_task(draft.kernel, task))


@dataclass(frozen=True)
class Selection:
    """Which probed tasks are dropped, by id, and why; and a digest of everything that decided it."""

    dropped: dict[str, str]
    digest: str


def select_tasks(config: Config, shards: Iterable[tuple[Commit, Sequence[TaskSignature]]]) -> Selection:
    """The global part of stage 1, over signatures only."""
    ordered = sorted(shards, key=lambda one: one[0].shard)
    signatures = [signature for _, some in ordered for signature in some]
    digest = stage_digest(code_version(("tasks",)), config.tasks, [commit for commit, _ in ordered], reads=["_probed"])
    return Selection(select(signatures, config.tasks), digest)


def read_signatures(corpus: str, shard: Shard) -> list[TaskSignature]:
    return [signature_of(task) for task in read_shard(corpus, "_probed", shard, Task)]


@dataclass(frozen=True)
class Keep(ShardStep):
    """Writes the selected tasks of a shard."""

    selection: Selection = field(default_factory=lambda: Selection({}, ""))

    stage: ClassVar[str] = "stage1"
    writes: ClassVar[dict[str, type]] = {"tasks": Task, "kernels": Kernel, "rejects": Reject}
    funnel: ClassVar[tuple[str, ...]] = ("select",)

    def code(self) -> str:
        return code_version(("tasks",))

    def settings(self, shard: Shard) -> Any:
        return [self.selection.digest]

    def inputs(self, shard: Shard) -> list[Commit]:
        return [require_commit(self.corpus, Probe.stage, shard)]

    def process(self, shard: Shard, out: Writers) -> None:
        for task in read_shard(self.corpus, "_probed", shard, Task):
            out.funnel.came_in("select")
            reason = self.selection.dropped.get(task.task_id)
            if reason is None:
                out.funnel.went_on("select")
                out.keep("tasks", task)
            else:
                out.reject(_dropped(task, reason))
        for kernel in read_shard(self.corpus, "_kernels", shard, Kernel):
            out.keep("kernels", without_task(kernel) if kernel.task_id in self.selection.dropped else kernel)


def _dropped(task: Task, reason: str) -> Reject:
    reason, _, detail = reason.partition(": ")
    origin = f"{task.provenance.origin}/{task.provenance.path}:{task.provenance.lines}"
    return Reject(SCHEMA_VERSION, "tasks", "select", reason, detail, origin)


def build(pipeline: beam.Pipeline, config: Config, corpus: str) -> beam.PCollection[Commit]:
    """The graph of stage 1: probe every shard, select over all signatures, keep what was selected."""
    probe_step = Probe(config, corpus)
    probed = (
        pipeline
        | "Shards to probe" >> DealShards(config.shards)
        | "Probe" >> beam.Map(lambda shard: (probe_step.run(shard), read_signatures(corpus, shard)))
    )
    selection = probed | beam.combiners.ToList() | "Select" >> beam.Map(lambda shards: select_tasks(config, shards))
    return (
        pipeline
        | "Shards to keep" >> DealShards(config.shards)
        | "Keep"
        >> beam.Map(
            lambda shard, selection: Keep(config, corpus, selection).run(shard), beam.pvalue.AsSingleton(selection)
        )
    )


def is_done(config: Config, corpus: str) -> bool:
    """Whether every shard is committed and nothing that it depends on has changed."""
    probe_step = Probe(config, corpus)
    commits = [probe_step.found(shard) for shard in deal(config.shards)]
    found = [commit for commit in commits if commit is not None]
    if len(found) < len(commits):
        return False
    selection = select_tasks(config, [(commit, read_signatures(corpus, commit.shard)) for commit in found])
    keep = Keep(config, corpus, selection)
    return all(find_commit(corpus, keep.stage, shard, keep.digest(shard)) for shard in deal(config.shards))


def run(options: RunOptions) -> None:
    run_stage("stage1", options, build, is_done)


def main(argv: Sequence[str] | None = None) -> int:
    return run_command(lambda: run(parse_options(argv, "Stage 1: mine and generate tasks.")))


if __name__ == "__main__":
    from pipelines import stage1  # by its real name, under which workers find what is defined here

    sys.exit(stage1.main())
