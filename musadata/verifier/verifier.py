"""The stages of a verdict, in order: extract, legality, compile, execute, compare, profile, time."""

import importlib.metadata
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import cache, lru_cache, partial
from typing import Self

from musadata.config import VerifierConfig
from musadata.errors import MusadataError
from musadata.records import Finding, InputSpec, Task, Verdict, VerifyStage
from musadata.rows import content_id, restore
from musadata.sandbox import Sandbox
from musadata.verifier.backend_choice import open_backend
from musadata.verifier.backends.protocol import Backend
from musadata.verifier.compilation.shared_compile import SharedCompile
from musadata.verifier.extract import extract
from musadata.verifier.policies import apply_policy, load_policy
from musadata.verifier.protocol.access_counts import CountedCall
from musadata.verifier.protocol.entry_points import DERIVE_SHAPES, IMPORT_CANDIDATE, RUN_REFERENCE, module_of
from musadata.verifier.protocol.message_encoding import serve_candidate
from musadata.verifier.protocol.unit_tests import UnitTestRun
from musadata.verifier.protocol.variants import DECLARED, DERIVED
from musadata.verifier.rules import catalogue as rules
from musadata.verifier.rules.native.called_functions import named_in
from musadata.verifier.rules.python.legality import check_legality
from musadata.verifier.task_from_reference import (
    PRELOAD,
    PRELOAD_FOR_MANY,
    LoneReference,
    ShrunkSize,
    describe_sizes,
    read_reference,
)
from musadata.verifier.trusted.candidate_run import Program, execute
from musadata.verifier.trusted.candidate_session import Compilations
from musadata.verifier.trusted.counting_run import run_counted
from musadata.verifier.trusted.declared_run import Declared, judge_declared, judge_whole
from musadata.verifier.trusted.expectation import BadReference
from musadata.verifier.trusted.judge import Judgement, at_declared, stopped
from musadata.verifier.trusted.plan import SEED_POLICY, Exercise, MeasureSet, collect_shapes
from musadata.verifier.trusted.unit_test_run import run_unit_test
from musadata.verifier.trusted.verifier_resources import Resources, open_resources

_REMEMBERED = 64  # candidates, and references that came alone: finding smaller sizes takes a second
# The most work of a call at sizes that were asked for, and what is enough: whoever fails should not fail for time. With
# one size as declared; with more than one; with none, and all as large as that.
_SHORT = 1 << 21  # work of a call that is proven on all input sets; above, inputs may have so many elements
_WORK, _LONG, _WIDE, _LARGE = (1 << 24, 1 << 18), (3 << 26, 1 << 18), (1 << 25, 1 << 18), (1 << 25, 1 << 23)
_MOST_LEFT = 2  # sizes that are small where all others are as declared
# What a sandbox for references should import once.
REFERENCE_PRELOAD = (*PRELOAD, module_of(RUN_REFERENCE), module_of(DERIVE_SHAPES))


@dataclass(frozen=True)
class _Near:
    """A reference with some sizes as declared, and the others."""

    declared: Declared
    shrunk: tuple[ShrunkSize, ...]


class Verifier:
    """Judges candidates, from as many threads as you like; keeps a warm sandbox for candidates and one for references,
    unless it is given `references`.

    Use as a context manager. Its processes get warm in the background: the first verdict waits for them. With
    `reads_many`, what reading large references needs is loaded then as well. Without a device, and unless it is not
    `at_declared`, tasks are judged at their declared size as well, which takes seconds where that is large.

    Raises:
        MusadataError: on entering, when the backend that the config asks for is not there.
    """

    def __init__(
        self,
        config: VerifierConfig = VerifierConfig(),  # noqa: B008 (frozen)
        references: Sandbox | None = None,
        reads_many: bool = False,
        at_declared: bool = True,
    ):
        self._config = config
        self._policy = load_policy(config.policy)
        self._shared, self._at_declared = references, at_declared
        self._preload = (*REFERENCE_PRELOAD, *(PRELOAD_FOR_MANY if reads_many else ()))
        self._read = lru_cache(_REMEMBERED)(self._read_anew)
        self._derived = lru_cache(_REMEMBERED)(self._derive_anew)
        self._checked = lru_cache(_REMEMBERED)(self._check_anew)
        self._checking = threading.Lock()
        self._stack = ExitStack()
        self._resources: Resources | None = None

    def __enter__(self) -> Self:
        backend = open_backend(self._config)
        backend = replace(backend, compile=SharedCompile(backend.compile))
        opening = open_resources(self._config, backend, self._preload, self._shared)
        self._resources = self._stack.enter_context(opening)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def _opened(self) -> Resources:
        if self._resources is None:
            raise MusadataError("is not open", where="Verifier", remedy="use it in a with statement")
        return self._resources

    def verify(self, task: Task, candidate: str, shape_sets: Sequence[Sequence[InputSpec]] = ()) -> Verdict:
        """Judge a model's reply, or bare Python, against a task on its own shapes and on `shape_sets`, and, see
        above, at its declared size.

        The same arguments and config give the same verdict.

        Raises:
            Outage: the machine failed, three times in a row, which says nothing about the candidate.
        """
        exercise = Exercise(
            task.task_id, task.reference, lambda: collect_shapes(task, shape_sets), lambda: _measure_set(task)
        )
        judgement = self._judge(exercise, candidate)
        if not (self._at_declared and task.measure and judgement.facts.right) or self._opened.baselines is not None:
            return self._verdict(judgement)
        try:
            lone = self._read(task.reference)
        except MusadataError:  # it runs on the task's own inputs, which need not be those of its text
            return self._verdict(judgement)
        return self._judge_at_declared(lone, candidate, judgement, "")

    def verify_text(self, reference: str, candidate: str) -> Verdict:
        """Judge against a reference that comes alone, see `task_from_reference`. It is read while the candidate
        compiles. Where its sizes are large, a smaller form of it is judged, and the verdict says so.

        Raises:
            MusadataError: the reference does not run, or its inputs cannot be described, whatever the candidate is.
            Outage: see `verify`.
        """
        reading = self._opened.pool.submit(self.read_reference, reference)
        self.compile_speculatively(candidate)
        return self.verify_lone(reading.result(), candidate)

    def verify_lone(self, lone: LoneReference, candidate: str) -> Verdict:
        """Judge against a reference that was read before.

        A candidate is judged at uneven sizes, and at such as are as even as the reference's own: it may rely on that,
        or have a path of its own for them, so that these decide. One that fails at both, or has the reference's own
        sizes written into it, is judged at these alone on a device; elsewhere nothing can be said of it if they are
        written into it. Where it goes wrong at uneven sizes without an exception, that is a fact of other shapes.
        """
        measure = MeasureSet(lone.text, lone.measure) if lone.measure else None
        small = Exercise(content_id("task", lone.text), lone.text, list, lambda: measure)
        own = replace(small, checked=(lone.measure,))
        has_own = measure is not None and self._opened.baselines is not None
        if not lone.forms and not has_own:
            return self.give_up(rules.REFERENCE_TOO_LARGE.finding(lone.reason))
        written = lone.written_sizes(candidate)
        judgements: list[Judgement] = []
        for at, (task, shrunk) in enumerate(zip(lone.forms, lone.shrunk, strict=True)):
            is_last = at + 1 == len(lone.forms)  # others would not be as even as the declared sizes
            brief = at > 0 and not _fails_at_size(judgements[0])
            exercise = replace(self._exercise(task, is_last, not lone.measure, brief), measure=small.measure)
            judgements.append(self._judge(exercise, candidate))
            other = _fails_at_size(judgements[-1]) or (has_own and _lacks_answer(judgements[-1]))
            if not other and (has_own or not judgements[-1].facts.right):
                return replace(self._verdict(judgements[-1]), shrunk=describe_sizes(shrunk))
            if has_own and written:
                break
        if has_own and (not lone.forms or lone.shrunk[0]):
            return self._verdict(self._judge(own, candidate))
        if _fails_at_size(judgements[-1]):
            failed = next(at for at, one in enumerate(judgements) if _fails_at_size(one))
            return self._decide_at_written_sizes(
                lone, candidate, judgements[failed], describe_sizes(lone.shrunk[failed])
            )
        proof = -1 if _fails_at_size(judgements[0]) else 0  # what was judged on all input sets
        further = [one for one in judgements[-1].findings if one.condition == DERIVED]
        if proof and not any(one.rule == rules.EXECUTE_EXCEPTION.id for one in judgements[0].findings):
            further += [replace(one, condition=DERIVED) for one in judgements[0].findings]
        judgement = judgements[proof].adding(further)
        return self._judge_at_declared(lone, candidate, judgement, describe_sizes(lone.shrunk[proof]))

    def _exercise(self, task: Task, derived: bool = False, uneven: bool = False, brief: bool = False) -> Exercise:
        """Of a form of a lone reference; see `derive_shapes` for those that are `derived`."""
        further = partial(self._derived, task.reference, task.inputs, uneven) if derived else list
        shapes = partial(collect_shapes, task, ())
        return Exercise(task.task_id, task.reference, shapes, derived=further, brief=brief)

    def _derive_anew(self, reference: str, inputs: Sequence[InputSpec], uneven: bool) -> list[tuple[InputSpec, ...]]:
        outcome = self._opened.reference_sandbox.call(DERIVE_SHAPES, reference, list(map(asdict, inputs)), uneven)
        found = outcome.value if outcome.ok else []
        return [tuple(restore(InputSpec, spec) for spec in specs) for specs in found]

    def _judge_at_declared(
        self,
        lone: LoneReference,
        candidate: str,
        judgement: Judgement,
        shrunk: str,
        kept: Sequence[tuple[int, ...]] = (),
    ) -> Verdict:
        """The verdict on a candidate that is right at small sizes: as a whole at the declared one if that is little
        work, or else where one size after the other is as declared, beside those that are `kept`, and where all are as
        large as they can be."""
        program, findings = self._check(candidate), list[Finding]()
        if isinstance(program, Program) and lone.measure:
            texts = program.source, program.ported
            declared = judge_declared(self._opened, Declared(lone.text, lone.measure, lone.work), *texts)
            findings = [at_declared(one) for one in declared.findings]
            if not declared.is_whole and not findings:
                tried = (self._judge_near(lone, kept, near, texts) for near in self._near(lone, kept))
                findings = next(filter(None, tried), [])
        return replace(self._verdict(judgement.adding(findings)), shrunk=shrunk)

    def _judge_near(
        self, lone: LoneReference, kept: Sequence[tuple[int, ...]], near: _Near, texts: tuple[str, str]
    ) -> list[Finding]:
        """What is wrong where only some sizes are as declared, unless that is for the others: where these are smaller
        than those that a candidate has been right at, it is wrong without the longer ones as well."""
        found = judge_whole(self._opened, near.declared, *texts)
        proven, small = ({one.old: one.new for one in some} for some in (lone.shrunk[-1], near.shrunk))
        if found and any(new < proven.get(old, old) for old, new in small.items()):
            sizes = proven | small | {size: size for size, *_ in kept}
            for control in self._resize(lone, [*sizes.items()], _LONG):
                if judge_whole(self._opened, control.declared, *texts):
                    return []
        return [at_declared(one, describe_sizes(near.shrunk)) for one in found]

    def _near(self, lone: LoneReference, kept: Sequence[tuple[int, ...]]) -> Iterator[_Near]:
        """A reference with all sizes as declared but for one of the largest; with one of the others as declared, all of
        one value together, or else each; then with all as large as they can be."""
        declared = lone.declared_sizes()
        alone = [one for sizes in declared for one in sizes[1:] or sizes]
        seen = set[tuple[int, ...]]()
        for left in alone[:_MOST_LEFT]:
            others = [one for one in alone if one != left]
            found = self._resize(lone, [*kept, *others], _WIDE) if not seen.issuperset(others) else []
            yield from found
            seen.update(others if found else ())
        for sizes in declared:
            for size in sizes if not seen.issuperset(sizes[1:] or sizes) else ():
                is_together = size is sizes[0] and len(sizes) > 1
                found = self._resize(lone, [*kept, size], _WIDE if is_together else _LONG)
                yield from found
                if found and is_together:
                    break
        yield from self._resize(lone, kept, _LARGE)

    def _resize(self, lone: LoneReference, sizes: Sequence[tuple[int, ...]], work: tuple[int, int]) -> list[_Near]:
        """A reference whose `sizes` have these values, and what else was shrunk; nothing where that is more work than
        the most or fails."""
        try:
            resized = self._read(lone.text, tuple(sizes), work)
        except MusadataError:
            return []
        even = [*zip(resized.forms, resized.shrunk, strict=True)][-1:]  # as even as declared
        return [_Near(Declared(form.reference, form.inputs, resized.work), shrunk) for form, shrunk in even]

    def _decide_at_written_sizes(
        self, lone: LoneReference, candidate: str, judgement: Judgement, shrunk: str
    ) -> Verdict:
        """The verdict on a candidate that fails at smaller sizes: where it has the reference's own written into it, it
        is judged with these, as far as that is little enough work."""
        written = lone.written_sizes(candidate)
        plain = {one.old for one in lone.shrunk[0]}.intersection(number for number, _, _ in written)
        kept = [(size, size) for size in sorted(plain)]
        found = self._judge_resized(lone, candidate, kept) if plain else []
        for judged, sizes in found:
            if judged.facts.right:  # with a number of its own, perhaps, that happens to be one of these sizes
                return self._judge_at_declared(lone, candidate, judged, sizes, kept)
            if not _fails_at_size(judged):
                return replace(self._verdict(judged), shrunk=sizes)
        if written and not found:
            number, line, name = written[0]
            judgement = stopped(rules.REFERENCE_SHRUNK.finding(number, name, shrunk, line=line))
        return replace(self._verdict(judgement), shrunk=shrunk)

    def _judge_resized(
        self, lone: LoneReference, candidate: str, sizes: Sequence[tuple[int, ...]]
    ) -> list[tuple[Judgement, str]]:
        """What comes of a candidate where some sizes of a reference have these values, and what was shrunk, for each
        form; nothing where that is too much work, or the reference fails."""
        try:
            resized = self._read(lone.text, tuple(sizes), _WORK)
        except MusadataError:
            return []
        found, is_much = [], resized.work > _SHORT
        for task, shrunk in zip(resized.forms, resized.shrunk, strict=True):
            if is_much and sum(math.prod(spec.shape) for spec in task.inputs) > _SHORT:
                continue
            for brief in (True,) if is_much else (False, True):  # a launch of its own size may take long at any
                judgement = self._judge(self._exercise(task, brief=brief), candidate)
                if not _lacks_time(judgement):
                    found.append((judgement, describe_sizes(shrunk)))
                    break
        return found

    def _judge(self, exercise: Exercise, candidate: str) -> Judgement:
        """All stages."""
        program = self._check(candidate)
        if isinstance(program, Judgement):
            return program
        try:
            return execute(self._opened, exercise, program)
        except BadReference as error:
            return stopped(rules.REFERENCE_FAILS.worded(str(error)))

    def _check(self, candidate: str) -> Program | Judgement:
        """The stages that only read: extract and legality. What may be run is compiled ahead.

        One candidate after the other, since only one thread has the interpreter: of many that are read side by side
        all would be ready late, and the compilers would wait.
        """
        with self._checking:
            return self._checked(candidate)

    def _check_anew(self, candidate: str) -> Program | Judgement:
        extraction = extract(candidate)
        if extraction.finding:
            return stopped(extraction.finding)
        findings = check_legality(extraction.source)
        if any(rules.RULES[finding.rule].unsafe for finding in findings):
            return stopped(*findings)
        program = Program(extraction.source, self._opened.backend.port(extraction.source), findings)
        self._opened.compile_ahead(program.source, program.ported)
        return program

    def compile(self, candidate: str) -> Judgement | None:
        """Only extract, check and compile, which fills the cache of artifacts: what speaks against it so far, or None.

        Needs no task and no device; the candidate's Python is imported in the sandbox to learn its sources.
        """
        program = self._check(candidate)
        if isinstance(program, Judgement):
            return program
        backend = self._opened.backend
        compilations = Compilations(backend, named_in(program.source))
        outcome = self._opened.candidates.call(
            IMPORT_CANDIDATE,
            program.ported,
            backend.child,
            serve=serve_candidate(compilations.serve),
        )
        return compilations.judge(failed=not outcome.ok)

    def compile_speculatively(self, candidate: str) -> None:
        """Start to compile what the candidate will most likely ask for, before its process asks."""
        self._check(candidate)

    def run_unit_test(self, task: Task, test: str, programs: Sequence[str], right: int = 0) -> tuple[UnitTestRun, ...]:
        """Run a unit test of a task on programs, of which "" is the reference, up to the first of the first `right`
        that fails.

        Raises:
            Outage: the machine failed.
        """
        return run_unit_test(self._opened, task, test, programs, right)

    def count_accesses(self, task: Task, candidate: str, windows: Mapping[str, int], most: int) -> CountedCall:
        """Count what an accepted candidate's kernels do to memory in one call on the task's own inputs.

        Only the emulated backend counts, as far as `most` accesses of threads. `windows`: by a kernel's name, the bytes
        of its widest vector type, whose components count as one access.

        Raises:
            Outage: the machine failed.
        """
        return run_counted(self._opened, task, candidate, windows, most)

    def read_reference(self, reference: str) -> LoneReference:
        """A reference that comes alone; see `musadata.verifier.task_from_reference`.

        Raises:
            MusadataError: the reference does not run, or its inputs cannot be described.
        """
        return self._read(reference)

    def _read_anew(
        self, reference: str, resized: tuple[tuple[int, ...], ...] = (), work: tuple[int, int] | None = None
    ) -> LoneReference:
        return read_reference(reference, self._config, self._opened.reference_sandbox, resized, work)

    def read_task(self, reference: str) -> Task:
        """The task of its proof size; see `read_reference`."""
        return self.read_reference(reference).require_forms()[0]

    def give_up(self, finding: Finding) -> Verdict:
        """The verdict that says nothing about a candidate, and why."""
        return self._verdict(stopped(finding))

    def _verdict(self, judgement: Judgement) -> Verdict:
        return apply_policy(_make_verdict(judgement, self._opened.backend), self._policy)


def _fails_at_size(judgement: Judgement) -> bool:
    """Whether it may be the size of the proof sets at which a candidate fails."""
    faults = (one for one in judgement.findings if rules.RULES[one.rule].missed_by_devices)
    fails = judgement.facts.right is False or any(one.condition in ("", DECLARED) for one in faults)
    return fails and judgement.stage is not VerifyStage.TIME


def _lacks_answer(judgement: Judgement) -> bool:
    """Whether it may be the size of the proof sets at which the reference gives no result that can be compared."""
    without = (rules.TASK_NO_RIGHT_ANSWER.id, rules.REFERENCE_FAILS.id)
    return any(finding.rule in without for finding in judgement.findings)


def _lacks_time(judgement: Judgement) -> bool:
    """Whether a larger size may only have taken more than there is."""
    limits = (rules.EXECUTE_TIMEOUT.id, rules.EXECUTE_MEMORY.id)
    return any(finding.rule in limits for finding in judgement.findings)


def _measure_set(task: Task) -> MeasureSet | None:
    return MeasureSet(task.reference, task.measure) if task.measure else None


def _make_verdict(judgement: Judgement, backend: Backend) -> Verdict:
    """The facts; no policy has seen them yet."""
    medians = {timing.name: timing.median_ms for timing in judgement.timings}
    speedup = medians["eager"] / medians["candidate"] if {"eager", "candidate"} <= set(medians) else None
    return Verdict(
        stage=judgement.stage,
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
        own_share=judgement.own_share,
        facts=judgement.facts,
    )


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
