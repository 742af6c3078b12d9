"""What a worker process opens once and keeps: sources, sandbox, verifier and teacher. They close with the process.

Each is imported where it is opened, so that a worker of stage 1 carries no verifier.
"""

import atexit
import gc
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from musadata.compiler.capturing import CAPTURE
from musadata.computed_once import ComputedOnce
from musadata.config import (
    BackendType,
    Config,
    RequestsConfig,
    SourceConfig,
    TeacherConfig,
    TeacherType,
    VerifierConfig,
)
from musadata.errors import BudgetSpent, Cancelled, MusadataError
from musadata.sampling.request_cache import RequestCache
from musadata.storage.files import join
from musadata.storage.journal import Journal
from musadata.teacher import TEACHERS, ledger
from pipelines.versions import answers_version, executions_name, verdicts_version

if TYPE_CHECKING:
    from musadata.mining.miner import Miner
    from musadata.sandbox import Caller, Sandbox
    from musadata.sources import Source
    from musadata.teacher.compiler_teacher import CompilerTeacher
    from musadata.teacher.protocol import Teacher
    from musadata.verifier import Verifier

ASKING_STAGES = ("stage2", "stage3")
FAILURES = "failures"  # the journals of requests that failed in this run
WORKERS = "MUSADATA_WORKERS"  # how many processes share this machine and its limits
MOST_SHARDS = 32  # that a worker has open at once
DEVICE_BACKENDS = (BackendType.CUDA, BackendType.MUSA)

ALLOCATIONS = 20_000  # between two looks of the garbage collector

Item = TypeVar("Item")
Result = TypeVar("Result")

_open = ExitStack()
_answering = threading.Lock()
_teachers: list["Teacher"] = []


def collect_rarely() -> None:
    """Have the garbage collector look less often. Rows are many small objects without cycles: looking through them
    again and again took two thirds of the time in which they are read."""
    gc.set_threshold(ALLOCATIONS)


def close() -> None:
    """Close all that is open, as the end of the process does unless it comes without a farewell."""
    _open.close()


atexit.register(close)


@ComputedOnce
def source(config: SourceConfig, seed: int) -> "Source":
    from musadata.sources import open_source

    return open_source(config, seed)


@ComputedOnce
def miner(config: SourceConfig, seed: int) -> "Miner":
    """What turns a source's units into drafts."""
    from musadata.mining.miner import Miner

    return Miner(source(config, seed))


@ComputedOnce
def probing() -> "Sandbox":
    """A warm sandbox for drafts, with all imported that probing needs: no fork pays for it again."""
    from musadata.tasks import probe

    return _warm(probe.PRELOAD, "musadata.mining.search:warm_up")


@ComputedOnce
def references(teacher: TeacherType) -> "Sandbox":
    """A warm sandbox for references: tracing, a compiling teacher and the verifier share it, to hold torch once.

    Whoever needs it has probed what there was to probe, so the sandbox for drafts gives its memory back.
    """
    if probing.cache_info().currsize:
        probing().close()
    return _warm(reference_preload(teacher))


def reference_preload(teacher: TeacherType) -> tuple[str, ...]:
    """What a sandbox for references imports."""
    from musadata.tracing import task as tracing
    from musadata.verifier import REFERENCE_PRELOAD

    return *tracing.PRELOAD, *REFERENCE_PRELOAD, *TEACHERS[teacher].preload


def _warm(preload: tuple[str, ...], setup: str | None = None) -> "Sandbox":
    from musadata.sandbox import Sandbox

    return _open.enter_context(Sandbox(tuple(dict.fromkeys(preload)), setup=setup))


@ComputedOnce
def verifier(config: VerifierConfig, teacher: TeacherType) -> "Verifier":
    """The verifier, its backend loaded."""
    from musadata.verifier import Verifier

    return _open.enter_context(Verifier(config, references(teacher)))


@ComputedOnce
def teacher(config: Config, corpus: str) -> "Teacher":
    """The teacher, kept open for all shards of this process. The workers of this machine share its limits."""
    from musadata.teacher import open_panel, open_teacher

    about, workers = config.teacher, int(os.environ.get(WORKERS, "1"))
    slots = Path(tempfile.gettempdir()) if workers > 1 else None
    opened: Teacher
    if is_remote(about):
        opened = open_panel((about, *config.teachers), config.requests, workers, slots)
    else:
        opened = open_teacher(about, config.seed, lambda: _capturing(about.kind, corpus))
    if isinstance(opened, AbstractContextManager):
        _open.enter_context(opened)
    _teachers.append(opened)
    return opened


@ComputedOnce
def mutant_maker(config: Config, corpus: str) -> "CompilerTeacher":
    """What seeds faults, whoever the teacher is."""
    from musadata.teacher.compiler_teacher import CompilerTeacher

    opened = teacher(config, corpus)
    if isinstance(opened, CompilerTeacher):
        return opened
    return CompilerTeacher(TeacherConfig(), config.seed, _capturing(TeacherType.COMPILER, corpus))


def _capturing(kind: TeacherType, corpus: str) -> "Caller":
    """Where a compiling teacher captures references, each of them once for all stages."""
    from musadata.sandbox import RememberingSandbox

    return RememberingSandbox(lambda: references(kind), lambda function: _captures(corpus))


def _captures(corpus: str) -> Journal:
    return journal(corpus, "stage2", executions_name(CAPTURE))


def stop_asking(error: BaseException) -> None:
    """End all requests of this process: the run has failed, and nobody waits for their answers."""
    from musadata.teacher.protocol import RemoteTeacher

    if isinstance(error, BudgetSpent):  # what is in flight is paid for
        return
    for opened in _teachers:
        if isinstance(opened, RemoteTeacher):
            opened.stop(error if isinstance(error, MusadataError) else Cancelled("the run has failed"))


def forget_teachers() -> None:
    """Open teachers anew in the next run of this process: one that was stopped answers no more."""
    teacher.cache_clear()
    _teachers.clear()


def check_server(config: Config) -> None:
    """Find now whether the teacher's server is there and has the model.

    Raises:
        MusadataError: it is not or has not, or it refuses the key.
    """
    from musadata.teacher import open_panel

    if is_remote(config.teacher):
        with open_panel((config.teacher, *config.teachers), config.requests) as opened:
            opened.check_server()


def is_remote(config: TeacherConfig) -> bool:

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


@ComputedOnce
def journal(corpus: str, stage: str, name: str) -> Journal:
    """One of a stage's journals, for all shards. Those that older versions wrote below shards are read too."""
    return _open.enter_context(Journal(join(corpus, "_journal", stage), name))


def executions(corpus: str, function: str) -> Journal:
    """What calls of a function gave in stage 1, as long as its code is the same."""
    return journal(corpus, "stage1", executions_name(function))


@contextmanager
def request_cache(config: Config, corpus: str, stage: str) -> Iterator[RequestCache]:
    """What a stage has asked and judged so far, in other processes too; what comes to it is written in the end."""
    names = ("answers", "verdicts", *((FAILURES, ledger.NAME) if is_remote(config.teacher) else ()))
    journals = [journal(corpus, stage, name) for name in names]
    if TEACHERS[config.teacher.kind].is_computed:
        journals.append(_captures(corpus))
    for one in journals:
        one.refresh()
    versions = answers_version(config.teacher), verdicts_version(config.verifier)
    failures, usage = journals[2:4] if is_remote(config.teacher) else (None, None)
    budget = request_budget(config.requests, corpus) if usage is not None else None
    try:
        yield RequestCache(journals[0], journals[1], *versions, failures, usage, budget, _prices(config))
    finally:
        for one in journals:
            one.flush()


def _prices(config: Config) -> dict[str, TeacherConfig]:
    from musadata.teacher.chat import name_of

    return {name_of(one): one for one in (config.teacher, *config.teachers)} if is_remote(config.teacher) else {}


@ComputedOnce
def request_budget(config: RequestsConfig, corpus: str) -> "ledger.Budget":
    """What may be spent on a corpus, by all stages together."""
    return ledger.Budget(config, [journal(corpus, stage, ledger.NAME) for stage in ASKING_STAGES])


def forget_failures(corpus: str) -> None:
    """Let requests that failed in an earlier run be sent again."""
    for stage in ASKING_STAGES:
        journal(corpus, stage, FAILURES).clear()
