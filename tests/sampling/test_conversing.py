"""Conversations with a teacher, many at once in one thread."""

import dataclasses
import json
import random
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musadata.config import TeacherConfig, TeacherType
from musadata.errors import MusadataError
from musadata.rows import content_id
from musadata.sampling.conversing import hold, hold_all
from musadata.sampling.request_cache import RequestCache
from musadata.teacher.chat import BodyWriter, body_of
from musadata.teacher.protocol import Answer, CannotAnswer, RequestFailed, RequestKind
from musadata.training_rows import ChatMessage
from tests.teacher.test_openai import question


class Server:
    """Answers from a thread of its own, in any order; some requests it knows, some fail."""

    def __init__(self, seed: int = 0, most: int = 1 << 30):
        self._draw, self._most = random.Random(seed), most
        self._waiting, self._changed, self._ended = deque(), threading.Condition(), False
        self.asked, self.most_at_once = [], 0
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def ask(self, request, done):
        text = request.messages[-1].content
        if text.endswith("known"):
            return Answer(f"about {text}")
        if text.endswith("refused"):
            raise CannotAnswer(text)
        with self._changed:
            self.asked.append(text)
            self._waiting.append((text, done))
            self.most_at_once = max(self.most_at_once, len(self._waiting))
            self._changed.notify()
        return None

    def _work(self):
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ended, 5)
                if not self._waiting:
                    return
                some = list(self._waiting)
                at = self._draw.randrange(len(some))
                text, done = some[at]
                del self._waiting[at]
            if text.endswith("fails"):
                done(RequestFailed(text))
            elif text.endswith("stops"):
                done(MusadataError("no server"))
            else:
                done(Answer(f"about {text}"))

    def close(self):
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._thread.join()


def conversation(*texts):
    """Asks one after the other; what was said."""
    said = []
    for text in texts:
        try:
            said.append((yield question(text)).text)
        except CannotAnswer as refusal:
            said.append(f"no: {refusal}")
    return said


def expected(*texts):
    return [f"no: {text}" if text.endswith(("refused", "fails")) else f"about {text}" for text in texts]


TALKS = st.lists(st.lists(st.sampled_from(["a", "b known", "c refused", "d fails"]), max_size=3), max_size=40)


def begin(texts):
    return conversation(*texts)


@given(TALKS, st.integers(1, 9), st.integers(0, 5), st.booleans())
@settings(max_examples=30, deadline=None)
def test_every_conversation_comes_to_its_end_in_order(talks, at_once, seed, in_pool):
    server = Server(seed)
    with ThreadPoolExecutor(2) as pool:
        found = list(hold_all(begin, talks, server.ask, at_once, pool if in_pool else None))
    server.close()
    assert found == [expected(*talk) for talk in talks]
    assert server.most_at_once <= at_once + max(1, at_once // 3)
    one = Server(seed)

    def ask(request):
        done: deque = deque()
        answer = one.ask(request, done.append)
        while answer is None and not done:
            pass
        if isinstance(result := answer or done[0], Exception):
            raise result
        return result

    assert [hold(conversation(*talk), ask) for talk in talks[:3]] == found[:3]
    one.close()


def test_conversations_are_begun_as_they_are_needed():
    server, begun = Server(), []

    def talks():
        for number in range(1000):
            begun.append(number)
            yield ["a"]

    results = hold_all(begin, talks(), server.ask, 3)
    next(results)
    assert len(begun) <= 12
    results.close()
    assert len(server.asked) <= 16
    server.close()


def test_what_ends_all_requests_ends_the_conversations_after_those_under_way():
    server, ended = Server(), []

    def ask(request, done):
        return server.ask(request, lambda result: (ended.append(result), done(result)))

    talks = [[text] for text in ("a", "b", "c stops", "d", "e", "f")]
    with pytest.raises(MusadataError, match="no server"):
        list(hold_all(begin, talks, ask, 9))
    assert len(ended) == len(server.asked)
    server.close()


def test_a_conversation_that_fails_of_itself_ends_the_others():
    def broken():
        yield question("a")
        raise ZeroDivisionError

    server = Server()
    with pytest.raises(ZeroDivisionError):
        list(hold_all(lambda talk: talk, [conversation("a"), broken(), conversation("b")], server.ask, 4))
    server.close()


def test_conversations_go_on_while_others_are_prepared():
    """The second request of the first one does not wait until the last one is prepared, nor for an earlier one."""
    server, second = Server(), threading.Event()

    def prepare(texts):
        if texts == ["slow"]:
            assert second.wait(5)
        return conversation(*texts)

    def ask(request, done):
        if request.messages[-1].content == "second":
            second.set()
        return server.ask(request, done)

    talks = [["slow"], ["first", "second"], ["slow"]]
    with ThreadPoolExecutor(3) as pool:
        found = list(hold_all(prepare, talks, ask, 9, pool))
    server.close()
    assert found == [expected(*talk) for talk in talks]


def test_what_is_not_prepared_yet_when_all_ends_is_never_prepared():
    server, prepared = Server(), []

    def prepare(text):
        prepared.append(text)
        if text == "broken":
            raise ZeroDivisionError
        time.sleep(0.1)
        return conversation(text)

    with ThreadPoolExecutor(1) as pool, pytest.raises(ZeroDivisionError):
        list(hold_all(prepare, ["broken", *map(str, range(20))], server.ask, 30, pool))
    server.close()
    assert len(prepared) <= 3


TEXT = st.text(st.characters(), max_size=20)


@given(st.lists(st.tuples(st.sampled_from(["user", "system"]), TEXT), min_size=1, max_size=4), st.booleans(), TEXT)
@settings(max_examples=60, deadline=None)
def test_what_is_encoded_once_is_what_was_encoded_each_time(messages, structured, extra):
    """The keys of paid answers stay the same, and the body is that of `body_of`."""
    request = dataclasses.replace(
        question(""),
        kind=RequestKind.REASON if len(messages) % 2 else RequestKind.GENERATE,
        messages=tuple(ChatMessage(role, text) for role, text in messages),
    )
    for config in (
        TeacherConfig(TeacherType.OPENAI, model=extra, send_seed=structured),
        TeacherConfig(TeacherType.OPENAI, model="m", extra_body={"seed": 3, "n": extra, "top_p": None}),
    ):
        writer = BodyWriter(config)
        for _ in range(2):
            assert json.loads(writer.write(request, structured)) == body_of(request, config, structured)
    asked = request.kind, request.messages, request.task.task_id, request.sample, request.turn, request.seed
    key = RequestCache(None, None, "", "")._answer_key(extra, request)
    assert key == content_id("answer", extra, *asked)
