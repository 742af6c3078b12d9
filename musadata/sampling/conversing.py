"""Conversations with a teacher: one at a time, or many at once in one thread.

To hand a request to the event loop costs a waiting thread 80 µs of CPU, half of what sending it does. So a stage that
only asks holds its conversations in one thread, which wakes when a number of replies has come.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Generic

from musadata.sampling.rollout import Ask
from musadata.teacher.protocol import Answer, CannotAnswer, Conversation, Done, Request, Result

# The answer if it is known; else None, and the last argument is called with what comes of the request, in any thread.
AskLater = Callable[[Request, Done], Answer | None]

WINDOW = 4  # times as many conversations as may be under way are begun before the first one has ended
_LONGEST_SLEEP_S = 0.2  # while fewer replies come than were waited for


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


def hold_all(conversations: Iterable[Conversation[Result]], ask: AskLater, at_once: int) -> Iterator[Result]:
    """What comes of each conversation, in order; about `at_once` wait for an answer.

    Conversations are drawn as they are needed. However this ends, all requests that were sent have ended.
    """
    begun, replies = deque[_Talk[Result]](), _Replies()
    some = max(1, at_once // 3)  # replies are taken at once, while `at_once` others keep the server busy
    try:
        for conversation in conversations:
            begun.append(talk := _Talk(conversation, ask, replies))
            talk.go_on(partial(next, conversation))
            while replies.awaited >= at_once + some or (len(begun) >= WINDOW * at_once and not begun[0].has_ended):
                replies.take(some)
            while begun and begun[0].has_ended:
                yield begun.popleft().result
        while begun:
            while not begun[0].has_ended:
                replies.take(min(some, max(1, replies.awaited // 2)))
            yield begun.popleft().result
    finally:
        replies.wait_for_all()


class _Talk(Generic[Result]):
    """A conversation that is under way."""

    result: Result

    def __init__(self, conversation: Conversation[Result], ask: AskLater, replies: "_Replies"):
        self._conversation, self._ask, self._replies = conversation, ask, replies
        self.has_ended = False

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

    def reply(self, result: Answer | BaseException) -> None:
        """Go on with what came of a request.

        Raises:
            BaseException: that every other request would end with.
        """
        if isinstance(result, Answer):
            self.go_on(partial(self._conversation.send, result))
        elif isinstance(result, CannotAnswer):
            self.go_on(partial(self._conversation.throw, result))
        else:
            raise result


class _Replies:
    """Replies on their way from the teacher's thread to that of the conversations, which is woken for several of them.

    Attributes:
        awaited: requests whose replies were not taken yet.
    """

    def __init__(self) -> None:
        self.awaited = 0
        self._arrived: deque[tuple[_Talk[Any], Answer | BaseException]] = deque()
        self._enough, self._wanted = threading.Event(), 1 << 60

    def arrive(self, talk: "_Talk[Any]", result: Answer | BaseException) -> None:
        """Called in the teacher's thread."""
        self._arrived.append((talk, result))
        if len(self._arrived) >= self._wanted:
            self._enough.set()

    def take(self, wanted: int) -> None:
        """Wait for so many replies, though not long, and go on with the conversations of those that are there."""
        self._wait(wanted)
        while self._arrived:
            talk, result = self._arrived.popleft()
            self.awaited -= 1
            talk.reply(result)

    def wait_for_all(self) -> None:
        while len(self._arrived) < self.awaited:
            self._wait(self.awaited)

    def _wait(self, wanted: int) -> None:
        self._enough.clear()
        self._wanted = wanted
        if len(self._arrived) < wanted:
            self._enough.wait(_LONGEST_SLEEP_S)
        self._wanted = 1 << 60
