"""What a worker process opens once and keeps: sources, sandbox, verifier and teacher. They close with the process.

Each is imported where it is opened, so that a worker of stage 1 carries no verifier.
"""

import os
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from musadata.computed_once import ComputedOnce
from musadata.config import Config, SourceConfig, TeacherConfig, TeacherType, VerifierConfig
from musadata.errors import BudgetSpent, Cancelled, MusadataError
from musadata.teacher import TEACHERS
from pipelines.journals import captures
from pipelines.lifetime import keep_open
from pipelines.limits import WORKERS, is_remote

if TYPE_CHECKING:
    from musadata.mining.miner import Miner
    from musadata.sandbox import Caller, Sandbox
    from musadata.sources import Source
    from musadata.teacher.compiler_teacher import CompilerTeacher
    from musadata.teacher.protocol import Teacher
    from musadata.verifier import Verifier


_teachers: list["Teacher"] = []


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

    return _warm((*probe.PRELOAD, "musadata.mining.harvest.recording"), "musadata.mining.search:warm_up")


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

    return keep_open(Sandbox(tuple(dict.fromkeys(preload)), setup=setup))


@ComputedOnce
def verifier(config: VerifierConfig, teacher: TeacherType) -> "Verifier":
    """The verifier, its backend loaded."""
    from musadata.verifier import Verifier

    return keep_open(Verifier(config, references(teacher), at_declared=False))


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
        keep_open(opened)
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

    return RememberingSandbox(lambda: references(kind), lambda function: captures(corpus))


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
