"""Rewards of answers, many at once, within time limits.

Compilers, candidates and references run in processes of the verifier's; the threads here only wait for them. An answer
that the machine kept from a verdict is judged again, and then has no reward at all: nothing must be learnt from it.
"""

import json
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Self

from musadata.config import SamplingConfig, VerifierConfig
from musadata.corpus.views import shape_sets_of, task_of
from musadata.errors import MusadataError, Outage, short_trace
from musadata.records import InputSpec, Task, Verdict
from musadata.sandbox import Cancellation
from musadata.serving.client import RemoteVerifier
from musadata.training_config import OnOutage, RewardsConfig
from musadata.verifier import Verifier
from musadata.verifier.reward import RewardParts, reward_parts

SERVICE = "MUSADATA_SERVICE"  # the environment variable with the address of a service
_REQUESTS_AT_ONCE = 64  # to a service
_TRIES = 2  # of an answer, each with a verifier that was opened anew after trouble
_LOOK_SECONDS = 0.5  # how often answers that have begun are looked at
_GRACE_SECONDS = 30.0  # in which cancelled work must end, or its verifier is closed


@dataclass(frozen=True)
class Score:
    """What an answer is worth.

    Attributes:
        reward: the sum of `parts`; None without a verdict.
        parts: the stages of the reward.
        verdict: None if the machine, and not the answer, was at fault.
        why: why there is no reward.
    """

    reward: float | None
    parts: RewardParts = field(default_factory=RewardParts)
    verdict: Verdict | None = None
    why: str = ""

    @property
    def accepted(self) -> bool:
        return self.verdict is not None and self.verdict.accepted


@dataclass
class _Work:
    """An answer that is to be judged. `begun`: when its turn came; `waiting`: whether somebody still waits for it."""

    task: Task
    shape_sets: Sequence[Sequence[InputSpec]]
    answer: str
    begun: float | None = None
    waiting: Cancellation = field(default_factory=Cancellation)


class RewardFunction:
    """Scores answers from as many threads as you like; opens a verifier, or connects to a service, for the first one.

    Close it, or use it as a context manager.
    """

    def __init__(
        self,
        verifier: VerifierConfig = VerifierConfig(),  # noqa: B008 (frozen)
        sampling: SamplingConfig = SamplingConfig(),  # noqa: B008
        limits: RewardsConfig = RewardsConfig(),  # noqa: B008
    ):
        self._config, self._sampling, self._limits = replace(verifier, policy=limits.policy), sampling, limits
        self._service = os.environ.get(SERVICE, "") or limits.service
        here = max(1, len(os.sched_getaffinity(0)) // 2)
        at_once = limits.at_once or (_REQUESTS_AT_ONCE if self._service else here)
        self._threads = ThreadPoolExecutor(at_once, "reward")
        self._lock = threading.Lock()
        self._verifier: Verifier | RemoteVerifier | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all work and all processes."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._discard(self._verifier)

    def score(self, answers: Sequence[str], truths: Sequence[Any]) -> list[Score]:
        """The score of each answer against its ground truth, in order; equal ones are judged once.

        Raises:
            MusadataError: a ground truth is none, the verifier's backend is not there, or the service refuses.
            Outage: the machine kept an answer from a verdict, and `rewards.outage` says `raise`.
        """
        keys = [(_text(answer), truth_of(truth)) for answer, truth in zip(answers, truths, strict=True)]
        works = {key: _Work(*_read_truth(key[1]), key[0]) for key in keys}
        scores = self._judge_all(works)
        if self._limits.outage is OnOutage.RAISE:
            for score in scores.values():
                if score.verdict is None:
                    raise Outage(score.why, where="reward", remedy="see to the service or the machine, and go on")
        return [scores[key] for key in keys]

    def _judge_all(self, works: dict[tuple[str, str], _Work]) -> dict[tuple[str, str], Score]:
        end = time.monotonic() + self._limits.batch_seconds
        waiting = {self._threads.submit(self._judge, work): key for key, work in works.items()}
        scores: dict[tuple[str, str], Score] = {}
        try:
            while waiting:
                done, _ = wait(waiting, _LOOK_SECONDS, FIRST_COMPLETED)
                late = [one for one, key in waiting.items() if one not in done and self._is_late(works[key], end)]
                scores |= {waiting.pop(one): _result(one) for one in done}
                for one in late:
                    key = waiting.pop(one)
                    scores[key] = self._give_up(works[key], one)
        finally:
            for one, key in waiting.items():  # there is no verifier
                works[key].waiting.cancel()
                one.cancel()
        return scores

    def _is_late(self, work: _Work, end: float) -> bool:
        now = time.monotonic()
        return now > end or (work.begun is not None and now > work.begun + self._limits.seconds)

    def _give_up(self, work: _Work, future: "Future[Score]") -> Score:
        """No score; if the work has begun, its call of the sandbox ends. Others go on."""
        work.waiting.cancel()
        if not future.cancel():
            timer = threading.Timer(_GRACE_SECONDS, self._end, (future, self._verifier))
            timer.daemon = True
            timer.start()
        return Score(None, why="took longer than it may")

    def _end(self, future: "Future[Score]", verifier: Verifier | RemoteVerifier | None) -> None:
        """Close a verifier in which cancelled work does not end, so that its thread is free again."""
        if not future.done():
            self._discard(verifier)

    def _judge(self, work: _Work) -> Score:
        work.begun, why = time.monotonic(), ""
        with work.waiting.applies():
            for _ in range(_TRIES):
                verifier = None
                try:
                    work.waiting.check()
                    verifier = self._open()
                    return self._score(verifier.verify(work.task, work.answer, work.shape_sets))
                except Outage as outage:  # says nothing about the answer
                    why = str(outage)
                    if work.waiting.is_cancelled:
                        break
                except MusadataError:
                    raise
                except Exception as error:  # neither does a mistake of ours
                    why = short_trace(error)
                self._discard(verifier)
        return Score(None, why=why)

    def _score(self, verdict: Verdict) -> Score:
        if verdict.is_undecided:
            return Score(None, verdict=verdict, why=verdict.feedback)
        parts = reward_parts(verdict.error_class, verdict.test_share, verdict.speedup, self._sampling)
        return Score(parts.total, parts, verdict)

    def _open(self) -> Verifier | RemoteVerifier:
        with self._lock:
            if self._verifier is None:
                self._verifier = self._make().__enter__()
            return self._verifier

    def _make(self) -> Verifier | RemoteVerifier:
        if self._service:
            return RemoteVerifier(self._service, self._limits.policy, self._limits.seconds)
        return Verifier(self._config, reads_many=True)

    def _discard(self, verifier: Verifier | RemoteVerifier | None) -> None:
        """Close a verifier without waiting for it; the next answer opens another."""
        with self._lock:
            if verifier is None or verifier is not self._verifier:
                return
            self._verifier = None
        threading.Thread(target=verifier.__exit__, args=(None, None, None), daemon=True).start()


def _result(future: "Future[Score]") -> Score:
    """The score of work that is done.

    Raises:
        MusadataError: the verifier could not be opened.
    """
    try:
        return future.result()
    except CancelledError:
        return Score(None, why="was closed before its turn")


def truth_of(value: Any) -> str:
    """The ground truth of a row, from its column `reward_model` or from what is in that.

    Raises:
        MusadataError: it is neither.
    """
    found = value.get("ground_truth") if isinstance(value, dict) else value
    if isinstance(found, str) and found:
        return found
    remedy = "give the reward function the column reward_model of rl, or its ground_truth"
    raise MusadataError(f"is {type(value).__name__}, and no ground truth", where="reward", remedy=remedy)


@lru_cache(maxsize=256)  # a group of answers has one
def _read_truth(truth: str) -> tuple[Task, Sequence[Sequence[InputSpec]]]:
    try:
        return task_of(truth), shape_sets_of(truth)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        remedy = "give the reward function the column reward_model of rl, or its ground_truth"
        shown = f"is no ground truth of musadata ({truth[:40]!r})"
        raise MusadataError(shown, where="reward", remedy=remedy) from error


def read_messages(answer: Any) -> str:
    """The text of an answer that a trainer gives as text or as messages: of these, the last one."""
    if isinstance(answer, (list, tuple)):
        answer = answer[-1] if answer else ""
    return _text(answer.get("content") if isinstance(answer, dict) else answer)


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, (dict, list)) else "" if value is None else str(value)
