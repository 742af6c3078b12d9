"""Rounds of retries over a corpus: how many were begun, and what came of them. See `musadata.sampling.retry`.

The number of rounds is a file of the corpus, and the rows of stage 3 depend on it. A round begins once, with
`--retry-buffer`, when all before it is done; from then on it is part of what every run of stage 3 completes.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from musadata.config import Config
from musadata.corpus.manifest import open_corpus
from musadata.errors import MusadataError
from musadata.records import Annotation, Task
from musadata.sampling.assembly import Conversation
from musadata.sampling.retry import FIRST_SAMPLE, Failure, RetryBuffer, find_failure, retry
from musadata.sampling.rollout import Ask, Attempt, CutShort, Judge, NotKnownYet, run_rollout
from musadata.sampling.sample_plan import SamplePlan
from musadata.storage import files
from musadata.storage.commits import COMMITS
from musadata.storage.shards import Shard, read_shard
from musadata.teacher.protocol import CannotAnswer, RequestFailed
from musadata.training_rows import RetryRow, RetryState

_FILE = "retries.json"
Report = Callable[[Task, int, CannotAnswer, int], None]  # a request without an answer: task, sample, why, turn


def count_rounds(corpus: str) -> int:
    """How many rounds of retries were begun.

    Raises:
        MusadataError: the file that says so cannot be read.
    """
    path = files.join(corpus, COMMITS, _FILE)
    if not files.exists(path):
        return 0
    try:
        return int(json.loads(files.read_bytes(path))["rounds"])
    except (ValueError, TypeError, KeyError) as error:
        raise MusadataError(
            "is no count of rounds", where=path, remedy='write {"rounds": 0} or the right number'
        ) from error


def begin_round(corpus: str) -> int:
    """Begin a round over what waits in the buffer; returns how many tasks wait. Nothing begins where none does."""
    shards = [commit.shard for commit in open_corpus(corpus).stage("stage3")]
    rows = (row for shard in shards for row in read_shard(corpus, "retries", shard, RetryRow))
    waiting = sum(row.state is RetryState.WAITING for row in rows)
    if waiting:
        rounds = json.dumps({"rounds": count_rounds(corpus) + 1})
        files.write_atomic(files.join(corpus, COMMITS, _FILE), rounds.encode() + b"\n")
    return waiting


def replay(
    buffer: RetryBuffer, rounds: int, turns: int, seed: int, ask: Ask, judge: Judge, report: Report | None = None
) -> dict[str, list[Conversation]]:
    """The conversations of these rounds by task id; the buffer is left as it is after them.

    Raises:
        NotKnownYet: passed on from `ask` and `judge`.
    """
    held: dict[str, list[Conversation]] = {}
    for number in range(1, rounds + 1):
        for failure in buffer.draw(number):
            attempts = _retry(failure, number, turns, seed, ask, judge, buffer, report)
            if attempts:
                buffer.settle(failure, attempts)
                held.setdefault(failure.task.task_id, []).append(attempts)
    return held


def _retry(
    failure: Failure,
    number: int,
    turns: int,
    seed: int,
    ask: Ask,
    judge: Judge,
    buffer: RetryBuffer,
    report: Report | None,
) -> list[Attempt]:
    """The conversation; empty if there was no answer. After a failed request the task waits on."""
    attempts: list[Attempt] = []
    try:
        return retry(failure, number, turns, seed, ask, judge)
    except CannotAnswer as refusal:
        if isinstance(refusal, CutShort):
            attempts = refusal.attempts if len(refusal.attempts) > 1 else []
        elif not isinstance(refusal, RequestFailed):
            buffer.give_up(failure)
        if report:
            report(failure.task, FIRST_SAMPLE + number, refusal, len(attempts) + 1 if attempts else 2)
    return attempts


def failures_of(config: Config, tasks: Sequence[tuple[Task, Annotation]], ask: Ask, judge: Judge) -> Iterator[Failure]:
    """The tasks whose answers all failed, from what is remembered.

    Raises:
        NotKnownYet: passed on from `ask` and `judge`.
    """
    turns, seed = config.sampling.turns, config.seed
    for task, annotation in tasks:

        def converse(sample: int, task: Task = task, annotation: Annotation = annotation) -> list[Attempt]:
            try:
                return run_rollout(task, annotation, sample, turns, seed, ask, judge)
            except CutShort as cut:
                return cut.attempts
            except CannotAnswer:
                return []

        held = SamplePlan.of(config).hold(converse)
        if failure := find_failure(task, annotation, held):
            yield failure


def fill_buffer(
    config: Config, shard: Shard, tasks: Sequence[tuple[Task, Annotation]], ask: Ask, judge: Judge
) -> RetryBuffer:
    """The buffer of a shard before the first round; see `failures_of`."""
    buffer = RetryBuffer(config.sampling, config.seed, shard)
    for failure in failures_of(config, tasks, ask, judge):
        buffer.add(failure)
    return buffer


def retries_of_round(
    config: Config,
    shard: Shard,
    tasks: Sequence[tuple[Task, Annotation]],
    number: int,
    recall: tuple[Ask, Judge],
    go_on: tuple[Ask, Judge],
) -> list[Callable[[], object]]:
    """The conversations of a round, to be carried on by `go_on`; none while what comes before is not known."""
    turns, seed = config.sampling.turns, config.seed
    try:
        buffer = fill_buffer(config, shard, tasks, *recall)
        replay(buffer, number - 1, turns, seed, *recall)
    except NotKnownYet:
        return []
    return [partial(retry, failure, number, turns, seed, *go_on) for failure in buffer.draw(number)]
