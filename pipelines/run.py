"""Running one stage: skip it when it is done, show how far it is, and publish what it made."""

import sys
from collections.abc import Callable

import apache_beam as beam

from musadata.config import Config
from musadata.corpus.commits import COMMITS, Commit
from musadata.corpus.files import join, list_names
from musadata.corpus.manifest import create_corpus, open_corpus
from musadata.corpus.publish import publish
from pipelines.options import RunOptions
from pipelines.progress import JournalCounter, Watch

Build = Callable[[beam.Pipeline, Config, str], "beam.PCollection[Commit]"]
IsDone = Callable[[Config, str], bool]


def run_stage(stage: str, options: RunOptions, build: Build, is_done: IsDone, needs: str = "") -> None:
    """Run a stage to its end on whatever runner was asked for, unless all of it is committed already.

    Raises:
        MusadataError: the corpus is not one, or the predecessor `needs` is not complete.
    """
    config, corpus = options.config, options.corpus
    if needs:
        open_corpus(corpus, needs, shards=config.shards)
    else:
        create_corpus(corpus)
    if is_done(config, corpus):
        print(f"{stage}: up to date", file=sys.stderr)
    else:
        journal = JournalCounter(corpus, stage)
        with Watch(stage, config.shards, lambda: (_count_commits(corpus, stage), journal())):
            pipeline = options.pipeline()
            build(pipeline, config, corpus)
            pipeline.run().wait_until_finish()
    publish(corpus, config, shards=config.shards)


def _count_commits(corpus: str, stage: str) -> int:
    return sum(name.endswith(".json") for name in list_names(join(corpus, COMMITS, stage)))
