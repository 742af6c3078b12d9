"""What a worker process opens once and keeps: sources, sandbox, verifier and teacher. They close with the process.

Each is imported where it is opened, so that a worker of stage 1 carries no verifier.
"""

import atexit
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, update_wrapper
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar

from musadata.config import BackendType, Config, SourceConfig, TeacherConfig, TeacherType, VerifierConfig
from musadata.sampling.request_cache import RequestCache
from musadata.storage.files import join
from musadata.storage.journal import Journal
from pipelines.versions import answers_version, executions_name, verdicts_version

if TYPE_CHECKING:
    from musadata.mining.miner import Miner
    from musadata.sandbox import Sandbox
    from musadata.sources import Source
    from musadata.teacher.protocol import Teacher
    from musadata.verifier import Verifier

DEVICE_BACKENDS = (BackendType.CUDA, BackendType.MUSA)

P = ParamSpec("P")
R = TypeVar("R")

_open = ExitStack()
_opening = threading.RLock()


class OpenedOnce(Generic[P, R]):
    """`functools.cache` for what must not be open twice: of threads that ask at once, the later ones wait."""

    def __init__(self, opening: Callable[P, R]):
        cached = cache(opening)
        self.cache_clear, self.cache_info = cached.cache_clear, cached.cache_info
        self._cached: Callable[P, R] = cached
        update_wrapper(self, opening)

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        with _opening:
            return self._cached(*arguments, **named)


def close() -> None:
    """Close all that is open, as the end of the process does unless it comes without a farewell."""
    _open.close()


atexit.register(close)


@OpenedOnce
def source(config: SourceConfig, seed: int) -> "Source":
    from musadata.sources import open_source

    return open_source(config, seed)


@OpenedOnce
def miner(config: SourceConfig, seed: int) -> "Miner":
    """What turns a source's units into drafts."""
    from musadata.mining.miner import Miner

    return Miner(source(config, seed))


@OpenedOnce
def probing() -> "Sandbox":
    """A warm sandbox for drafts, with all imported that probing needs: no fork pays for it again."""
    from musadata.tasks import probe

    return _warm(probe.PRELOAD, "musadata.mining.search:warm_up")


@OpenedOnce
def references(teacher: TeacherType) -> "Sandbox":
    """A warm sandbox for references: tracing, a compiling teacher and the verifier share it, to hold torch once.

    Whoever needs it has probed what there was to probe, so the sandbox for drafts gives its memory back.
    """
    if probing.cache_info().currsize:
        probing().close()
    from musadata.teacher import TEACHERS
    from musadata.tracing import task as tracing
    from musadata.verifier import REFERENCE_PRELOAD

    return _warm((*tracing.PRELOAD, *REFERENCE_PRELOAD, *TEACHERS[teacher].preload))


def _warm(preload: tuple[str, ...], setup: str | None = None) -> "Sandbox":
    from musadata.sandbox import Sandbox

    return _open.enter_context(Sandbox(tuple(dict.fromkeys(preload)), setup=setup))


@OpenedOnce
def verifier(config: VerifierConfig, teacher: TeacherType) -> "Verifier":
    """The verifier, its backend loaded."""
    from musadata.verifier import Verifier

    return _open.enter_context(Verifier(config, references(teacher)))


@OpenedOnce
def teacher(config: TeacherConfig, seed: int) -> "Teacher":
    """The teacher, kept open for all shards of this process."""
    from musadata.teacher import open_teacher

    opened = open_teacher(config, seed, lambda: references(config.kind))
    if isinstance(opened, AbstractContextManager):
        _open.enter_context(opened)
    return opened


def requests_at_once(config: TeacherConfig) -> int:
    """How many questions a shard may have under way: a server takes many, a teacher in this process one."""
    from musadata.teacher import TEACHERS

    return config.concurrency if TEACHERS[config.kind].is_remote else 1


def verdicts_at_once(config: VerifierConfig, workers: int) -> int:
    """How many candidates one process judges at a time, of `workers` that share this machine's cores: its part of what
    keeps a device busy, and two at least, so that the last workers leave fewer cores idle."""
    return max(2, len(os.sched_getaffinity(0)) // workers) if config.backend in DEVICE_BACKENDS else 2


@OpenedOnce
def journal(corpus: str, stage: str, name: str) -> Journal:
    """One of a stage's journals, for all shards. Those that older versions wrote below shards are read too."""
    return _open.enter_context(Journal(join(corpus, "_journal", stage), name))


def executions(corpus: str, function: str) -> Journal:
    """What calls of a function gave in stage 1, as long as its code is the same."""
    return journal(corpus, "stage1", executions_name(function))


@contextmanager
def request_cache(config: Config, corpus: str, stage: str) -> Iterator[RequestCache]:
    """What a stage has asked and judged so far, in other processes too; what comes to it is written in the end."""
    answers, verdicts = journal(corpus, stage, "answers"), journal(corpus, stage, "verdicts")
    for one in (answers, verdicts):
        one.refresh()
    try:
        yield RequestCache(answers, verdicts, answers_version(config.teacher), verdicts_version(config.verifier))
    finally:
        for one in (answers, verdicts):
            one.flush()
