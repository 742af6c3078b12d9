"""One candidate's way through its process: the trusted side's answers to what that process asks.

It asks for leave to make its context, to compile, for the plan, for the device, to be judged, and then, a turn at a
time, what to do to be timed.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from musadata.config import VerifierConfig
from musadata.records import ErrorClass, Finding, VerifyStage
from musadata.sandbox import Outcome
from musadata.verifier.backends.protocol import Backend, Built
from musadata.verifier.compilation.sources import CandidateSources
from musadata.verifier.rules import catalogue as rules
from musadata.verifier.rules.native.native_code import check_native_code
from musadata.verifier.trusted.candidate_report import read_report
from musadata.verifier.trusted.device_lock import DeviceLock, DeviceSeat
from musadata.verifier.trusted.expectation import Expectation
from musadata.verifier.trusted.judge import Judgement, judge
from musadata.verifier.trusted.plan import Call, plan_calls
from musadata.verifier.trusted.timing import Driver, Measured, timed_sets

_MOST_COMPILATIONS = 16
_UNSEEN_CALLS = 100


@dataclass
class Compilations:
    """What the trusted side saw of one candidate's compilations, whatever the candidate makes of it."""

    backend: Backend
    strict: bool
    findings: list[Finding] = field(default_factory=list)
    errors: list[Built] = field(default_factory=list)
    count: int = 0

    def serve(self, question: dict[str, Any]) -> dict[str, Any]:
        """Answer a child's request to compile."""
        if not isinstance(question, dict) or "compile" not in question:
            return {"error": "not a request to compile"}
        self.count += 1
        if self.count > _MOST_COMPILATIONS:
            self.errors.append(Built(error=f"The candidate compiles more than {_MOST_COMPILATIONS} extensions."))
            return {"error": "too many extensions"}
        try:
            sources = CandidateSources.from_dict(question["compile"])
        except ValueError as error:
            self.errors.append(Built(error=f"The sources cannot be read: {error}."))
            return {"error": "not a request to compile"}
        illegal = check_native_code(sources.texts(), self.strict)
        if illegal:
            self.findings += illegal
            return {"error": "the sources are not allowed"}
        built = self.backend.compile(sources)
        if built.error:
            self.errors.append(built)
            return {"error": built.error}
        return {"path": built.path}

    def judge(self, outcome: Outcome) -> Judgement | None:
        """What compiling alone decides, whether or not the candidate caught the exception."""
        if self.findings:
            return rejected(VerifyStage.LEGALITY, ErrorClass.CHEATING, self.findings)
        for built in self.errors:
            if built.unsupported:
                finding = rules.COMPILE_UNSUPPORTED.finding(built.error)
                return rejected(VerifyStage.COMPILE, ErrorClass.INFRA, [finding])
            return rejected(VerifyStage.COMPILE, ErrorClass.COMPILE, [rules.COMPILE_ERROR.worded(built.error)])
        if self.count == 0 and outcome.ok and "error" not in _facts(outcome):
            finding = rules.LEGALITY_NO_KERNEL.finding("CUDA source")
            return rejected(VerifyStage.LEGALITY, ErrorClass.CHEATING, [finding])
        return None


def _facts(outcome: Outcome) -> dict[str, Any]:
    return outcome.value if isinstance(outcome.value, dict) else {}


def rejected(stage: VerifyStage, error_class: ErrorClass, findings: Sequence[Finding]) -> Judgement:
    return Judgement(stage, error_class, 0.0, tuple(findings))


def describe_plan(
    expectation: Expectation, calls: Sequence[Call], seed: int, timed: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The answer to a child that asks for its plan; see `execute.run_candidate`."""
    plan = {
        "init": expectation.init_arguments,
        "parameters": list(expectation.parameters),
        "seed": seed,
        "sets": [
            {"literals": list(item.literals), "shape": item.plan.shape, "handed_on": list(item.handed_on)}
            for item in expectation.sets
        ],
        "calls": [call.as_dict() for call in calls],
        "timed": timed,
    }
    inputs = {f"inputs{index}": item.inputs for index, item in enumerate(expectation.sets)}
    return {"plan": plan, "state": expectation.state, **inputs}


# Starts to time a judged candidate.
StartTiming = Callable[[Expectation], Driver]


class Opinion(Protocol):
    """What somebody else sees of a candidate with which nothing is wrong so far; see `crosscheck`."""

    @property
    def is_there(self) -> bool: ...

    def reconsider(self, judgement: Judgement) -> Judgement: ...


class CandidateSession:
    """Serves one candidate's process. `timing` is None where times mean nothing.

    `lock` is shared while its context is made and while it is executed, and held alone while it is timed. `seat` is its
    place on the device, from before its context is made until its process ends; `contexts` bounds how many make theirs
    at a time.
    """

    def __init__(
        self,
        config: VerifierConfig,
        compilations: Compilations,
        expected: "Future[Expectation]",
        seed: int,
        lock: DeviceLock | None,
        seat: DeviceSeat | None,
        timing: StartTiming | None,
        contexts: threading.Semaphore,
        opinion: Opinion | None = None,
    ):
        self._config = config
        self._compilations = compilations
        self._expected = expected
        self._seed = seed
        self._lock = lock
        self._seat = seat
        self._timing = timing
        self._contexts: threading.Semaphore | None = contexts  # None once it has had leave
        self._leave: threading.Semaphore | None = None
        self._opinion = opinion
        self._judgement: Judgement | None = None
        self._driver: Driver | None = None

    def serve(self, question: dict[str, Any]) -> dict[str, Any]:
        """The answer to one question. The child may be hostile: it may ask anything, in any order."""
        self.leave()
        if not isinstance(question, dict):
            return {"error": "not a question"}
        if "context" in question:
            if question["context"] == "wanted" and self._contexts is not None:
                if self._seat is not None:
                    self._seat.take()
                self._contexts.acquire()
                self._leave, self._contexts = self._contexts, None
                if self._lock is not None:  # who is timed beside it would wait for the driver
                    self._lock.share()
            return {}
        if "plan" in question:
            return self._plan(self._expected.result())
        if "enter" in question:
            if self._lock is not None:
                self._lock.share()
            return {}
        if "judge" in question and self._timing is not None and self._judgement is None:
            return self._judge(question, self._timing)
        if self._driver is not None and "compile" not in question:
            return self._time(self._driver, question)
        return self._compilations.serve(question)

    def leave(self) -> None:
        """Its process has made its context, or has ended."""
        if self._leave is not None:
            if self._lock is not None:
                self._lock.release()
            self._leave.release()
            self._leave = None

    def _plan(self, expectation: Expectation) -> dict[str, Any]:
        timed = self._plan_timing(expectation) if self._timing else None
        return describe_plan(expectation, self._calls(expectation), self._seed, timed)

    def _plan_timing(self, expectation: Expectation) -> dict[str, Any]:
        return {"sets": timed_sets(expectation), "flush_bytes": self._compilations.backend.flush_bytes}

    def _calls(self, expectation: Expectation) -> list[Call]:
        shapes = [item.plan.shape for item in expectation.sets]
        return plan_calls(shapes, self._compilations.backend.checks, _UNSEEN_CALLS)

    def _judge(self, question: dict[str, Any], timing: StartTiming) -> dict[str, Any]:
        if self._lock is not None:
            self._lock.release()
        files = {name: value for name, value in question.items() if isinstance(value, bytes)}
        self._judgement = self._judge_outcome(Outcome("ok", question["judge"], files=files))
        if self._judgement.error_class is None:
            if self._lock is not None:
                self._lock.take_alone()
            if self._opinion is not None and self._opinion.is_there:  # else `conclude` waits for it
                self._judgement = self._opinion.reconsider(self._judgement)
        if self._judgement.error_class is not None:
            if self._lock is not None:
                self._lock.release()
            return {"stop": True}
        self._driver = timing(self._expected.result())
        return {"time": True}

    def _time(self, driver: Driver, question: dict[str, Any]) -> dict[str, Any]:
        """The driver's next command. The end of a process that has been timed takes a third of all that it has the
        device for, so the next one does not wait for it."""
        command = driver.serve(question)
        if driver.measured is not None and self._lock is not None:
            self._lock.release()
        return command

    def _judge_outcome(self, outcome: Outcome) -> Judgement:
        expectation = self._expected.result()
        early = self._compilations.judge(outcome)
        if early:
            return early
        calls = self._calls(expectation)
        return judge(outcome, read_report(outcome, calls), calls, expectation, self._config.strict)

    def conclude(self, outcome: Outcome) -> Judgement:
        """The judgement, now that the process has ended.

        Raises:
            BadReference: the reference does not run.
        """
        if self._compilations.findings:  # whatever the reference does
            return rejected(VerifyStage.LEGALITY, ErrorClass.CHEATING, self._compilations.findings)
        self._expected.result()
        judgement = self._judgement or self._judge_outcome(outcome)
        if self._opinion is not None and judgement.error_class is None:
            judgement = self._opinion.reconsider(judgement)
        if self._judgement is None or judgement.error_class is not None:
            return judgement
        return _with_times(judgement, outcome, self._driver.measured if self._driver else None)


def _with_times(judgement: Judgement, outcome: Outcome, measured: Measured | None) -> Judgement:
    """What timing adds to a judgement that found nothing."""
    found = measured or Measured()
    tampered = _facts(outcome).get("tampered")
    if not outcome.ok:
        found.blame(rules.RULES[f"timing.{outcome.status}"], outcome.message or outcome.status)
    elif tampered:
        found.blame(rules.RUNTIME_TAMPERED, str(tampered[0] if isinstance(tampered, list) else tampered)[:200])
    elif measured is None:
        found.blame(rules.TIMING_EXCEPTION, "its process ends before it has been timed.")
    return replace(
        judgement,
        stage=VerifyStage.TIME,
        error_class=found.error_class,
        test_share=judgement.test_share if found.error_class is None else 0.0,
        findings=tuple(found.findings),
        timings=tuple(found.timings) if found.error_class is None else (),
        own_share=found.own_share,
    )
