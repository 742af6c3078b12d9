"""The conversations of a step that only asks."""

from collections.abc import Iterable, Iterator

from musadata.config import Config
from musadata.sampling.conversing import hold, hold_all
from musadata.sampling.request_cache import RequestCache
from musadata.teacher.protocol import Conversation, Result, SubmittingTeacher
from pipelines import resources
from pipelines.steps import concurrently


def converse(
    conversations: Iterable[Conversation[Result]], config: Config, corpus: str, cache: RequestCache
) -> Iterator[Result]:
    """What comes of each, in order: of as many at once as the teacher may be asked.

    They are held in this thread if the teacher takes requests without holding it, else in one for each.
    """
    teacher, at_once = resources.teacher(config, corpus), resources.requests_at_once(config)
    if isinstance(teacher, SubmittingTeacher) and teacher.submits:
        return hold_all(conversations, cache.ask_later(teacher), at_once)
    ask = cache.ask_teacher(teacher)
    return concurrently(lambda one: hold(one, ask), conversations, at_once, resources.asking_threads(at_once))
