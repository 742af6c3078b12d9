"""The Beam graph of a run: shards through one stage after the other, and the outages counted at the end."""

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.transforms.window import GlobalWindows

from musadata.errors import Outage
from musadata.storage.commits import Commit
from musadata.storage.shards import Shard, deal
from pipelines import resources
from pipelines.beam_runner import open_pipeline, runs_here
from pipelines.stage import Stage
from pipelines.steps import Undone, UnlessUndone

OUTAGES = "outages"  # the metrics that count them, by cause


@dataclass
class EachShard(beam.PTransform):
    """Every shard through some work, `at_once` shards of a worker at a time: several where the work mostly waits for a
    server, so that what is asked does not run dry at the end of each shard."""

    work: Callable[[Shard], Any]
    at_once: int = 1

    def expand(self, shards: beam.PCollection[Shard | Undone]) -> beam.PCollection[Any]:
        work = UnlessUndone(self.work)
        each = beam.ParDo(_SeveralAtOnce(work, self.at_once)) if self.at_once > 1 else beam.Map(work)
        return shards | "Work" >> each  # Beam would name it by the whole config


class _SeveralAtOnce(beam.DoFn):
    """Works on several elements of a bundle in threads; a result goes on as soon as it is there."""

    def __init__(self, work: Callable[[Any], Any], at_once: int):
        self._work, self._at_once = work, at_once

    def start_bundle(self) -> None:
        self._pool = ThreadPoolExecutor(self._at_once)
        self._under_way: set[Future[Any]] = set()

    def process(self, element: Any) -> Iterator[Any]:
        if len(self._under_way) >= self._at_once:
            yield from self._next_results()
        self._under_way.add(self._pool.submit(self._work, element))

    def finish_bundle(self) -> Iterator[Any]:
        while self._under_way:
            for result in self._next_results():
                yield GlobalWindows.windowed_value(result)
        self._pool.shutdown()

    def _next_results(self) -> list[Any]:
        done, self._under_way = wait(self._under_way, return_when=FIRST_COMPLETED)
        try:
            return [future.result() for future in done]
        except BaseException as error:
            resources.stop_asking(error)
            self._pool.shutdown(cancel_futures=True)
            raise


@dataclass
class RunStage(beam.PTransform):
    """Every shard through one stage; see `Stage.expand`."""

    stage: Stage

    def expand(self, shards: beam.PCollection[Shard | Undone]) -> beam.PCollection[Commit | Undone]:
        return self.stage.expand(shards)


def run_graph(stages: Sequence[Stage], arguments: Sequence[str]) -> None:
    """Run the stages as one pipeline; `arguments` are Beam's own.

    Raises:
        Outage: the machine has kept some shards from their end.
    """
    pipeline = open_pipeline(arguments)
    _connect(pipeline, stages)
    result = pipeline.run()
    result.wait_until_finish()
    counters = result.metrics().query(MetricsFilter().with_namespace(OUTAGES))["counters"]
    shards = {counter.key.metric.name: int(counter.result) for counter in counters}
    if shards:
        for cause in sorted(shards):
            print(f"musadata: {cause}", file=sys.stderr)
        remedy = "mend what is said above and run the same command again"
        raise Outage(f"{sum(shards.values())} shards are not done", where=stages[0].corpus, remedy=remedy)


def _connect(pipeline: beam.Pipeline, stages: Sequence[Stage]) -> None:
    shards = pipeline | "Shards" >> beam.Create(deal(stages[0].config.shards)) | beam.Reshuffle()
    for number, stage in enumerate(stages):
        if number and not runs_here(pipeline.options):  # else a shard stays with the worker that it first came to
            shards |= f"Spread for {stage.name}" >> beam.Reshuffle()
        commits = shards | stage.name >> RunStage(stage)
        shards = commits | f"Shards of {stage.name}" >> beam.Map(shard_of)
    shards | "Outages" >> beam.Map(_count_outage)


def shard_of(done: Commit | Undone) -> Shard | Undone:
    """The shard that a commit is of, for the next step."""
    return done if isinstance(done, Undone) else done.shard


def _count_outage(shard: Shard | Undone) -> None:
    """Metrics are what every runner brings back to the command."""
    if isinstance(shard, Undone):
        Metrics.counter(OUTAGES, shard.cause).inc()
