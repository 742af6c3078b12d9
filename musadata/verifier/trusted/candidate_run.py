"""The stages that need a process: execute a candidate, compare its results, and have it timed."""

import time
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

from musadata.errors import Cancelled, Outage
from musadata.records import ConditionFact, ErrorClass, Finding, InputSpec
from musadata.sandbox import Conversation
from musadata.verifier.backends.protocol import Backend
from musadata.verifier.protocol.entry_points import RUN_CANDIDATE
from musadata.verifier.protocol.message_encoding import serve_candidate
from musadata.verifier.protocol.variants import COPIED, PLAIN, InputSet
from musadata.verifier.rules import catalogue as rules
from musadata.verifier.rules.native.called_functions import named_in
from musadata.verifier.trusted.baseline_pool import BaselinePool
from musadata.verifier.trusted.candidate_session import CandidateSession, Compilations
from musadata.verifier.trusted.declared_run import EMULATED
from musadata.verifier.trusted.device_lock import DeviceLock, released
from musadata.verifier.trusted.emulator_crosscheck import is_small
from musadata.verifier.trusted.expectation import Expectation
from musadata.verifier.trusted.judge import Judgement
from musadata.verifier.trusted.plan import Exercise, MeasureSet, derive_seed, plan_sets
from musadata.verifier.trusted.timing_driver import Driver
from musadata.verifier.trusted.verifier_resources import Resources

_NO_MEMORY = ("out of memory", "ALLOC_FAILED", "nvmlInit")  # PyTorch asks NVML what there is, which a sandbox lacks
_PAUSE_SECONDS = (1.0, 4.0)  # before a second and a third try
_MEMORY_TRIES = (
    (ErrorClass.RUNTIME, ErrorClass.INFRA),
    (ErrorClass.INFRA,),
)  # a candidate once more, a reference twice
# For what a reference gives at its own size, where that is all that the emulator can check: what takes PyTorch longer,
# oracle included, takes the emulator longer than it may.
_CHECKED_SECONDS = 5.0
_MAY_BE_THE_STATE = (rules.INTERFACE_STATE.id, rules.CORRECTNESS_VALUES.id, rules.MEASURE_VALUES.id)
_LONGEST_WAIT_SECONDS = 300.0  # for memory on the device: a large reference may have all of it meanwhile
_FULL = 0.1  # of the device's memory: with less than that free, a candidate waits before it is tried again
# Who has less than that for itself, and lacks memory, may well find enough where other programs hold none. Our own
# processes hold up to two thirds while they wait: their contexts, and what references keep.
_ALONE = 0.3


@dataclass(frozen=True)
class Program:
    """A candidate that may be run: as it was written, as the backend's device needs it, and what its Python shows."""

    source: str
    ported: str
    findings: tuple[Finding, ...] = ()


def execute(opened: Resources, exercise: Exercise, program: Program) -> Judgement:
    """Judge a candidate by running it: with the reference's state, and where it is wrong with that, or has other
    parameters, with the state that it constructs after the same seed, as KernelBench's harness does.

    What the machine does to a candidate is not held against it: where it fails, the candidate is run again after a
    pause, and so is one that has run out of memory, which others may have held.

    Raises:
        BadReference: the reference does not run.
        Outage: the machine failed each time, the device is gone, or other programs hold its memory.
    """
    judgement = _execute_with_memory(opened, exercise, program)
    other = {finding.rule: finding for finding in judgement.findings if finding.rule in _MAY_BE_THE_STATE}
    differs = rules.INTERFACE_STATE.id in other
    wrong = bool(other) and judgement.facts.right is False and _has_state(opened, exercise)
    if exercise.as_constructed or not (differs or wrong):
        return judgement
    again = _execute_with_memory(opened, replace(exercise, as_constructed=True), program)
    if not differs and not again.facts.right:
        return judgement
    copied = [ConditionFact(COPIED, 0, sum(one.total for one in judgement.conditions))]
    again = replace(again, conditions=(*again.conditions, *copied))
    return again.adding(replace(finding, condition=COPIED) for finding in other.values())


def _has_state(opened: Resources, exercise: Exercise) -> bool:
    """Whether the reference has parameters or buffers, which a candidate may have read before they were copied."""
    if not exercise.shapes():
        return True  # it is proven at its measure size alone, where this is not known
    return bool(_expect(opened, exercise, derive_seed(opened.config, exercise.task_id, "state")).initial)


def _execute_with_memory(opened: Resources, exercise: Exercise, program: Program) -> Judgement:
    backend = opened.backend
    judgement = _execute_despite_outages(opened, exercise, program)
    if any(finding.rule == rules.EXECUTE_MEMORY.id for finding in judgement.findings):
        judgement = _execute_despite_outages(opened, exercise, program)
    free: list[float] = []
    for classes in _MEMORY_TRIES:  # when others have left it some: processes that end hold theirs for a while
        if backend.seats and judgement.classes().intersection(classes) and _finds_no_memory(judgement):
            _wait_for_memory(backend)
            alone = replace(exercise, alone=lambda: free.append(backend.free_share()))
            judgement = _execute(opened, alone, program)
    if not judgement.classes() & {ErrorClass.RUNTIME, ErrorClass.INFRA}:
        return judgement
    if backend.is_lost():
        raise _outage(f"{backend.device} does not answer any more")
    if backend.seats and _finds_no_memory(judgement):
        share = free[-1] if free else backend.free_share()  # later on, other candidates hold theirs again
        if share < (_ALONE if free else _FULL):
            held = f"other programs hold the memory of {backend.device}"
            raise _outage(f"{held} that {exercise.task_id} or a candidate for it lacks: {share:.0%} of it are free")
    return judgement


def _execute_despite_outages(opened: Resources, exercise: Exercise, program: Program) -> Judgement:
    for pause in _PAUSE_SECONDS:
        try:
            return _execute(opened, exercise, program)
        except Cancelled:
            raise
        except Outage:
            time.sleep(pause)
    return _execute(opened, exercise, program)


def _execute(opened: Resources, exercise: Exercise, program: Program) -> Judgement:
    seed = derive_seed(opened.config, exercise.task_id, "state")
    expected = opened.pool.submit(_expect, opened, exercise, seed)
    compilations = Compilations(opened.backend, named_in(program.source), list(program.findings))
    baselines, crosscheck = opened.baselines, opened.crosscheck
    lock, seat = (baselines.lock(), baselines.seat()) if baselines else (None, None)
    measure = opened.pool.submit(exercise.measure) if baselines else None
    timing = partial(_start_timing, baselines, exercise, seed, measure) if baselines and measure else None
    checking = _start_crosscheck(opened, exercise, program.source, expected, seed) if crosscheck else nullcontext()
    with checking as check:
        session = CandidateSession(
            opened.config, compilations, expected, seed, lock, seat, timing, opened.contexts, check
        )
        session.has_measure = lambda: measure is not None and measure.result() is not None
        session.reserved = _reserved(opened, exercise)
        with released(lock, seat):
            try:
                outcome = opened.candidates.call(
                    RUN_CANDIDATE,
                    program.ported,
                    opened.backend.child,
                    serve=Conversation(serve_candidate(session.serve), session.deadline),
                )
            finally:
                session.end()
        return session.conclude(outcome)


def _reserved(opened: Resources, exercise: Exercise) -> tuple[InputSpec, ...]:
    """The inputs of the declared size for the host code alone, where a candidate can be called with them."""
    large = exercise.measure() if opened.backend.name == EMULATED and opened.baselines is None else None
    return large.specs if large and large.reference == exercise.reference else ()


def _start_crosscheck(
    opened: Resources, exercise: Exercise, source: str, expected: "Future[Expectation]", seed: int
) -> AbstractContextManager["Future[tuple[Finding, ...]]"]:
    """What the emulator finds on the proof sets, or on one plain set of inputs where there are none."""
    assert opened.crosscheck is not None
    checked = list(filter(is_small, exercise.checked))
    if not checked:
        return opened.crosscheck.start(source, exercise.shapes, expected, seed)
    plain = InputSet(0, PLAIN, derive_seed(opened.config, exercise.task_id, "inputs", 0, 0))
    kept = exercise.as_constructed
    expect = partial(opened.references.expect, seconds=_CHECKED_SECONDS, as_constructed=kept)
    alone = opened.pool.submit(expect, exercise.reference, checked, [plain], seed)
    return opened.crosscheck.start(source, lambda: checked, alone, seed)


def _start_timing(
    baselines: BaselinePool,
    exercise: Exercise,
    seed: int,
    measure: "Future[MeasureSet | None]",
    expectation: Expectation,
    lock: DeviceLock,
) -> Driver:
    """Begin to time a judged candidate: at its measure size where there is one."""
    large = measure.result()
    if large is None:
        return baselines.start(exercise.reference, seed, expectation, lock)
    return baselines.start_measure(large, exercise, seed, expectation, lock)


def _expect(opened: Resources, exercise: Exercise, seed: int) -> Expectation:
    """What the reference computes, while the candidate compiles and starts."""
    shapes = exercise.shapes()
    if not shapes:  # it is proven at its measure size alone
        return Expectation((), (), b"", (), {})
    derived = exercise.derived()
    sets = plan_sets(opened.config, exercise.task_id, shapes, len(derived), exercise.brief)
    kept = exercise.as_constructed
    return opened.references.expect(exercise.reference, [*shapes, *derived], sets, seed, as_constructed=kept)


def _finds_no_memory(judgement: Judgement) -> bool:
    return any(sign in finding.message for finding in judgement.findings for sign in _NO_MEMORY)


def _wait_for_memory(backend: Backend) -> None:
    end = time.monotonic() + _LONGEST_WAIT_SECONDS
    while backend.free_share() < _FULL and time.monotonic() < end:
        time.sleep(1.0)


def _outage(message: str) -> Outage:
    remedy = "see to the device and run the same command again: what has been judged is kept"
    return Outage(message, where="verifier", remedy=remedy)
