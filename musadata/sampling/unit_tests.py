"""From a teacher's unit test to a row: it is run on the reference, on accepted candidates and on wrong ones."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from musadata.config import UnitTestsConfig
from musadata.records import Annotation, Candidate, ErrorClass, MutantResult, Reject, Task, UnitTest
from musadata.rows import content_id
from musadata.sampling.rollout import Ask, request_seed
from musadata.teacher.prompts import render_unit_test
from musadata.teacher.protocol import REQUEST_FAILED, Answer, CannotAnswer, Request, RequestFailed, RequestKind
from musadata.teacher.unit_tests import list_functions, read_unit_test
from musadata.verifier.protocol.unit_tests import Failure, UnitTestRun

STEP = "test"
_WRONG = (ErrorClass.RUNTIME, ErrorClass.CORRECTNESS)  # what running a program can show

# A task, a test, programs of which "" is the reference, and how many of them end the run if they fail.
RunTest = Callable[[Task, str, Sequence[str], int], Sequence[UnitTestRun]]
IsWrong = Callable[[str], bool]


@dataclass(frozen=True)
class Mutant:
    """A program that is wrong, or that has a fault and may be wrong: then `is_wrong` is asked if no test sees it."""

    source: str
    fault: str
    candidate_id: str = ""
    is_wrong: IsWrong = lambda source: True


def ask_for_test(task: Task, annotation: Annotation, sample: int, seed: int, ask: Ask) -> Answer | Reject:
    """The teacher's reply; a reject if there is none."""
    messages = render_unit_test(task, annotation.told)
    drawn = request_seed(seed, task.task_id, sample, 0)
    request = Request(RequestKind.TEST, task, annotation.traces, messages, sample=sample, seed=drawn)
    try:
        return ask(request)
    except RequestFailed as failure:
        return reject(task, REQUEST_FAILED, str(failure))
    except CannotAnswer as refusal:
        return reject(task, "no answer", str(refusal))


def check_test(
    task: Task,
    sample: int,
    answer: Answer,
    teacher: str,
    candidates: Sequence[Candidate],
    seeded: Callable[[], Iterable[Mutant]],
    run: RunTest,
    config: UnitTestsConfig,
) -> UnitTest | Reject:
    """The row of a test that passes what is right and fails what is wrong; a reject for any other.

    `seeded` makes further mutants; the first of them that is wrong serves where no candidate is.
    """
    source = read_unit_test(answer.text)
    if not source:
        return reject(task, "no test in the reply", "")
    honest = _honest(candidates)[: config.honest]
    if not honest:
        return reject(task, "no accepted candidate", "")
    wrong = _wrong(candidates)[: config.mutants]
    right = ["", *(one.source for one in honest)]
    runs = run(task, source, [*right, *(one.source for one in wrong)], len(right))
    for number, done in enumerate(runs[: len(right)]):
        if not done.ok:
            what = "an accepted candidate" if number else "the reference"
            seen = f"{honest[number - 1].candidate_id}: " if number else ""
            return reject(task, f"fails {what}", f"{seen}{_first(done).function}: {_first(done).why}")
    tested = [_result(mutant, done) for mutant, done in zip(wrong, runs[len(right) :], strict=True)]
    tested = tested or list(islice(_seeded(task, source, seeded(), run), 1))
    if not tested:
        return reject(task, "no wrong program", "")
    share = sum(bool(one.caught_by) for one in tested) / len(tested)
    if share < config.least_caught or share == 0.0:
        missed = ", ".join(one.fault or one.candidate_id for one in tested if not one.caught_by)
        return reject(task, "passes wrong programs", f"{len(tested)} tried, not caught: {missed}")
    return UnitTest(
        unit_test_id=content_id("unit_test", task.task_id, answer.teacher or teacher, sample, source),
        **task.columns(),
        sample=sample,
        source=source,
        functions=list_functions(source),
        honest=tuple(one.candidate_id for one in honest),
        mutants=tuple(tested),
        caught_share=share,
        backend=honest[0].backend,
        operator_family=task.operator_family,
        teacher=answer.teacher or teacher,
        **answer.provenance(),
    )


def _seeded(task: Task, test: str, mutants: Iterable[Mutant], run: RunTest) -> Iterator[MutantResult]:
    """Those that are caught, and those that are not and yet wrong."""
    for mutant in mutants:
        [done] = run(task, test, [mutant.source], 0)
        if not done.ok or mutant.is_wrong(mutant.source):
            yield _result(mutant, done)


def _result(mutant: Mutant, done: UnitTestRun) -> MutantResult:
    seen = Failure("", "") if done.ok else _first(done)
    kept = "" if mutant.candidate_id else mutant.source
    return MutantResult(mutant.candidate_id, mutant.fault, kept, seen.function, seen.why)


def _first(done: UnitTestRun) -> Failure:
    return done.failed[0] if done.failed else Failure("none", "no test function was run")


def _honest(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Accepted programs, those first that were kept for their difference."""
    unique = {one.source: one for one in candidates if one.accepted and not one.fault}
    return sorted(unique.values(), key=lambda one: not one.kept)


def _wrong(candidates: Sequence[Candidate]) -> list[Mutant]:
    unique = {one.source: one for one in candidates if not one.accepted and one.error_class in _WRONG}
    return [Mutant(one.source, one.fault, one.candidate_id) for one in unique.values()]


def reject(task: Task, reason: str, detail: str) -> Reject:
    return Reject("unit_tests", STEP, reason, detail[:500], task.task_id)
