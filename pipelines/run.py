"""Running stages: skip what is done, show how far they are, and publish what they made."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import apache_beam as beam

from musadata.config import Config
from musadata.corpus.manifest import create_corpus, open_corpus
from musadata.corpus.publish import publish
from musadata.storage.commits import COMMITS, Commit
from musadata.storage.files import join, list_names
from musadata.storage.shards import Shard
from pipelines.options import RunOptions
from pipelines.progress import JournalCounter, Watch, Watched
from pipelines.steps import DealShards


@dataclass
class Stage(beam.PTransform, ABC):
    """Shards in, the commits of the stage's last step out.

    Attributes:
        name: of the stage, its commits and its journals.
        needs: the stage whose commits it reads; "" for none.
    """

    config: Config
    corpus: str

    name: ClassVar[str]
    needs: ClassVar[str] = ""

    @abstractmethod
    def expand(self, shards: "beam.PCollection[Shard]") -> "beam.PCollection[Commit]":
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
    for stage in stages:
        stage.check()
    if stages[0].needs:
        open_corpus(corpus, stages[0].needs, shards=config.shards)
    else:
        create_corpus(corpus)
    for stage in stages:
        stage.prepare()
    if all(stage.is_done() for stage in stages):
        for stage in stages:
            print(f"{stage.name}: up to date", file=sys.stderr)
    else:
        with Watch([_watched(stage) for stage in stages]):
            pipeline = options.pipeline()
            _connect(pipeline, stages)
            pipeline.run().wait_until_finish()
    publish(corpus, config, shards=config.shards)
    for stage in stages:
        for remark in stage.remarks():
            print(f"{stage.name}: {remark}", file=sys.stderr)


def _connect(pipeline: beam.Pipeline, stages: Sequence[Stage]) -> None:
    shards = pipeline | "Shards" >> DealShards(stages[0].config.shards)
    for stage in stages:
        commits = shards | stage.name >> stage
        shards = commits | f"Shards of {stage.name}" >> beam.Map(lambda commit: commit.shard)


def _watched(stage: Stage) -> Watched:
    corpus, journal = stage.corpus, JournalCounter(stage.corpus, stage.name)

    def count() -> tuple[int, str]:
        done = sum(name.endswith(".json") for name in list_names(join(corpus, COMMITS, stage.name)))
        return done, journal()

    return Watched(stage.name, stage.config.shards, count)
