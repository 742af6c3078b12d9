"""The conversations of a step that only asks."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from typing import TypeVar

from musadata.config import Config
from musadata.sampling.conversing import hold, hold_all
from musadata.sampling.request_cache import RequestCache
from musadata.teacher.protocol import Conversation, Result, SubmittingTeacher
from pipelines import limits, resources
from pipelines.steps import concurrently

Item = TypeVar("Item")


def converse(
    begin: Callable[[Item], Conversation[Result]],
    items: Iterable[Item],
    config: Config,
    corpus: str,
    cache: RequestCache,
    pool: Executor | None = None,
) -> Iterator[Result]:
    """What comes of the conversation about each item, in order: of as many at once as the teacher may be asked.

    They are begun in the pool, if there is one. They are held in this thread if the teacher takes requests without
    holding it, else in one for each.
    """
    teacher, at_once = resources.teacher(config, corpus), limits.requests_at_once(config)
    if isinstance(teacher, SubmittingTeacher) and teacher.submits:
        return hold_all(begin, items, cache.ask_later(teacher), at_once, pool)
    ask = cache.ask_teacher(teacher)

    def converse_about(item: Item) -> Result:
        return hold(pool.submit(begin, item).result() if pool else begin(item), ask)

    return concurrently(converse_about, items, at_once, limits.asking_threads(at_once))
