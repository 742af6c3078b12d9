"""Stage 1: sources -> drafts -> tasks.

python -m pipelines.stage1 --config configs/quickstart.yaml --corpus build/quickstart --runner DirectRunner
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import apache_beam as beam

from musadata.config import Config
from musadata.corpus.listing import Listed, deal_units, forget_others, read_listing, write_listing
from musadata.errors import MusadataError
from musadata.mining.kernels.kernel_rows import check_licenses, with_task, without_task
from musadata.records import SCHEMA_VERSION, Draft, Kernel, KernelDraft, Reject, Task
from musadata.sandbox import Caller, RememberingSandbox
from musadata.storage.commits import (
    Commit,
    read_commit,
    require_commit,
    stage_digest,
    withdraw_commit,
)
from musadata.storage.shards import Shard, deal, read_shard
from musadata.tasks.assignment import Assignment, assign, reject_dropped
from musadata.tasks.probe import probe
from musadata.tasks.selection import TaskSignature, check_selection, signature_of
from pipelines import resources
from pipelines.options import parse_options, run_command
from pipelines.run import Stage, run_stages
from pipelines.steps import ShardStep, Writers, all_found, concurrently
from pipelines.versions import EXECUTED, executions_name, probing_version, selection_version

LOST = "lost_source"  # reason of what was there when the run began, but not when a worker asked for it
PROBES_AT_ONCE = 2  # the next draft is cut while the last one runs
Drafted = Draft | KernelDraft | Reject


@dataclass(frozen=True)
class Probe(ShardStep):
    """Drafts every unit of a shard and executes each draft once."""

    stage: ClassVar[str] = "stage1.probe"
    writes: ClassVar[dict[str, type]] = {"_probed": Task, "_kernels": Kernel, "rejects": Reject}
    funnel: ClassVar[tuple[str, ...]] = ("draft", "pair", "probe")

    def code(self) -> str:
        return probing_version(self.config)

    def settings(self, shard: Shard) -> Any:
        listed = read_listing(self.corpus, shard)
        units = [(self.config.sources[one.source], one.origin, one.revision, one.units) for one in listed]
        return [units, self.config.tasks, self.config.seed]

    def process(self, shard: Shard, out: Writers) -> None:
        sandbox = RememberingSandbox(resources.probing, partial(resources.executions, self.corpus))

        def examine(drafted: Drafted) -> tuple[Drafted, Task | Reject | None]:
            """What was drafted, and what its reference, if it has one, proves to be."""
            draft = self._reference(drafted)
            return drafted, probe(draft, self.config.tasks, sandbox, self.config.seed) if draft else None

        for draft, probed in concurrently(examine, self._drafts(shard, sandbox), PROBES_AT_ONCE):
            if isinstance(draft, Reject):
                out.funnel.came_in(draft.step)
                out.reject(draft)
            elif isinstance(draft, KernelDraft):
                self._keep_kernel(draft, probed, out)
            else:
                out.funnel.came_in("draft")
                out.funnel.went_on("draft")
                _keep_task(probed, out)

    def _drafts(self, shard: Shard, sandbox: Caller) -> Iterator[Drafted]:
        for listed in read_listing(self.corpus, shard):
            try:
                miner = resources.miner(self.config.sources[listed.source], self.config.seed)
            except MusadataError as error:
                yield from _lost(listed, error)
                continue
            for unit in listed.units:
                yield from miner.drafts(unit, sandbox)

    def _reference(self, drafted: Drafted) -> Draft | None:
        if isinstance(drafted, KernelDraft):
            return None if check_licenses(drafted.kernel, self.config.tasks.licenses) else drafted.draft
        return drafted if isinstance(drafted, Draft) else None

    def _keep_kernel(self, draft: KernelDraft, probed: Task | Reject | None, out: Writers) -> None:
        out.funnel.came_in("pair")
        illegal = check_licenses(draft.kernel, self.config.tasks.licenses)
        if illegal is not None:
            out.reject(illegal)
            return
        out.funnel.went_on("pair")
        out.keep("_kernels", with_task(draft.kernel, _keep_task(probed, out)))


def _lost(listed: Listed, error: MusadataError) -> Iterator[Reject]:
    """What a source that has vanished since the run began does not give."""
    for unit in listed.units:
        yield Reject(SCHEMA_VERSION, "tasks", "draft", LOST, error.what, f"{listed.origin}/{unit}")


def _keep_task(probed: Task | Reject | None, out: Writers) -> Task | None:
    if probed is None:
        return None
    out.funnel.came_in("probe")
    if isinstance(probed, Reject):
        out.reject(probed)
        return None
    out.funnel.went_on("probe")
    out.keep("_probed", probed)
    return probed


@dataclass(frozen=True)
class Selection:
    """What becomes of the probed tasks, and the digest of what decided it."""

    assignment: Assignment = field(default_factory=Assignment)
    digest: str = ""


def select_tasks(config: Config, shards: Iterable[tuple[Commit, Sequence[TaskSignature]]]) -> Selection:
    """The global part of stage 1, over signatures only."""
    ordered = sorted(shards, key=lambda one: one[0].shard)
    digest = stage_digest(selection_version(), config.tasks, [commit for commit, _ in ordered], reads=["_probed"])
    return Selection(assign([signatures for _, signatures in ordered], config.tasks), digest)


def read_signatures(corpus: str, shard: Shard) -> list[TaskSignature]:
    return [signature_of(task) for task in read_shard(corpus, "_probed", shard, Task)]


@dataclass(frozen=True)
class Keep(ShardStep):
    """Writes the selected tasks of a shard: its own but those that move away, then those that move in."""

    selection: Selection = field(default_factory=Selection)

    stage: ClassVar[str] = "stage1"
    writes: ClassVar[dict[str, type]] = {"tasks": Task, "kernels": Kernel, "rejects": Reject}
    funnel: ClassVar[tuple[str, ...]] = ("select",)

    def code(self) -> str:
        return selection_version()

    def settings(self, shard: Shard) -> Any:
        return [self.selection.digest]

    def inputs(self, shard: Shard) -> list[Commit]:
        donors = [Shard(index, shard.count) for index in self.selection.assignment.donors(shard.index)]
        return [require_commit(self.corpus, Probe.stage, one) for one in (shard, *donors)]

    def process(self, shard: Shard, out: Writers) -> None:
        assignment = self.selection.assignment
        for task, reason in assignment.judge(self._probed(shard.index, shard.count), shard.index):
            out.funnel.came_in("select")
            if reason:
                out.reject(reject_dropped(task, reason))
                continue
            out.funnel.went_on("select")
            if task.task_id not in assignment.moved:
                out.keep("tasks", task)
        for donor in assignment.donors(shard.index):
            for task in assignment.arriving(self._probed(donor, shard.count), donor, shard.index):
                out.keep("tasks", task)
        for kernel in read_shard(self.corpus, "_kernels", shard, Kernel):
            out.keep("kernels", without_task(kernel) if kernel.task_id in assignment.dropped else kernel)

    def _probed(self, index: int, count: int) -> Iterator[Task]:
        return read_shard(self.corpus, "_probed", Shard(index, count), Task)


class Stage1(Stage):
    """Probe every shard, select over all signatures, keep what was selected."""

    name = "stage1"

    def expand(self, shards: "beam.PCollection[Shard]") -> "beam.PCollection[Commit]":
        config, corpus = self.config, self.corpus
        probe_step = Probe(config, corpus)
        probed = shards | "Probe" >> beam.Map(lambda shard: (probe_step.run(shard), read_signatures(corpus, shard)))
        selection = probed | beam.combiners.ToList() | "Select" >> beam.Map(lambda some: select_tasks(config, some))
        return shards | "Keep" >> beam.Map(
            lambda shard, selection: Keep(config, corpus, selection).run(shard), beam.pvalue.AsSingleton(selection)
        )

    def check(self) -> None:
        check_selection(self.config.tasks)
        for _ in self._sources():
            pass

    def prepare(self) -> None:
        """List all units, and give another chance to shards that lost a source."""
        forget_others(self.corpus, self.config.shards, {executions_name(module) for module in EXECUTED})
        for shard, listed in deal_units(self._sources(), self.config.shards).items():
            write_listing(self.corpus, shard, listed)
            if self._lost(shard):
                withdraw_commit(self.corpus, Probe.stage, shard)

    def _sources(self) -> Iterator[tuple[str, str, list[str]]]:
        for config in self.config.sources:
            source = resources.source(config, self.config.seed)
            yield source.origin, source.revision, source.units()

    def remarks(self) -> Iterator[str]:
        lost = sum(map(self._lost, deal(self.config.shards)))
        if lost:
            yield f"{lost} units were lost with their source (rejects: {LOST}); the same command tries them again"

    def _lost(self, shard: Shard) -> int:
        """How many units a committed shard misses because their source had vanished."""
        commit = read_commit(self.corpus, Probe.stage, shard)
        return int(commit.counts["draft"]["dropped"].get(LOST, 0)) if commit else 0

    def is_done(self) -> bool:
        probe_step = Probe(self.config, self.corpus)
        commits = [probe_step.found(shard) for shard in deal(self.config.shards)]
        found = [commit for commit in commits if commit is not None]
        if len(found) < len(commits):
            return False
        probed = [(commit, read_signatures(self.corpus, commit.shard)) for commit in found]
        return all_found(Keep(self.config, self.corpus, select_tasks(self.config, probed)))


def main(argv: Sequence[str] | None = None) -> int:
    return run_command(lambda: run_stages([Stage1], parse_options(argv, "Stage 1: mine and generate tasks.")))


if __name__ == "__main__":
    from pipelines import stage1  # by its real name, under which workers find what is defined here

    sys.exit(stage1.main())
