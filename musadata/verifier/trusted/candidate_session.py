"""One candidate's way through its process: the trusted side's answers to what that process asks.

It asks for leave to make its context, to compile, for the plan, for the device, to be judged, and then, a turn at a
time, what to do to be timed.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from musadata.config import VerifierConfig
from musadata.records import Finding, InputSpec, VerifyStage
from musadata.sandbox import Limits, Outcome, Sandbox
from musadata.verifier.backends.protocol import Backend
from musadata.verifier.compilation.built import Built
from musadata.verifier.protocol import measure_messages as measures
from musadata.verifier.protocol import messages
from musadata.verifier.protocol.entry_points import RUN_CANDIDATE
from musadata.verifier.protocol.message_encoding import serve_candidate
from musadata.verifier.protocol.variants import MAY_BE_REFUSED, SWALLOWED
from musadata.verifier.rules import catalogue as rules
from musadata.verifier.rules.native.native_code import check_native_code
from musadata.verifier.trusted.baseline_process import BaselineFailed
from musadata.verifier.trusted.candidate_report import read_crash, read_facts, read_report
from musadata.verifier.trusted.device_lock import DeviceLock, DeviceSeats
from musadata.verifier.trusted.expectation import Expectation
from musadata.verifier.trusted.judge import Judgement, add_crosscheck, in_order, judge
from musadata.verifier.trusted.plan import plan_calls
from musadata.verifier.trusted.timing import Measured, timed_sets
from musadata.verifier.trusted.timing_driver import Driver

_MOST_COMPILATIONS = 16
_UNSEEN_CALLS = 100

# Starts to time a judged candidate, and takes the lock on the device for it.
StartTiming = Callable[[Expectation, DeviceLock], Driver]


@dataclass
class Compilations:
    """What the trusted side saw of one candidate's compilations, whatever the candidate makes of it.

    `called`: see `check_native_code`. `findings`: about its sources, those of its Python among them.
    """

    backend: Backend
    called: frozenset[str] | None = None
    findings: list[Finding] = field(default_factory=list)
    errors: list[Built] = field(default_factory=list)
    count: int = 0

    def serve(self, question: object) -> messages.Compiled | messages.Refused:
        """Answer a child's request to compile."""
        if not isinstance(question, messages.CompileRequest):
            return messages.Refused("not a request to compile")
        self.count += 1
        if self.count > _MOST_COMPILATIONS:
            self.errors.append(Built(error=f"The candidate compiles more than {_MOST_COMPILATIONS} extensions."))
            return messages.Refused("too many extensions")
        found = check_native_code(question.sources.texts(), self.called)
        self.findings += found
        if any(rules.RULES[one.rule].unsafe for one in found):
            return messages.Refused("the sources are not allowed")
        built = self.backend.compile(question.sources)
        if built.error:
            self.errors.append(built)
            return messages.Refused(built.error)
        return messages.Compiled(built.path)

    def judge(self, failed: bool) -> Judgement | None:
        """What keeps the candidate from being run; else None, and `findings` has what was seen. `failed`: its process
        ended before it could compile, or an exception did. Without that, what does not compile keeps nothing: the
        program goes on with something else."""
        if any(rules.RULES[one.rule].unsafe for one in self.findings):
            return Judgement(VerifyStage.LEGALITY, in_order(self.findings))
        errors = list(map(_compile_finding, self.errors[:1]))
        if errors and (failed or self.errors[0].unsupported):
            return Judgement(VerifyStage.COMPILE, in_order([*self.findings, *errors]))
        self.findings += [replace(error, condition=SWALLOWED) for error in errors]
        if self.count == 0 and not failed:
            self.findings.append(rules.LEGALITY_NO_KERNEL.finding("CUDA source"))
        return None


def _compile_finding(built: Built) -> Finding:
    if built.unsupported:
        return rules.COMPILE_UNSUPPORTED.finding(built.error)
    return rules.COMPILE_ERROR.worded(built.error)


def describe_plan(
    expectation: Expectation,
    calls: Sequence[messages.Call],
    seed: int,
    timed: messages.TimedSets | None = None,
    reserved: tuple[InputSpec, ...] = (),
) -> messages.Plan:
    """The answer to a process that asks for its plan; see `execute.run_candidate`."""
    sets = expectation.sets
    return messages.Plan(
        init=expectation.init_arguments,
        parameters=expectation.parameters,
        seed=seed,
        sets=tuple(
            messages.PlannedSet(item.literals, item.plan.shape, item.handed_on, item.init, item.updated, item.loaded)
            for item in sets
        ),
        calls=tuple(calls),
        timed=timed,
        state=b"" if expectation.as_constructed else expectation.state,
        inputs=messages.number_blobs([item.inputs for item in sets]),
        states={str(index): item.state for index, item in enumerate(sets) if item.state},
        reserved=reserved,
    )


def run_untimed(
    sandbox: Sandbox, compilations: Compilations, program: str, plan: Callable[[], messages.Plan], limits: Limits
) -> Outcome:
    """What comes of a candidate's calls where nobody waits for the device."""

    def serve(question: object) -> object:
        if isinstance(question, messages.RequestPlan):
            return plan()
        waits = isinstance(question, (messages.RequestContext, messages.ContextMade, messages.RequestDevice))
        return messages.Proceed() if waits else compilations.serve(question)

    child = compilations.backend.child
    return sandbox.call(RUN_CANDIDATE, program, child, limits=limits, serve=serve_candidate(serve))


@dataclass
class CandidateSession:
    """Serves one candidate's process.

    Attributes:
        lock: on the device: shared while the candidate is executed, held alone for timing. Contexts are made without
            it: processes that make one after the other change the median of a call beside them by less than 0.2 %.
        seat: the candidate's place on the device, from before its context is made until its process ends.
        timing: None where times mean nothing.
        contexts: bounds how many processes make contexts at a time; None once this one was admitted.
        crosscheck: what the emulator finds, now or later; None where there is no cross-check.
        has_measure: whether it is timed at a measure size, and not on its proof sets.
        reserved: see `messages.Plan`.
    """

    config: VerifierConfig
    compilations: Compilations
    expected: "Future[Expectation]"
    seed: int
    lock: DeviceLock | None
    seat: DeviceSeats | None
    timing: StartTiming | None
    contexts: threading.Semaphore | None
    crosscheck: "Future[tuple[Finding, ...]] | None" = None
    has_measure: Callable[[], bool] = lambda: False
    reserved: tuple[InputSpec, ...] = ()
    _leave: threading.Semaphore | None = None
    _judgement: Judgement | None = None
    _driver: Driver | None = None

    def serve(self, question: object) -> object:
        """The answer to a message, or to None for what is none: the process may be hostile, and ask in any order."""
        self.leave()
        match question:
            case messages.RequestContext():
                self._wait_for_context()
                return messages.Proceed()
            case messages.ContextMade():
                return messages.Proceed()
            case messages.RequestPlan():
                return self._plan(self.expected.result())
            case messages.RequestDevice():
                if self.lock is not None:
                    self.lock.share()
                return messages.Proceed()
            case messages.JudgeRequest() if self.timing is not None and self._judgement is None:
                return self._judge(question, self.timing)
        if self._driver is not None and not isinstance(question, messages.CompileRequest):
            return self._time(self._driver, question)
        return self.compilations.serve(question)

    def _wait_for_context(self) -> None:
        if self.contexts is None:
            return
        if self.seat is not None:
            self.seat.take()
        self.contexts.acquire()
        self._leave, self.contexts = self.contexts, None

    def end(self) -> None:
        """Its process has ended."""
        self.leave()
        if self._driver is not None and self._driver.measured is None:
            self._driver.close()

    def leave(self) -> None:
        """Its process has made its context, or has ended."""
        if self._leave is not None:
            self._leave.release()
            self._leave = None

    def _plan(self, expectation: Expectation) -> messages.Plan:
        flush_bytes = self.compilations.backend.flush_bytes
        sets = () if self.has_measure() else tuple(timed_sets(expectation))
        timed = messages.TimedSets(sets, flush_bytes) if self.timing else None
        return describe_plan(expectation, self._calls(expectation), self.seed, timed, self.reserved)

    def _calls(self, expectation: Expectation) -> list[messages.Call]:
        shapes = [item.plan.shape for item in expectation.sets]
        derived = [at for at, item in enumerate(expectation.sets) if item.plan.variant in MAY_BE_REFUSED]
        calls = plan_calls(shapes, self.compilations.backend.checks, _UNSEEN_CALLS, derived) if shapes else []
        has_state = any(item.updated for item in expectation.sets)  # that a call of the reference changes, too
        return [replace(call, settled=False) for call in calls] if has_state else calls

    def _judge(
        self, request: messages.JudgeRequest, timing: StartTiming
    ) -> messages.Proceed | messages.Stop | measures.MeasurePlan:
        if self.lock is not None:
            self.lock.release()
        self._judgement = self._judge_run(Outcome("ok", files=request.outputs), request.facts)
        if self.crosscheck is not None and self.crosscheck.done():
            self._judgement = add_crosscheck(self._judgement, self.crosscheck.result())  # else `conclude` waits for it
        if self._judgement.may_be_timed and self.lock is not None:
            try:
                self._driver = timing(self.expected.result(), self.lock)
                return self._driver.opening
            except BaselineFailed as error:
                self._judgement = self._judgement.adding([rules.MEASURE_UNKNOWN.finding(error)])
        if self.lock is not None:
            self.lock.release()
        return messages.Stop()

    def _time(self, driver: Driver, reply: object) -> object:
        """The driver's next command. The end of a process that has been timed takes a third of all that it has the
        device for, so the next one does not wait for it."""
        command = driver.serve(reply)
        if driver.measured is not None:
            driver.close()
            if self.lock is not None:
                self.lock.release()
        return command

    def deadline(self) -> float | None:
        """Until when the process must have carried out its command; see `sandbox.Conversation`."""
        return self._driver.deadline if self._driver is not None else None

    def _judge_run(self, outcome: Outcome, facts: messages.CandidateFacts) -> Judgement:
        expectation = self.expected.result()
        calls = self._calls(expectation)
        if self.reserved and len(facts.calls) == len(calls) and outcome.status in ("timeout", "memory"):
            outcome = replace(outcome, status="ok")  # the call at the declared size took more than there is
        report = read_report(facts, outcome.files, calls)
        raised = facts.error is not None or any(one.error is not None for one in report.honest_calls())
        early = self.compilations.judge(not outcome.ok or raised)
        if early:
            return early
        return judge(outcome, report, calls, expectation, self.compilations.findings)

    def conclude(self, outcome: Outcome) -> Judgement:
        """The judgement, now that the process has ended.

        Raises:
            BadReference: the reference does not run.
        """
        unsafe = self.compilations.judge(failed=True)
        if unsafe and unsafe.stage is VerifyStage.LEGALITY:  # whatever the reference does
            return unsafe
        self.expected.result()
        judgement = self._judgement or self._judge_run(outcome, read_facts(outcome))
        if self.crosscheck is not None and judgement.stage is VerifyStage.PROFILE:
            judgement = add_crosscheck(judgement, self.crosscheck.result())
        if self._driver is None:
            return judgement
        if self._driver.deadline is not None and outcome.status == "timeout":
            return replace(judgement, stage=VerifyStage.TIME).adding([self._driver.late()])
        return _with_times(judgement, outcome, self._driver.measured)


def _with_times(judgement: Judgement, outcome: Outcome, measured: Measured | None) -> Judgement:
    """What timing adds to a judgement that found nothing."""
    found = measured or Measured()
    tampered = read_facts(outcome).tampered
    if not outcome.ok:
        rule = rules.RULES[f"timing.{outcome.status}"]
        found.blame(rule, outcome.message or outcome.status, line=read_crash(outcome.files)[1])
    elif tampered:
        found.blame(rules.RUNTIME_TAMPERED, tampered[0][:200])
    elif measured is None:
        found.blame(rules.TIMING_EXCEPTION, "its process ends before it has been timed.")
    timings = tuple(found.timings) if found.error_class is None else ()
    timed = replace(judgement, stage=VerifyStage.TIME, timings=timings, own_share=found.own_share)
    return timed.adding(found.findings)
