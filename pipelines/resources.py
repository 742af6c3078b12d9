"""What a worker process opens once and keeps: sources, sandbox, verifier and teacher. They close with the process.

Each is imported where it is opened, so that a worker of stage 1 carries no verifier.
"""

import atexit
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING

from musadata.config import BackendType, Config, SourceConfig, TeacherConfig, TeacherType, VerifierConfig
from musadata.sampling.request_cache import Memory
from musadata.storage.files import join
from musadata.storage.journal import Journal, JournalIndex
from musadata.storage.moves import may_have_moved
from musadata.storage.shards import Shard
from pipelines.versions import answers_version, verdicts_version

if TYPE_CHECKING:
    from musadata.mining.miner import Miner
    from musadata.sandbox import Sandbox
    from musadata.sources import Source
    from musadata.teacher.protocol import Teacher
    from musadata.verifier import Verifier

DEVICE_BACKENDS = (BackendType.CUDA, BackendType.MUSA)

_open = ExitStack()


def close() -> None:
    """Close all that is open, as the end of the process does unless it comes without a farewell."""
    _open.close()


atexit.register(close)


@cache
def source(config: SourceConfig, seed: int) -> "Source":
    from musadata.sources import open_source

    return open_source(config, seed)


@cache
def miner(config: SourceConfig, seed: int) -> "Miner":
    """What turns a source's units into drafts."""
    from musadata.mining.miner import Miner

    return Miner(source(config, seed))


@cache
def probing() -> "Sandbox":
    """A warm sandbox for drafts, with all imported that probing needs: no fork pays for it again."""
    from musadata.tasks import probe

    return _warm(probe.PRELOAD, "musadata.mining.search:warm_up")


@cache
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


@cache
def verifier(config: VerifierConfig, teacher: TeacherType) -> "Verifier":
    """The verifier, its backend loaded."""
    from musadata.verifier import Verifier

    return _open.enter_context(Verifier(config, references(teacher)))


@cache
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


def journal_folder(corpus: str, stage: str, shard: Shard) -> str:
    """Where a stage keeps what it knows below a shard."""
    return join(corpus, "_journal", stage, str(shard))


@contextmanager
def memory(config: Config, corpus: str, stage: str, shard: Shard) -> Iterator[Memory]:
    """The journals of one shard of a stage, and of all others if tasks may have come from there.

    Opened anew by every step: where some steps need a device, the last one ran in another worker.
    """
    folder, moved = journal_folder(corpus, stage, shard), may_have_moved(corpus, stage, shard)

    def journal(name: str) -> Journal:
        return Journal(folder, name, all_journals(corpus, stage, name) if moved else None)

    with journal("answers") as answers, journal("verdicts") as verdicts:
        yield Memory(
            answers=answers,
            verdicts=verdicts,
            teacher_version=answers_version(config.teacher),
            verifier_version=verdicts_version(config.verifier),
        )


@cache
def all_journals(corpus: str, stage: str, name: str) -> JournalIndex:
    """The journals of all shards of a stage, whatever their number was."""
    return JournalIndex(join(corpus, "_journal", stage), name)
