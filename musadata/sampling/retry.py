"""Buffered Dynamic Retry (MusaCoder, arXiv 2606.04847): tasks whose answers all failed come back as repair tasks.

The paper draws from the buffer during training. Here a round goes over a corpus that was made: what waits in the buffer
is drawn, tried again, and leaves on success or after some tries. A buffer belongs to a shard, and is a pure function of
the shard's conversations, so that it is the same with any number of workers.
"""

import hashlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from musadata.config import SamplingConfig
from musadata.records import Annotation, ErrorClass, Task
from musadata.rows import content_id
from musadata.sampling.assembly import Conversation, candidate_id
from musadata.sampling.rollout import Ask, Attempt, Judge, repair_prompt, retry_rollout
from musadata.storage.shards import Shard
from musadata.training_rows import RetryRow, RetryState
from musadata.verifier.reward import reward

FIRST_SAMPLE = 10_000  # the number of a conversation in the first round: above all samples and programs of people


@dataclass(frozen=True)
class Failure:
    """A task whose answers all failed, with the one that got furthest. `tries`: rounds in which it came back."""

    task: Task
    annotation: Annotation
    attempt: Attempt
    tries: int = 0


def find_failure(task: Task, annotation: Annotation, conversations: Sequence[Conversation]) -> Failure | None:
    """The failure of a task's conversations; None if one answer passed, or no answer was judged."""
    attempts = [attempt for conversation in conversations for attempt in conversation]
    if any(attempt.verdict.accepted for attempt in attempts):
        return None
    judged = [one for one in attempts if not one.verdict.is_undecided]
    return Failure(task, annotation, max(judged, key=_progress)) if judged else None


def _progress(attempt: Attempt) -> float:
    return reward(attempt.verdict.error_class, attempt.verdict.test_share)


def retry(failure: Failure, number: int, turns: int, seed: int, ask: Ask, judge: Judge) -> list[Attempt]:
    """The conversation of a failure in a round, from 1; see `retry_rollout`."""
    task, annotation, attempt = failure.task, failure.annotation, failure.attempt
    return retry_rollout(task, annotation, attempt, FIRST_SAMPLE + number, turns, seed, ask, judge)


class RetryBuffer:
    """The tasks of a shard that wait for a retry, first in first out, and what became of those that left."""

    def __init__(self, config: SamplingConfig, seed: int, shard: Shard):
        self._config, self._seed = config, seed
        self._size = config.retry_size // shard.count + (shard.index < config.retry_size % shard.count)
        self._waiting: deque[Failure] = deque()
        self._left: list[tuple[Failure, RetryState]] = []

    def add(self, failure: Failure) -> None:
        """Let a failure wait; the one that has waited longest leaves if there is no room."""
        self._waiting.append(failure)
        if len(self._waiting) > self._size:
            self._left.append((self._waiting.popleft(), RetryState.PUSHED_OUT))

    def draw(self, number: int) -> list[Failure]:
        """The failures that come back in a round, from 1, in the order in which they came."""
        return [one for one in self._waiting if self._is_drawn(one, number)]

    def _is_drawn(self, failure: Failure, number: int) -> bool:
        digest = hashlib.sha256(f"retry:{self._seed}:{failure.task.task_id}:{number}".encode()).digest()
        return int.from_bytes(digest[:7]) < self._config.retry_probability * 2**56

    def settle(self, failure: Failure, attempts: Sequence[Attempt]) -> None:
        """What came of a retry: the failure leaves if it was solved or tried often enough, or else waits again, with
        the answer that got furthest. A retry that could not be judged does not count."""
        self._waiting.remove(failure)
        new = [one for one in attempts[1:] if not one.verdict.is_undecided]
        best = max(reversed([failure.attempt, *new]), key=_progress)  # of equal ones the latest
        tried = replace(failure, attempt=best, tries=failure.tries + bool(new))
        if attempts[-1].verdict.accepted:
            self._left.append((replace(tried, attempt=failure.attempt), RetryState.SOLVED))
        elif tried.tries >= self._config.retry_tries:
            self._left.append((tried, RetryState.GIVEN_UP))
        else:
            self.add(tried)

    def give_up(self, failure: Failure) -> None:
        """Let a failure go to which the teacher has no answer."""
        self._waiting.remove(failure)
        self._left.append((failure, RetryState.GIVEN_UP))

    def rows(self, teacher: str) -> list[RetryRow]:
        """What has left, in that order, and what waits."""
        waiting = [(failure, RetryState.WAITING) for failure in self._waiting]
        return [_row(failure, state, teacher) for failure, state in (*self._left, *waiting)]


def _row(failure: Failure, state: RetryState, teacher: str) -> RetryRow:
    task, verdict = failure.task, failure.attempt.verdict
    return RetryRow(
        retry_id=content_id("retry", task.task_id),
        **task.columns(),
        candidate_id=candidate_id(task, failure.attempt, teacher),
        state=state,
        tries=failure.tries,
        prompt=repair_prompt(failure.attempt),
        error_class=verdict.error_class or ErrorClass.INFRA,
        feedback=verdict.feedback,
        operator_family=task.operator_family,
    )
