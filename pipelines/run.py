"""Running stages: skip what is done, show how far they are, and publish what they made."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import apache_beam as beam
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions

from musadata.config import Config
from musadata.corpus.manifest import create_corpus, open_corpus
from musadata.corpus.publish import publish
from musadata.errors import Outage
from musadata.storage.commits import COMMITS, Commit
from musadata.storage.files import join, list_names
from musadata.storage.lock import lock_corpus
from musadata.storage.shards import Shard
from musadata.verifier.backend_choice import check_backend
from pipelines import resources
from pipelines.estimates import print_estimates
from pipelines.options import RunOptions, runs_here
from pipelines.outcome import check_disk, remarks_on_failures, reopen_failed, require_rows
from pipelines.progress import JournalCounter, Watch, Watched
from pipelines.steps import DealShards, Undone

OUTAGES = "outages"  # the metrics that count them, by cause


@dataclass
class Stage(beam.PTransform, ABC):
    """Shards in, the commits of the stage's last step out.

    Attributes:
        name: of the stage, its commits and its journals.
        needs: the stage whose commits it reads; "" for none.
        makes: the dataset without which its run is a failure.
        asks: the teacher is asked in it.
    """

    config: Config
    corpus: str

    name: ClassVar[str]
    needs: ClassVar[str] = ""
    makes: ClassVar[str] = "tasks"
    asks: ClassVar[bool] = False

    @abstractmethod
    def expand(self, shards: "beam.PCollection[Shard | Undone]") -> "beam.PCollection[Commit | Undone]":
        """The stage's steps."""

    def check(self) -> None:
        """Find now what would only be found at the end.

        Raises:
            MusadataError: the config asks for something that is not there.
        """

    def prepare(self) -> None:
        """Write into the corpus what all workers have to agree on.

        Raises:
            MusadataError: the file system refuses.
        """

    def remarks(self) -> Iterable[str]:
        """What the user should know of a run that has ended well."""
        return ()

    @abstractmethod
    def is_done(self) -> bool:
        """Whether every shard is committed and nothing that it depends on has changed; what it needs is done."""


def run_stages(kinds: Sequence[type[Stage]], options: RunOptions) -> None:
    """Run stages that follow each other on whatever runner was asked for, unless all of them are committed already.

    They are one pipeline: a worker takes a shard as far as it can, and keeps what it has opened from stage to stage.

    Raises:
        MusadataError: the corpus is not one, or what the first stage needs is not complete.
    """
    config, corpus = options.config, options.corpus
    stages = [kind(config, corpus) for kind in kinds]
    if options.dry_run:
        print_estimates(config, corpus, [stage.name for stage in stages if stage.asks])
        return
    for stage in stages:
        stage.check()
    if stages[0].needs:
        open_corpus(corpus, stages[0].needs, shards=config.shards)
    else:
        create_corpus(corpus)
    with lock_corpus(corpus):
        for stage in stages:
            stage.prepare()
        asking = [stage.name for stage in stages if stage.asks]
        if options.retry_failed:
            reopen_failed(corpus, asking)
        if all(stage.is_done() for stage in stages):
            for stage in stages:
                print(f"{stage.name}: up to date", file=sys.stderr)
        else:
            _start(options, asks=bool(asking))
            _run(stages, options)
        manifest = publish(corpus, config, shards=config.shards)
    for stage in stages:
        for remark in (*stage.remarks(), *remarks_on_failures(corpus, manifest, stage.name)):
            print(f"{stage.name}: {remark}", file=sys.stderr)
    for stage in stages:
        require_rows(corpus, manifest, stage.name, stage.makes)


def _start(options: RunOptions, *, asks: bool) -> None:
    """Look for what the run needs, and let it begin without what earlier runs of this process have left."""
    here = runs_here(PipelineOptions(list(options.arguments)))
    resources.forget_teachers()
    if options.preflight:
        check_disk(options.corpus)
        if here:
            check_backend(options.config.verifier)
        if asks:
            resources.check_server(options.config)
    if resources.is_remote(options.config.teacher):
        resources.forget_failures(options.corpus)


def _run(stages: Sequence[Stage], options: RunOptions) -> None:
    """Run the stages as one pipeline.

    Raises:
        Outage: the machine has kept some shards from their end.
    """
    with Watch([_watched(stage) for stage in stages]):
        pipeline = options.pipeline()
        _connect(pipeline, stages)
        result = pipeline.run()
        result.wait_until_finish()
    counters = result.metrics().query(MetricsFilter().with_namespace(OUTAGES))["counters"]
    shards = {counter.key.metric.name: int(counter.result) for counter in counters}
    if shards:
        for cause in sorted(shards):
            print(f"musadata: {cause}", file=sys.stderr)
        remedy = "mend what is said above and run the same command again"
        raise Outage(f"{sum(shards.values())} shards are not done", where=options.corpus, remedy=remedy)


def _connect(pipeline: beam.Pipeline, stages: Sequence[Stage]) -> None:
    shards = pipeline | "Shards" >> DealShards(stages[0].config.shards)
    for stage in stages:
        commits = shards | stage.name >> stage
        shards = commits | f"Shards of {stage.name}" >> beam.Map(_shard_of)
    shards | "Outages" >> beam.Map(_count_outage)


def _shard_of(done: Commit | Undone) -> Shard | Undone:
    return done if isinstance(done, Undone) else done.shard


def _count_outage(shard: Shard | Undone) -> None:
    """Metrics are what every runner brings back to the command."""
    if isinstance(shard, Undone):
        Metrics.counter(OUTAGES, shard.cause).inc()


def _watched(stage: Stage) -> Watched:
    corpus, journal = stage.corpus, JournalCounter(stage.corpus, stage.name)

    def count() -> tuple[int, str]:
        done = sum(name.endswith(".json") for name in list_names(join(corpus, COMMITS, stage.name)))
        return done, journal()

    return Watched(stage.name, stage.config.shards, count)
