"""Conversations with a teacher: one at a time, or many at once in one thread.

To hand a request to the event loop costs a waiting thread 80 µs of CPU, half of what sending it does. So a stage that
only asks holds its conversations in one thread, which wakes when a number of replies has come.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, Generic, TypeVar

from musadata.sampling.rollout import Ask
from musadata.teacher.protocol import Answer, CannotAnswer, Conversation, Done, Request, Result

Item = TypeVar("Item")
# The answer if it is known; else None, and the last argument is called with what comes of the request, in any thread.
AskLater = Callable[[Request, Done], Answer | None]

WINDOW = 4  # times as many conversations as may be under way are begun before the first one has ended
# While fewer replies come than were waited for; less where the server may have nothing to do.
_LONGEST_SLEEP_S, _SHORT_SLEEP_S = 0.2, 0.05


def hold(conversation: Conversation[Result], ask: Ask) -> Result:
    """What comes of one conversation; waits for its answers."""
    step: Callable[[], Request] = partial(next, conversation)
    while True:
        try:
            request = step()
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        try:
            step = partial(conversation.send, ask(request))
        except CannotAnswer as refusal:
            step = partial(conversation.throw, refusal)


def hold_all(
    begin: Callable[[Item], Conversation[Result]],
    items: Iterable[Item],
    ask: AskLater,
    at_once: int,
    pool: Executor | None = None,
) -> Iterator[Result]:
    """What comes of the conversation about each item, in order; about `at_once` wait for an answer or their beginning.

    `begin` is called in the pool if there is one, so that conversations go on while others are prepared. Items are
    drawn as they are needed. However this ends, all requests that were sent have ended.
    """
    begun, replies = deque[_Talk[Result]](), _Replies()
    some = max(1, at_once // 3)  # replies are taken at once, while `at_once` others keep the server busy
    try:
        for item in items:
            talk: _Talk[Result] = _Talk(ask, replies)
            begun.append(talk)
            if pool is None:
                talk.begin(begin(item))
            else:
                talk.begin_later(pool.submit(begin, item))
            while replies.awaited >= at_once + some or (len(begun) >= WINDOW * at_once and not begun[0].has_ended):
                replies.take(some)
            while begun and begun[0].has_ended:
                yield begun.popleft().result
        while begun:
            while not begun[0].has_ended:
                replies.take(min(some, max(1, replies.awaited // 2)), _SHORT_SLEEP_S)
            yield begun.popleft().result
    finally:
        for talk in begun:
            talk.cancel()
        replies.wait_for_all()


class _Talk(Generic[Result]):
    """A conversation that is under way."""

    result: Result
    _conversation: Conversation[Result]

    def __init__(self, ask: AskLater, replies: "_Replies"):
        self._ask, self._replies = ask, replies
        self._beginning: Future[Conversation[Result]] | None = None
        self.has_ended = False

    def begin(self, conversation: Conversation[Result]) -> None:
        self._conversation = conversation
        self.go_on(partial(next, conversation))

    def begin_later(self, beginning: Future[Conversation[Result]]) -> None:
        """Begin when the conversation is there."""
        self._beginning = beginning
        self._replies.awaited += 1
        beginning.add_done_callback(partial(self._replies.arrive, self))

    def cancel(self) -> None:
        """Do not begin, if that is still to come."""
        if self._beginning is not None:
            self._beginning.cancel()

    def go_on(self, step: Callable[[], Request]) -> None:
        """Up to the next request whose answer is not known."""
        while True:
            try:
                request = step()
            except StopIteration as end:
                self.result, self.has_ended = end.value, True
                return
            try:
                answer = self._ask(request, partial(self._replies.arrive, self))
            except CannotAnswer as refusal:
                step = partial(self._conversation.throw, refusal)
                continue
            if answer is None:
                self._replies.awaited += 1
                return
            step = partial(self._conversation.send, answer)

    def reply(self, result: "_Reply") -> None:
        """Go on with what came of a request, or with the beginning.

        Raises:
            BaseException: that every other request would end with.
        """
        if isinstance(result, Future):
            self._beginning = None
            self.begin(result.result())
        elif isinstance(result, Answer):
            self.go_on(partial(self._conversation.send, result))
        elif isinstance(result, CannotAnswer):
            self.go_on(partial(self._conversation.throw, result))
        else:
            raise result


_Reply = Answer | BaseException | Future[Conversation[Any]]


class _Replies:
    """Replies on their way from the teacher's thread to that of the conversations, which is woken for several of them,
    or for one conversation that can begin: that has cost more than to wake a thread.

    Attributes:
        awaited: replies and beginnings that were not taken yet.
    """

    def __init__(self) -> None:
        self.awaited = 0
        self._arrived: deque[tuple[_Talk[Any], _Reply]] = deque()
        self._enough, self._wanted = threading.Event(), 1 << 60
        self._has_beginnings = False

    def arrive(self, talk: "_Talk[Any]", result: _Reply) -> None:
        """Called in the teacher's thread, or in one that has prepared the conversation."""
        self._arrived.append((talk, result))
        if isinstance(result, Future):
            self._has_beginnings = True
            self._enough.set()
        elif len(self._arrived) >= self._wanted:
            self._enough.set()

    def take(self, wanted: int, longest_s: float = _LONGEST_SLEEP_S) -> None:
        """Wait for so many replies, though not long, and go on with the conversations of those that are there."""
        self._wait(wanted, longest_s)
        self._has_beginnings = False
        while self._arrived:
            talk, result = self._arrived.popleft()
            self.awaited -= 1
            talk.reply(result)

    def wait_for_all(self) -> None:
        while len(self._arrived) < self.awaited:
            self._wait(self.awaited, _LONGEST_SLEEP_S)

    def _wait(self, wanted: int, longest_s: float) -> None:
        self._enough.clear()
        self._wanted = wanted
        if len(self._arrived) < wanted and not self._has_beginnings:
            self._enough.wait(longest_s)
        self._wanted = 1 << 60
