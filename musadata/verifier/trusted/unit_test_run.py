"""Running a unit test of a task on programs. It proves nothing about them; the verifier does that."""

from collections.abc import Sequence
from typing import Any

from musadata.records import Task
from musadata.rows import plain
from musadata.verifier.protocol.entry_points import RUN_UNIT_TEST
from musadata.verifier.protocol.message_encoding import clean_text, read_claims, serve_candidate
from musadata.verifier.protocol.unit_tests import IMPORT, Failure, UnitTestRun
from musadata.verifier.rules.native.called_functions import named_in
from musadata.verifier.trusted.candidate_session import Compilations
from musadata.verifier.trusted.verifier_resources import Resources


def run_unit_test(
    opened: Resources, task: Task, test: str, programs: Sequence[str], right: int
) -> tuple[UnitTestRun, ...]:
    """Run a test on programs, of which "" is the reference itself, up to the first of the first `right` that fails.

    Raises:
        Outage: the machine failed.
    """
    backend = opened.backend
    named = [named_in(program) for program in programs]
    called = None if None in named else frozenset[str]().union(*filter(None, named))
    ported = [backend.port(program) if program else "" for program in programs]
    outcome = opened.candidates.call(
        RUN_UNIT_TEST,
        test,
        task.reference,
        plain(task.inputs),
        ported,
        right,
        backend.child,
        serve=serve_candidate(Compilations(backend, called).serve),
    )
    if outcome.ok and isinstance(outcome.value, list) and outcome.value:
        return tuple(_read(one) for one in outcome.value[: len(programs)])
    if len(programs) == 1:
        why = outcome.describe_error() or f"the process ended: {outcome.status}"
        return (UnitTestRun(failed=(Failure(outcome.status, clean_text(why)),)),)
    return _one_by_one(opened, task, test, programs, right)  # one of them has ended the process of all


def _one_by_one(
    opened: Resources, task: Task, test: str, programs: Sequence[str], right: int
) -> tuple[UnitTestRun, ...]:
    found: list[UnitTestRun] = []
    for number, program in enumerate(programs):
        found += run_unit_test(opened, task, test, [program], 0)
        if number < right and not found[-1].ok:
            break
    return tuple(found)


def _read(said: Any) -> UnitTestRun:
    """What a process said of one program. Test and program may be anything, and so may what they say."""
    run = read_claims(UnitTestRun, said)
    passed = tuple(map(clean_text, run.passed))
    failed = tuple(Failure(clean_text(one.function), clean_text(one.why)) for one in run.failed)
    return UnitTestRun(passed, failed if passed or failed else (Failure(IMPORT, "nothing is known of it"),))
