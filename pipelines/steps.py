"""What every step of a stage has in common: a shard in, a commit out, and nothing done twice.

Only shards (two numbers) and signatures travel between Beam's workers; rows stay in files. A runner may process a shard
twice, or kill a worker half-way: a step writes its files under temporary names and its commit last, and the same shard
always gives the same bytes, so neither is seen by a reader.
"""

import dataclasses
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, ClassVar, Generic, Self, TypeVar

import pyarrow as pa

from musadata.config import Config, TeacherConfig
from musadata.corpus.funnel import Funnel
from musadata.errors import Cancelled, Outage
from musadata.records import Annotation, Candidate, Reject, Task
from musadata.storage.commits import Commit, ensure_commit, find_commit, input_hashes, require_commit, stage_digest
from musadata.storage.shards import Output, Shard, ShardWriter, SplitWriter, deal, is_split, read_shard

Item = TypeVar("Item")
Result = TypeVar("Result")
RETRY_SECONDS = 5.0  # before the second try of a shard after an outage
WINDOW = 4  # items under way or waiting for their turn, per thread: one slow answer must not hold up all others


class Writers:
    """The shards that one step writes at once, one per dataset, and the funnel's counts beside them."""

    def __init__(
        self, corpus: str, stage: str, shard: Shard, datasets: dict[str, type], steps: Sequence[str], part: str = ""
    ):
        self.funnel = Funnel(*steps)
        self._open = ExitStack()
        self._writers = {name: _writer(corpus, name, shard, kind, stage, part) for name, kind in datasets.items()}

    def __enter__(self) -> Self:
        for writer in self._writers.values():
            self._open.enter_context(writer)
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    def keep(self, dataset: str, row: Any) -> None:
        self._writers[dataset].write(row)

    def keep_batch(self, dataset: str, batch: pa.RecordBatch) -> None:
        """Rows as they were read, which costs a tenth of making them anew."""
        self._writers[dataset].write_batch(batch)

    def reject(self, reject: Reject) -> None:
        self._writers["rejects"].write(reject)
        self.funnel.dropped(reject.step, reject.reason)

    def take(self, step: str, result: Item | Reject) -> Item | None:
        """Count what came to a step; None where the step dropped it."""
        self.funnel.came_in(step)
        if isinstance(result, Reject):
            self.reject(result)
            return None
        self.funnel.went_on(step)
        return result

    def outputs(self) -> list[Output]:
        return [output for writer in self._writers.values() for output in writer.outputs]


def _writer(corpus: str, dataset: str, shard: Shard, kind: type, stage: str, part: str) -> ShardWriter | SplitWriter:
    if is_split(dataset, kind):
        return SplitWriter(corpus, dataset, shard, kind, part)
    return ShardWriter(corpus, dataset, shard, kind, name=f"rejects-{stage}" if dataset == "rejects" else "")


@dataclass(frozen=True)
class ShardStep(ABC):
    """One step: `process` turns a shard of its predecessor into shards of the datasets that it `writes`.

    Attributes:
        stage: name of its commits.
        reads: the stages whose commits of the same shard it reads.
        writes: dataset -> kind of row.
        funnel: the names under which rows are counted in, out and dropped.
        part: names the files of its rows in datasets for trainers, to which several steps write.
    """

    config: Config
    corpus: str

    stage: ClassVar[str]
    reads: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[dict[str, type]]
    funnel: ClassVar[tuple[str, ...]]
    part: ClassVar[str] = ""

    @abstractmethod
    def code(self) -> str:
        """Version of the code whose results the step writes."""

    @abstractmethod
    def settings(self, shard: Shard) -> Any:
        """The part of the config, and whatever else, that the rows depend on."""

    def inputs(self, shard: Shard) -> list[Commit]:
        """The commits that the step reads."""
        return [require_commit(self.corpus, stage, shard) for stage in self.reads]

    @abstractmethod
    def process(self, shard: Shard, out: Writers) -> None:
        """Write the shard's rows, rejects and counts."""

    def digest(self, shard: Shard) -> str:
        return stage_digest(self.code(), self.settings(shard), self.inputs(shard))

    def found(self, shard: Shard) -> Commit | None:
        """The commit, if the shard is done and nothing that it depends on has changed."""
        return find_commit(self.corpus, self.stage, shard, self.digest(shard))

    def run(self, shard: Shard) -> Commit:
        """The commit, after doing the work if it was not done yet."""

        def work() -> tuple[list[Output], dict[str, Any]]:
            with Writers(self.corpus, self.stage, shard, self.writes, self.funnel, self.part) as out:
                self.process(shard, out)
            return out.outputs(), out.funnel.counts()

        inputs = self.inputs(shard)
        return ensure_commit(self.corpus, self.stage, shard, self.digest(shard), input_hashes(inputs), work)[0]


@dataclass(frozen=True)
class Undone:
    """A shard that an outage has kept from its end, and why. It passes through all later steps as it is."""

    shard: Shard
    cause: str


@dataclass(frozen=True)
class UnlessUndone(Generic[Result]):
    """Work on a shard, twice if the machine fails under it; an `Undone` passes.

    An outage ends the work on this shard and no other: the run goes on, and reports it at its end.
    """

    work: Callable[[Shard], Result]

    def __call__(self, shard: Shard | Undone) -> Result | Undone:
        if isinstance(shard, Undone):
            return shard
        try:
            return self.work(shard)
        except Cancelled as outage:
            return Undone(shard, str(outage))
        except Outage:
            time.sleep(RETRY_SECONDS)
        try:
            return self.work(shard)
        except Outage as outage:
            return Undone(shard, str(outage))


def concurrently(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    threads: int,
    shared: ThreadPoolExecutor | None = None,
) -> Iterator[Result]:
    """`function` of every item, in order, up to `threads` at once, in a pool of its own or one that is shared.

    Items are drawn as they are needed.
    """
    if threads == 1:
        yield from map(function, items)
        return
    pool, waiting = shared or ThreadPoolExecutor(threads), deque[Future[Result]]()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) >= WINDOW * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
        wait(waiting)
        if shared is None:
            pool.shutdown()


def asking_settings(config: Config) -> list[Any]:
    """The part of a config that answers depend on, without what only says how a server is asked and paid."""
    teachers = [_answering(one) for one in config.teachers]
    return [_answering(config.teacher), config.seed, *teachers, *([config.limit] if config.limit else [])]


def _answering(teacher: TeacherConfig) -> TeacherConfig:
    same = TeacherConfig()
    return dataclasses.replace(
        teacher,
        base_url=same.base_url,
        concurrency=same.concurrency,
        timeout_seconds=same.timeout_seconds,
        prompt_price=same.prompt_price,
        cached_price=same.cached_price,
        completion_price=same.completion_price,
    )


def task_limit(config: Config, shard: Shard) -> int | None:
    """How many tasks of a shard the teacher is asked about, of `config.limit` over all shards; None for all."""
    if not config.limit:
        return None
    return config.limit // shard.count + (shard.index < config.limit % shard.count)


def annotated_tasks(config: Config, corpus: str, shard: Shard) -> Sequence[tuple[Task, Annotation]]:
    """The tasks of a shard that have an annotation, with it."""
    commits = [require_commit(corpus, stage, shard) for stage in ("stage1", "stage2")]
    hashes = (*input_hashes(commits[:1], reads=["tasks"]), *input_hashes(commits[1:], reads=["annotations"]))
    return _annotated_tasks(corpus, shard, task_limit(config, shard), hashes)


@lru_cache(maxsize=1)  # a worker takes a shard through several steps that read these rows
def _annotated_tasks(
    corpus: str, shard: Shard, limit: int | None, hashes: tuple[str, ...]
) -> Sequence[tuple[Task, Annotation]]:
    annotations = {one.task_id: one for one in read_shard(corpus, "annotations", shard, Annotation)}
    tasks = islice(read_shard(corpus, "tasks", shard, Task), limit)
    return [(task, annotations[task.task_id]) for task in tasks if task.task_id in annotations]


def candidates_by_task(corpus: str, shard: Shard) -> dict[str, list[Candidate]]:
    """The candidates of a shard by their task's id."""
    found: dict[str, list[Candidate]] = {}
    for candidate in read_shard(corpus, "candidates", shard, Candidate):
        found.setdefault(candidate.task_id, []).append(candidate)
    return found


def all_found(step: ShardStep) -> bool:
    """Whether the whole step is done, so that no pipeline needs to be started."""
    return all(step.found(shard) is not None for shard in deal(step.config.shards))
