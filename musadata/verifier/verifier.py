"""The chain of stages, from a model's reply to a verdict."""

import importlib.metadata
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Self

from musadata.config import VerifierConfig
from musadata.errors import MusadataError
from musadata.records import ErrorClass, Finding, InputSpec, Task, Verdict, VerifyStage
from musadata.sandbox import Limits, Sandbox
from musadata.verifier.backend_choice import open_backend
from musadata.verifier.backends.protocol import Backend
from musadata.verifier.compilation.built import Compile
from musadata.verifier.compilation.shared_compile import SharedCompile
from musadata.verifier.compilation.speculative_compile import predict_sources
from musadata.verifier.extract import Extraction, extract
from musadata.verifier.feedback import write_feedback
from musadata.verifier.reward import reward
from musadata.verifier.rules import catalogue as rules
from musadata.verifier.rules.native.native_code import check_native_code
from musadata.verifier.rules.python.legality import check_legality
from musadata.verifier.task_from_reference import PRELOAD, read_task, task_id
from musadata.verifier.trusted.baseline_pool import BaselinePool
from musadata.verifier.trusted.candidate_session import CandidateSession, Compilations, rejected
from musadata.verifier.trusted.device_lock import released
from musadata.verifier.trusted.emulator_crosscheck import EmulatorCrosscheck
from musadata.verifier.trusted.expectation import BadReference, Expectation, ReferenceRunner
from musadata.verifier.trusted.judge import Judgement
from musadata.verifier.trusted.plan import SEED_POLICY, collect_shapes, derive_seed, plan_sets

_MOST_THREADS = 64
# A driver makes a context faster if it is asked for some at a time, and all of them late if for many; measured on an
# H200, a second: 3.3 one by one, 7.8 by four, 10 by eight.
_CONTEXTS_AT_ONCE = 8
_LONGEST_WAIT_SECONDS = 60.0  # for memory on the device
REFERENCE_PRELOAD = (*PRELOAD, "musadata.verifier.sandboxed.oracle")  # what a sandbox for references should import once


@dataclass(frozen=True)
class _Exercise:
    """What a candidate is judged against. `shapes` gives the sets of input shapes, and may take its time."""

    task_id: str
    reference: str
    shapes: Callable[[], list[tuple[InputSpec, ...]]]


class Verifier:
    """Judges candidates, from as many threads as you like; keeps a warm sandbox for candidates and one for references,
    unless it is given `references`.

    Use as a context manager. Its processes get warm in the background: the first verdict waits for them.

    Raises:
        MusadataError: on entering, when the backend that the config asks for is not there.
    """

    def __init__(self, config: VerifierConfig = VerifierConfig(), references: Sandbox | None = None):  # noqa: B008 (frozen)
        self._config = config
        self._shared = references
        self._stack = ExitStack()
        self._backend: Backend | None = None
        self._candidates: Sandbox | None = None
        self._reference_sandbox: Sandbox | None = None
        self._references: ReferenceRunner | None = None
        self._rivals: BaselinePool | None = None
        self._second: EmulatorCrosscheck | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._foreseen: set[tuple[str, str]] = set()
        self._contexts = threading.Semaphore(_CONTEXTS_AT_ONCE)

    def __enter__(self) -> Self:
        backend = open_backend(self._config)
        self._backend = replace(backend, compile=SharedCompile(backend.compile))
        try:
            self._open(self._backend)
        except BaseException:
            self._stack.close()
            raise
        return self

    def _open(self, backend: Backend) -> None:
        limits = Limits(seconds=self._config.seconds, memory_mb=0 if backend.devices else self._config.memory_mb)
        candidates = Sandbox(
            backend.preload,
            setup=backend.setup,
            limits=limits,
            readable=backend.readable,
            devices=backend.devices,
            environment=dict(backend.environment),
        )
        shared = None if backend.devices else self._shared  # on a device, references need it too
        measuring = ["musadata.verifier.sandboxed.measure"] if backend.times else []
        references = shared or Sandbox(
            (*REFERENCE_PRELOAD, *measuring),
            limits=limits,
            readable=backend.readable,
            devices=backend.devices,
            environment=dict(backend.environment),
        )
        for sandbox in (candidates, *([] if shared else [references])):
            sandbox.launch()
            self._stack.push(sandbox)
        self._candidates, self._reference_sandbox = candidates, references
        self._pool = ThreadPoolExecutor(_MOST_THREADS)
        self._stack.callback(partial(self._pool.shutdown, wait=False, cancel_futures=True))
        self._references = ReferenceRunner(references, limits)
        if backend.times:
            self._rivals = BaselinePool(self._config, backend, references)
            self._stack.callback(self._rivals.close)
        if backend.crosscheck:
            self._second = EmulatorCrosscheck(self._config, self._pool)
            self._stack.callback(self._second.close)

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def verify(self, task: Task, candidate: str, shape_sets: Sequence[Sequence[InputSpec]] = ()) -> Verdict:
        """Judge a model's reply, or bare Python, against a task on its own shapes and on `shape_sets`.

        The same arguments and config give the same verdict.
        """
        return self._judge(_Exercise(task.task_id, task.reference, lambda: collect_shapes(task, shape_sets)), candidate)

    def verify_text(self, reference: str, candidate: str) -> Verdict:
        """Judge against a reference that comes alone, see `task_from_reference`: the verdict of `verify` on its task,
        sooner, because the reference is read while the candidate compiles and starts.

        Raises:
            MusadataError: the reference does not run, or its inputs cannot be described, whatever the candidate is.
        """
        assert self._pool is not None
        reading = self._pool.submit(self.read_task, reference)
        exercise = _Exercise(task_id(reference), reference, lambda: collect_shapes(reading.result(), ()))
        verdict = self._judge(exercise, candidate)
        reading.result()
        return verdict

    def _judge(self, exercise: "_Exercise", candidate: str) -> Verdict:
        extraction = extract(candidate)
        if extraction.finding:
            return self._verdict(rejected(VerifyStage.EXTRACT, ErrorClass.COMPILE, [extraction.finding]))
        findings = check_legality(extraction.source, self._config.strict)
        if findings:
            return self._verdict(rejected(VerifyStage.LEGALITY, ErrorClass.CHEATING, findings))
        ported = self._port(extraction)
        self._foresee(extraction, ported)
        try:
            return self._verdict(self._run(exercise, extraction.source, ported.source))
        except (BadReference, MusadataError) as error:
            rule = rules.REFERENCE_FAILS if isinstance(error, BadReference) else rules.INFRA_HOST
            return self.give_up(rule.worded(str(error)))

    def _port(self, extraction: Extraction) -> Extraction:
        assert self._backend is not None
        return replace(extraction, source=self._backend.port(extraction.source))

    def read_task(self, reference: str) -> Task:
        """A task for a reference that comes alone; see `musadata.verifier.task_from_reference`.

        Raises:
            MusadataError: the reference does not run, or its inputs cannot be described.
        """
        assert self._reference_sandbox is not None
        return read_task(reference, self._config, self._reference_sandbox)

    def give_up(self, finding: Finding) -> Verdict:
        """The verdict that says nothing about a candidate, and why."""
        return self._verdict(rejected(VerifyStage.EXECUTE, ErrorClass.INFRA, [finding]))

    def compile(self, candidate: str) -> Judgement | None:
        """Only extract, check and compile, which fills the cache of artifacts: what speaks against it so far, or None.

        Needs no task and no device; the candidate's Python is imported in the sandbox to learn its sources.
        """
        assert self._candidates is not None and self._backend is not None
        extraction = extract(candidate)
        if extraction.finding:
            return rejected(VerifyStage.EXTRACT, ErrorClass.COMPILE, [extraction.finding])
        findings = check_legality(extraction.source, self._config.strict)
        if findings:
            return rejected(VerifyStage.LEGALITY, ErrorClass.CHEATING, findings)
        extraction = self._port(extraction)
        compilations = Compilations(self._backend, self._config.strict)
        outcome = self._candidates.call(
            "musadata.verifier.sandboxed.execute:import_candidate",
            extraction.source,
            self._backend.child,
            serve=compilations.serve,
        )
        return compilations.judge(outcome)

    def compile_speculatively(self, candidate: str) -> None:
        """Start to compile what the candidate seems to hold, so that it is there when its process asks for it."""
        extraction = extract(candidate)
        if not extraction.finding and not check_legality(extraction.source, self._config.strict):
            self._foresee(extraction, self._port(extraction))

    def _foresee(self, extraction: Extraction, ported: Extraction) -> None:
        assert self._backend is not None
        self._start_compiling(ported.source, self._backend.name, self._backend.compile)
        if self._second is not None:
            self._start_compiling(extraction.source, "second opinion", self._second.compile)

    def _start_compiling(self, source: str, whose: str, compile_sources: Compile) -> None:
        assert self._pool is not None
        for sources in predict_sources(source):
            key = whose, sources.digest()
            if key in self._foreseen or check_native_code(sources.texts(), self._config.strict):
                continue
            self._foreseen.add(key)
            self._pool.submit(compile_sources, sources)

    def _run(self, exercise: "_Exercise", source: str, ported: str) -> Judgement:
        """The judgement, and whose fault it is: not the candidate's if the device is gone, or others fill it."""
        assert self._backend is not None
        judgement = self._execute(exercise, source, ported)
        if self._backend.seats and _finds_no_memory(judgement):  # once more, when others have left it some
            _wait_for_memory(self._backend)
            judgement = self._execute(exercise, source, ported)
        if judgement.error_class is not ErrorClass.RUNTIME:
            return judgement
        if self._backend.is_lost():
            return _infra(judgement, f"{self._backend.device} does not answer any more.")
        if self._backend.seats and _finds_no_memory(judgement) and self._backend.is_full():
            return _infra(judgement, f"Other programs fill the memory of {self._backend.device}.")
        return judgement

    def _execute(self, exercise: "_Exercise", source: str, ported: str) -> Judgement:
        assert self._candidates is not None and self._backend is not None and self._pool is not None
        seed = derive_seed(self._config, exercise.task_id, "state")
        expected = self._pool.submit(self._expect, exercise, seed)
        second = self._second.ask(source, exercise.shapes, expected, seed) if self._second else nullcontext()
        compilations = Compilations(self._backend, self._config.strict)
        rivals = self._rivals
        lock, seat = (rivals.lock(), rivals.seat()) if rivals else (None, None)
        timing = partial(rivals.start, exercise.reference, seed) if rivals else None
        with second as opinion:
            trial = CandidateSession(
                self._config, compilations, expected, seed, lock, seat, timing, self._contexts, opinion
            )
            with released(lock, seat):
                try:
                    outcome = self._candidates.call(
                        "musadata.verifier.sandboxed.execute:run_candidate",
                        ported,
                        self._backend.child,
                        serve=trial.serve,
                    )
                finally:
                    trial.leave()
            return trial.conclude(outcome)

    def _expect(self, exercise: "_Exercise", seed: int) -> Expectation:
        """What the reference says, found out while the candidate compiles and starts."""
        assert self._references is not None
        shapes = exercise.shapes()
        sets = plan_sets(self._config, exercise.task_id, shapes)
        return self._references.expect(exercise.reference, shapes, sets, seed)

    def _verdict(self, judgement: Judgement) -> Verdict:
        backend = self._backend
        assert backend is not None
        share, error_class = judgement.test_share, judgement.error_class
        medians = {timing.name: timing.median_ms for timing in judgement.timings}
        speedup = medians["eager"] / medians["candidate"] if {"eager", "candidate"} <= set(medians) else None
        return Verdict(
            accepted=error_class is None,
            stage=judgement.stage,
            error_class=error_class,
            test_share=share,
            findings=judgement.findings,
            feedback=write_feedback(error_class, share, judgement.findings),
            backend=backend.name,
            device=backend.device,
            driver=backend.driver,
            toolchain=backend.toolchain,
            seed_policy=SEED_POLICY,
            version=own_version(),
            operators=judgement.operators,
            kernels=judgement.kernels,
            timings=judgement.timings,
            speedup=speedup,
            reward=reward(error_class, share, speedup),
            own_share=judgement.own_share,
        )


def _finds_no_memory(judgement: Judgement) -> bool:
    return judgement.error_class is ErrorClass.RUNTIME and any(
        "out of memory" in finding.message for finding in judgement.findings
    )


def _wait_for_memory(backend: Backend) -> None:
    end = time.monotonic() + _LONGEST_WAIT_SECONDS
    while backend.is_full() and time.monotonic() < end:
        time.sleep(1.0)


def _infra(judgement: Judgement, message: str) -> Judgement:
    return rejected(judgement.stage, ErrorClass.INFRA, [rules.INFRA_DEVICE.worded(message)])


@cache
def own_version() -> str:
    """The project's version, which is part of every verdict."""
    try:
        return importlib.metadata.version("musadata")
    except importlib.metadata.PackageNotFoundError:
        return "source"  # run from a checkout that is not installed


def verify(
    task: Task,
    candidate: str,
    shape_sets: Sequence[Sequence[InputSpec]] = (),
    config: VerifierConfig = VerifierConfig(),  # noqa: B008 (frozen)
) -> Verdict:
    """One verdict. For more than one use `Verifier`, which keeps its processes warm."""
    with Verifier(config) as verifier:
        return verifier.verify(task, candidate, shape_sets)
