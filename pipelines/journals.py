"""The journals of a corpus that a worker reads and writes, for all of its shards."""

from collections.abc import Iterator
from contextlib import contextmanager

from musadata.compiler.capturing import CAPTURE
from musadata.computed_once import ComputedOnce
from musadata.config import Config, RequestsConfig, TeacherConfig
from musadata.sampling.request_cache import RequestCache
from musadata.storage.files import join
from musadata.storage.journal import Journal
from musadata.teacher import TEACHERS, ledger
from musadata.teacher.chat import name_of
from pipelines.lifetime import keep_open
from pipelines.limits import is_remote
from pipelines.versions import answers_version, executions_name, verdicts_version

ASKING_STAGES = ("stage2", "stage3")
FAILURES = "failures"  # the journals of requests that failed in this run


@ComputedOnce
def journal(corpus: str, stage: str, name: str) -> Journal:
    """One of a stage's journals, for all shards. Those that older versions wrote below shards are read too."""
    return keep_open(Journal(join(corpus, "_journal", stage), name))


def executions(corpus: str, function: str) -> Journal:
    """What calls of a function gave in stage 1, as long as its code is the same."""
    return journal(corpus, "stage1", executions_name(function))


def captures(corpus: str) -> Journal:
    """Graphs of references, for all stages."""
    return journal(corpus, "stage2", executions_name(CAPTURE))


@contextmanager
def request_cache(config: Config, corpus: str, stage: str) -> Iterator[RequestCache]:
    """What a stage has asked and judged so far, in other processes too; what comes to it is written in the end."""
    names = ("answers", "verdicts", *((FAILURES, ledger.NAME) if is_remote(config.teacher) else ()))
    journals = [journal(corpus, stage, name) for name in names]
    if TEACHERS[config.teacher.kind].is_computed:
        journals.append(captures(corpus))
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
    return {name_of(one): one for one in (config.teacher, *config.teachers)} if is_remote(config.teacher) else {}


@ComputedOnce
def request_budget(config: RequestsConfig, corpus: str) -> ledger.Budget:
    """What may be spent on a corpus, by all stages together."""
    return ledger.Budget(config, [journal(corpus, stage, ledger.NAME) for stage in ASKING_STAGES])


def forget_failures(corpus: str) -> None:
    """Let requests that failed in an earlier run be sent again."""
    for stage in ASKING_STAGES:
        journal(corpus, stage, FAILURES).clear()
