"""The chain of stages, from a model's reply to a verdict."""

import importlib.metadata
import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Self

from musadata.config import VerifierConfig
from musadata.errors import MusadataError
from musadata.records import ErrorClass, Finding, InputSpec, Task, Timing, Verdict, VerifyStage
from musadata.sandbox import Limits, Outcome, Sandbox
from musadata.verifier.adhoc import PRELOAD, read_task
from musadata.verifier.backends import Backend, Built, open_backend
from musadata.verifier.extract import Extraction, extract
from musadata.verifier.feedback import write_feedback
from musadata.verifier.judge import Judgement, judge, read_report
from musadata.verifier.legality import check_legality
from musadata.verifier.native_code import check_native_code
from musadata.verifier.plan import SEED_POLICY, collect_shapes, derive_seed, plan_calls, plan_sets
from musadata.verifier.reference import BadReference, Expectation, ReferenceRunner
from musadata.verifier.reward import reward


@dataclass
class _Compilations:
    """What the trusted side saw of one candidate's compilations, whatever the candidate makes of it."""

    backend: Backend
    strict: bool
    findings: list[Finding] = field(default_factory=list)
    errors: list[Built] = field(default_factory=list)
    count: int = 0

    def serve(self, question: dict[str, Any]) -> dict[str, Any]:
        """Answer a child's request to compile."""
        sources = question.get("compile") if isinstance(question, dict) else None
        if not isinstance(sources, dict):
            return {"error": "not a request to compile"}
        self.count += 1
        if self.count > _MOST_COMPILATIONS:
            self.errors.append(Built(error=f"The candidate compiles more than {_MOST_COMPILATIONS} extensions."))
            return {"error": "too many extensions"}
        texts = [str(text) for key in ("cpp", "cuda") for text in sources.get(key) or ()]
        texts += [str(text) for _, text in sources.get("headers") or ()]
        illegal = check_native_code(texts, self.strict)
        if illegal:
            self.findings += illegal
            return {"error": "the sources are not allowed"}
        built = self.backend.compile(sources)
        if built.error:
            self.errors.append(built)
            return {"error": built.error}
        return {"path": built.path}


_MOST_COMPILATIONS = 16
REFERENCE_PRELOAD = (*PRELOAD, "musadata.verifier.reference")  # what a sandbox for references should import once


class Verifier:
    """Judges candidates; keeps a warm sandbox for candidates and one for references, unless it is given `references`.
    Use as a context manager.

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

    def __enter__(self) -> Self:
        self._backend = open_backend(self._config)
        backend = self._backend
        limits = Limits(seconds=self._config.seconds, memory_mb=0 if backend.devices else self._config.memory_mb)
        candidates = Sandbox(
            backend.preload,
            setup=backend.setup,
            limits=limits,
            readable=backend.readable,
            devices=backend.devices,
            environment=dict(backend.environment),
        )
        own = Sandbox(REFERENCE_PRELOAD, limits=limits, readable=backend.readable, devices=backend.devices)
        shared = None if backend.devices else self._shared  # on a device, references need it too
        try:
            candidates.launch()
            if shared is None:
                own.launch()
            self._candidates = self._stack.enter_context(candidates)
            self._reference_sandbox = shared or self._stack.enter_context(own)
            self._references = ReferenceRunner(self._reference_sandbox, limits)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def verify(self, task: Task, candidate: str, shape_sets: Sequence[Sequence[InputSpec]] = ()) -> Verdict:
        """Judge a model's reply, or bare Python, against a task on its own shapes and on `shape_sets`.

        The same arguments and config give the same verdict.
        """
        extraction = extract(candidate)
        if extraction.finding:
            return self._verdict(_rejected(VerifyStage.EXTRACT, ErrorClass.COMPILE, [extraction.finding]))
        findings = check_legality(extraction.source, self._config.strict).findings
        if findings:
            return self._verdict(_rejected(VerifyStage.LEGALITY, ErrorClass.CHEATING, findings))
        extraction = self._port(extraction)
        try:
            return self._verdict(self._run(task, extraction, collect_shapes(task, shape_sets)))
        except (BadReference, MusadataError) as error:
            rule = "reference.fails" if isinstance(error, BadReference) else "infra.host"
            return self.give_up(Finding(rule, str(error)))

    def _port(self, extraction: Extraction) -> Extraction:
        assert self._backend is not None
        return replace(extraction, source=self._backend.port(extraction.source))

    def read_task(self, reference: str) -> Task:
        """A task for a reference that comes alone; see `musadata.verifier.adhoc`.

        Raises:
            MusadataError: the reference does not run, or its inputs cannot be described.
        """
        assert self._reference_sandbox is not None
        return read_task(reference, self._config, self._reference_sandbox)

    def give_up(self, finding: Finding) -> Verdict:
        """The verdict that says nothing about a candidate, and why."""
        return self._verdict(_rejected(VerifyStage.EXECUTE, ErrorClass.INFRA, [finding]))

    def compile(self, candidate: str) -> Judgement | None:
        """Only extract, check and compile, which fills the cache of artifacts: what speaks against it so far, or None.

        Needs no task and no device; the candidate's Python is imported in the sandbox to learn its sources.
        """
        assert self._candidates is not None and self._backend is not None
        extraction = extract(candidate)
        if extraction.finding:
            return _rejected(VerifyStage.EXTRACT, ErrorClass.COMPILE, [extraction.finding])
        findings = check_legality(extraction.source, self._config.strict).findings
        if findings:
            return _rejected(VerifyStage.LEGALITY, ErrorClass.CHEATING, findings)
        extraction = self._port(extraction)
        compilations = _Compilations(self._backend, self._config.strict)
        outcome = self._candidates.call(
            "musadata.verifier.execute:import_candidate",
            extraction.source,
            self._backend.child,
            serve=compilations.serve,
        )
        return _judge_compilations(compilations, outcome)

    def _run(self, task: Task, extraction: Extraction, shapes: list[tuple[InputSpec, ...]]) -> Judgement:
        assert self._references is not None and self._candidates is not None and self._backend is not None
        config = self._config
        sets = plan_sets(config, task, len(shapes))
        seed = derive_seed(config, task, "state")
        expectation = self._references.expect(task.reference, shapes, sets, seed)
        calls = plan_calls(expectation.sets)
        compilations = _Compilations(self._backend, config.strict)
        plan = {
            "backend": self._backend.child,
            "init": expectation.init_arguments,
            "parameters": list(expectation.parameters),
            "seed": seed,
            "sets": [{"literals": list(item.literals), "shape": item.plan.shape} for item in expectation.sets],
            "calls": [call.as_dict() for call in calls],
        }
        outcome = self._candidates.call(
            "musadata.verifier.execute:run_candidate",
            extraction.source,
            plan,
            files=_files(expectation),
            serve=compilations.serve,
        )
        early = _judge_compilations(compilations, outcome)
        if early:
            return early
        judgement = judge(outcome, read_report(outcome, calls), calls, expectation, config.strict)
        if judgement.error_class is None and self._backend.times:
            return self._time(judgement, task, extraction.source, plan, _files(expectation), compilations)
        return judgement

    def _time(
        self,
        judgement: Judgement,
        task: Task,
        source: str,
        plan: dict[str, Any],
        files: dict[str, bytes],
        compilations: _Compilations,
    ) -> Judgement:
        """Measure the candidate, and the reference in eager mode; only for what has passed everything else."""
        assert self._candidates is not None and self._reference_sandbox is not None
        module = "musadata.verifier.cuda.timing"
        own = self._candidates.call(f"{module}:time_candidate", source, plan, files=files, serve=compilations.serve)
        base = self._reference_sandbox.call(f"{module}:time_reference", task.reference, plan, False, files=files)
        timings = [
            _timing(name, outcome.value) for name, outcome in (("candidate", own), ("eager", base)) if outcome.ok
        ]
        return replace(judgement, stage=VerifyStage.TIME, timings=tuple(timings))

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
            version=_own_version(),
            operators=judgement.operators,
            kernels=judgement.kernels,
            timings=judgement.timings,
            speedup=speedup,
            reward=reward(error_class, share, speedup),
        )


def _summarise(times: Sequence[float]) -> tuple[float, float, float]:
    """Median and a 95 % confidence interval for it, by order statistics; milliseconds."""
    ordered = sorted(times)
    half = 0.98 * len(ordered) ** 0.5
    low, high = int(len(ordered) / 2 - half), int(len(ordered) / 2 + half)
    return statistics.median(ordered), ordered[max(0, low)], ordered[min(len(ordered) - 1, high)]


def _timing(name: str, times: list[float]) -> Timing:
    median, low, high = _summarise(times)
    return Timing(name, median, low, high, len(times))


def _files(expectation: Expectation) -> dict[str, bytes]:
    inputs = {f"inputs{index}": item.inputs for index, item in enumerate(expectation.sets)}
    return {"state": expectation.state, **inputs}


@cache
def _own_version() -> str:
    try:
        return importlib.metadata.version("musadata")
    except importlib.metadata.PackageNotFoundError:
        return "source"  # run from a checkout that is not installed


def _rejected(stage: VerifyStage, error_class: ErrorClass, findings: Sequence[Finding]) -> Judgement:
    return Judgement(stage, error_class, 0.0, tuple(findings))


def _judge_compilations(compilations: _Compilations, outcome: Outcome) -> Judgement | None:
    """What compiling alone decides, whether or not the candidate caught the exception."""
    if compilations.findings:
        return _rejected(VerifyStage.LEGALITY, ErrorClass.CHEATING, compilations.findings)
    for built in compilations.errors:
        if built.unsupported:
            finding = Finding("compile.unsupported", f"This backend cannot judge the candidate: {built.error}")
            return _rejected(VerifyStage.COMPILE, ErrorClass.INFRA, [finding])
        return _rejected(VerifyStage.COMPILE, ErrorClass.COMPILE, [Finding("compile.error", built.error)])
    if compilations.count == 0 and outcome.ok and "error" not in (outcome.value or {}):
        finding = Finding("legality.no_kernel", "The program compiled no CUDA source.")
        return _rejected(VerifyStage.LEGALITY, ErrorClass.CHEATING, [finding])
    return None


def verify(
    task: Task,
    candidate: str,
    shape_sets: Sequence[Sequence[InputSpec]] = (),
    config: VerifierConfig = VerifierConfig(),  # noqa: B008 (frozen)
) -> Verdict:
    """One verdict. For more than one use `Verifier`, which keeps its processes warm."""
    with Verifier(config) as verifier:
        return verifier.verify(task, candidate, shape_sets)
