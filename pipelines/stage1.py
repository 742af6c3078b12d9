"""Stage 1: sources -> drafts -> tasks.

python -m pipelines.stage1 --config configs/quickstart.yaml --corpus build/quickstart --runner DirectRunner
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from musadata.config import Config
from musadata.corpus.listing import Listed, deal_units, forget_others, read_listing, write_listing
from musadata.errors import MusadataError
from musadata.mining.kernels.kernel_tasks import check_licenses, with_split, with_task, without_task
from musadata.records import Draft, Kernel, KernelDraft, Reject, Task
from musadata.sandbox import Caller, RememberingSandbox
from musadata.storage.commits import (
    Commit,
    read_commit,
    require_commit,
    stage_digest,
    withdraw_commit,
)
from musadata.storage.shards import Shard, deal, read_batches, read_columns, read_shard
from musadata.tasks.probe import probe
from musadata.tasks.rebalance import Selection
from musadata.tasks.selection import COLUMNS, DECISIONS, KEPT, REPEATED, Signatures, check_selection, select
from musadata.tasks.splits import assign_splits
from pipelines import journals, resources
from pipelines.options import parse_options, run_command
from pipelines.run import run_stages
from pipelines.stage import Stage
from pipelines.steps import ShardStep, Undone, UnlessUndone, Writers, all_found, concurrently
from pipelines.versions import EXECUTED, executions_name, probing_version, selection_version

if TYPE_CHECKING:
    import apache_beam as beam

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
        sandbox = RememberingSandbox(resources.probing, partial(journals.executions, self.corpus))

        def examine(drafted: Drafted) -> tuple[Drafted, Task | Reject | None]:
            """What was drafted, and what its reference, if it has one, proves to be."""
            draft = self._reference(drafted)
            return drafted, probe(draft, self.config.tasks, sandbox, self.config.seed) if draft else None

        for draft, probed in concurrently(examine, self._drafts(shard, sandbox), PROBES_AT_ONCE):
            if isinstance(draft, KernelDraft):
                self._keep_kernel(draft, probed, out)
            elif out.take(draft.step if isinstance(draft, Reject) else "draft", draft):
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
        if kernel := out.take("pair", check_licenses(draft.kernel, self.config.tasks.licenses) or draft.kernel):
            out.keep("_kernels", with_task(kernel, _keep_task(probed, out)))


def _lost(listed: Listed, error: MusadataError) -> Iterator[Reject]:
    """What a source that has vanished since the run began does not give."""
    for unit in listed.units:
        yield Reject("tasks", "draft", LOST, error.what, f"{listed.origin}/{unit}")


def _keep_task(probed: Task | Reject | None, out: Writers) -> Task | None:
    task = out.take("probe", probed) if probed else None
    if task:
        out.keep("_probed", task)
    return task


def selection_digest(config: Config, probed: Sequence[Commit]) -> str:
    """Digest of all that decides the selection; nothing needs to be selected for it."""
    return stage_digest(selection_version(), config.tasks, probed, reads=["_probed"])


def select_tasks(config: Config, corpus: str, probed: Sequence[Commit]) -> Selection:
    """The global part of stage 1, over the signatures of all shards."""
    rows = [commit.output("_probed").rows for commit in probed]
    tables = (read_columns(corpus, "_probed", commit.shard, COLUMNS) for commit in probed)
    signatures = Signatures.read(tables, sum(rows))
    decisions = select(signatures, config.tasks)
    return Selection.of(decisions, assign_splits(signatures, decisions, config.tasks.duplicate_similarity), rows)


@dataclass(frozen=True)
class Keep(ShardStep):
    """Writes the shard's part of the selected tasks, and what became of the others that were probed in it.

    Attributes:
        selected: the selection's digest.
        selection: the selection; not needed to find what is committed.
    """

    selected: str = ""
    selection: Selection = field(default_factory=Selection)

    stage: ClassVar[str] = "stage1"
    writes: ClassVar[dict[str, type]] = {"tasks": Task, "kernels": Kernel, "rejects": Reject}
    funnel: ClassVar[tuple[str, ...]] = ("select",)

    def code(self) -> str:
        return selection_version()

    def settings(self, shard: Shard) -> Any:
        return [self.selected]

    def digest(self, shard: Shard) -> str:
        return stage_digest(self.code(), self.settings(shard))

    def inputs(self, shard: Shard) -> list[Commit]:
        shards = dict.fromkeys(
            [shard, *(Shard(part.source, shard.count) for part in self.selection.parts(shard.index))]
        )
        return [require_commit(self.corpus, Probe.stage, one) for one in shards]

    def process(self, shard: Shard, out: Writers) -> None:
        self._count(shard, out)
        for part in self.selection.parts(shard.index):
            source = Shard(part.source, shard.count)
            splits, done = self.selection.splits_of(part.source), 0
            for batch in read_batches(self.corpus, "_probed", source, Task, part.rows):
                named = [splits[row] for row in part.rows[done : done + len(batch)].tolist()]
                done += len(batch)
                out.keep_batch("tasks", _with_splits(batch, named))
            kept = set(part.rows.tolist())
            for kernel, row, decision in self._kernels(source):
                if decision == KEPT and row in kept:
                    out.keep("kernels", kernel)
        for kernel, _, decision in self._kernels(shard):
            if decision != KEPT:
                out.keep("kernels", kernel if decision == REPEATED else without_task(kernel))

    def _count(self, shard: Shard, out: Writers) -> None:
        """The funnel's counts of what was probed in a shard, and a reject for each task that is dropped."""
        decisions = np.frombuffer(self.selection.decisions[shard.index], np.uint8)
        dropped = np.flatnonzero(decisions != KEPT)
        out.funnel.came_in("select", len(decisions))
        out.funnel.went_on("select", len(decisions) - len(dropped))
        origins = read_columns(self.corpus, "_probed", shard, ["provenance"]).take(dropped).column(0).to_pylist()
        for provenance, decision in zip(origins, decisions[dropped], strict=True):
            origin = f"{provenance['origin']}/{provenance['path']}:{provenance['lines']}"
            out.reject(Reject("tasks", "select", DECISIONS[decision], "", origin))

    def _kernels(self, source: Shard) -> Iterator[tuple[Kernel, int, int]]:
        """The kernels of a probed shard, with the row of their task there and what becomes of it.

        A kernel without a task counts as one whose task is kept elsewhere.
        """
        kernels = list(read_shard(self.corpus, "_kernels", source, Kernel))
        ids = read_columns(self.corpus, "_probed", source, ["task_id"]).column(0).to_pylist() if kernels else []
        rows = {task_id: row for row, task_id in reversed(list(enumerate(ids)))}
        splits = self.selection.splits_of(source.index)
        for kernel in kernels:
            row = rows.get(kernel.task_id, -1)
            if row >= 0:
                yield with_split(kernel, splits[row]), row, self.selection.decisions[source.index][row]
            else:
                yield kernel, row, REPEATED


def _with_splits(batch: pa.RecordBatch, splits: list[str]) -> pa.RecordBatch:
    at = batch.schema.get_field_index("split")
    return batch.set_column(at, batch.schema.field(at), pa.array(splits, batch.schema.field(at).type))


def _select(config: Config, corpus: str, probed: Sequence[Commit | Undone]) -> "Selection | dict[int, Undone]":
    """The selection; where an outage has kept shards from being probed, these, since nothing can be selected yet.

    An outage during the selection keeps all shards from their end.
    """
    undone = {one.shard.index: one for one in probed if isinstance(one, Undone)}
    if undone:
        return undone
    shards = deal(config.shards)
    selected = UnlessUndone(lambda _: select_tasks(config, corpus, _ordered(probed)))(shards[0])
    if isinstance(selected, Undone):
        return {shard.index: Undone(shard, selected.cause) for shard in shards}
    return selected


def _ordered(probed: Iterable[Commit | Undone]) -> list[Commit]:
    return sorted((one for one in probed if isinstance(one, Commit)), key=lambda commit: commit.shard)


def _keep_shard(
    config: Config, corpus: str, shard: Shard, selection: "Selection | dict[int, Undone]", selected: str
) -> Commit | Undone:
    if isinstance(selection, Selection):
        return UnlessUndone(Keep(config, corpus, selected, selection).run)(shard)
    return selection.get(shard.index) or Undone(shard, "stage1: other shards are not probed yet")


class Stage1(Stage):
    """Probe every shard, select over all signatures, keep what was selected."""

    name = "stage1"

    def expand(self, shards: "beam.PCollection[Shard | Undone]") -> "beam.PCollection[Commit | Undone]":
        import apache_beam as beam

        config, corpus = self.config, self.corpus
        probed = shards | "Probe" >> beam.Map(UnlessUndone(Probe(config, corpus).run)) | beam.combiners.ToList()
        selection = probed | "Select" >> beam.Map(lambda some: _select(config, corpus, some))
        selected = probed | "Digest" >> beam.Map(lambda some: selection_digest(config, _ordered(some)))
        return shards | "Keep" >> beam.Map(
            lambda shard, selection, selected: _keep_shard(config, corpus, shard, selection, selected),
            beam.pvalue.AsSingleton(selection),
            beam.pvalue.AsSingleton(selected),
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
        return all_found(Keep(self.config, self.corpus, selection_digest(self.config, found)))


def main(argv: Sequence[str] | None = None) -> int:
    return run_command(lambda: run_stages([Stage1], parse_options(argv, "Stage 1: mine and generate tasks.")))


if __name__ == "__main__":
    from pipelines import stage1  # by its real name, under which workers find what is defined here

    sys.exit(stage1.main())
