"""How much a worker does at once: requests, shards, executions and verdicts."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from musadata.computed_once import ComputedOnce
from musadata.config import DEVICE_BACKENDS, Config, TeacherConfig, VerifierConfig
from musadata.teacher import TEACHERS

WORKERS = "MUSADATA_WORKERS"  # how many processes share this machine and its limits
MOST_SHARDS = 32  # that a worker has open at once

Item = TypeVar("Item")
Result = TypeVar("Result")

_answering = threading.Lock()


def is_remote(config: TeacherConfig) -> bool:
    """Whether a teacher is asked over the network."""
    return TEACHERS[config.kind].is_remote


def concurrency(config: Config) -> int:
    """Requests that may be under way at once, at all servers together."""
    return sum(one.concurrency for one in (config.teacher, *config.teachers))


def requests_at_once(config: Config) -> int:
    """How many questions may be under way: a server takes many, a teacher in this process one. Some threads more, since
    a request that waits to be sent again holds one but no slot."""
    return concurrency(config) * 5 // 4 + 1 if is_remote(config.teacher) else 1


def shards_at_once(config: Config) -> int:
    """How many shards a worker has under way, so that a server is kept busy over their ends."""
    return min(concurrency(config), MOST_SHARDS) if is_remote(config.teacher) else 1


@ComputedOnce
def asking_threads(count: int) -> ThreadPoolExecutor | None:
    """The threads in which this process asks a server, for all of its shards."""
    return ThreadPoolExecutor(count, "ask") if count > 1 else None


def one_at_a_time(function: Callable[[Item], Result]) -> Callable[[Item], Result]:
    """The same, for one thread of this process at a time: a teacher in this process answers one question after the
    other."""

    def call(item: Item) -> Result:
        with _answering:
            return function(item)

    return call


@ComputedOnce
def executing_threads(workers: int) -> ThreadPoolExecutor:
    """The threads in which this process runs foreign code in a sandbox for a stage that asks a server, in the order in
    which its shards hand it over. Threads of each shard that waited for their turn let a shard's first task wait for
    the tasks of others, and its requests with it."""
    return ThreadPoolExecutor(max(2, len(os.sched_getaffinity(0)) // workers), "execute")


def verdicts_at_once(config: VerifierConfig, workers: int) -> int:
    """How many candidates one process judges at a time, of `workers` that share this machine's cores: its part of what
    keeps a device busy, and two at least, so that the last workers leave fewer cores idle."""
    return max(2, len(os.sched_getaffinity(0)) // workers) if config.backend in DEVICE_BACKENDS else 2


@ComputedOnce
def judging(at_once: int) -> threading.BoundedSemaphore:
    """The right to judge a candidate, for the threads of all shards."""
    return threading.BoundedSemaphore(at_once)
