"""A test is kept if it tells right programs from wrong ones; the stand-in for the sandbox knows what each test sees."""

import dataclasses

import pytest

from musadata.config import UnitTestsConfig
from musadata.records import Candidate, ErrorClass, Reject, UnitTest, VerifyStage
from musadata.sampling.unit_tests import Mutant, ask_for_test, check_test
from musadata.teacher.protocol import REQUEST_FAILED, Answer, CannotAnswer, RequestFailed, RequestKind
from musadata.verifier.protocol.unit_tests import Failure, UnitTestRun
from tests.sampling.test_rollout import ANNOTATION, TASK
from tests.tracing.examples import traces_of

TRACED = dataclasses.replace(ANNOTATION, traces=traces_of("relu"))

TEST = "def test_values(reference, candidate):\n    assert candidate(1) == reference(1)\n"
ANSWER = Answer(f"Here it is.\n\n```python\n{TEST}```\n")
CONFIG = UnitTestsConfig()
SEEN = Failure("test_values", "1 != 2")


def candidate(source, error=None, fault="", kept=False) -> Candidate:
    return Candidate(
        candidate_id=f"id of {source}",
        task_id=TASK.task_id,
        sample=0,
        turn=1,
        parent_id="",
        source=source,
        teacher="compiler",
        schedule="",
        fault=fault,
        accepted=error is None,
        kept=kept,
        error_class=error,
        stage=VerifyStage.PROFILE,
        backend="emulated",
        test_share=1.0,
        speedup=None,
        reward=0.0,
        structure="",
        findings=(),
        feedback="",
        split="train",
    )


RIGHT = candidate("right")
WRONG = candidate("wrong", ErrorClass.CORRECTNESS, "off_by_one")


def check(candidates, fails=("wrong",), seeded=lambda: (), answer=ANSWER, config=CONFIG):
    """The result, and the programs on which the test was run, in order."""
    ran = []

    def run(task, test, programs, right):
        found = []
        for number, program in enumerate(programs):
            ran.append(program)
            found.append(UnitTestRun(failed=(SEEN,)) if program in fails else UnitTestRun(("test_values",)))
            if number < right and not found[-1].ok:
                break
        return found

    return check_test(TASK, 0, answer, "compiler", candidates, seeded, run, config), ran


def test_a_test_that_passes_right_programs_and_fails_wrong_ones_is_kept():
    row, ran = check([RIGHT, WRONG])
    assert isinstance(row, UnitTest)
    assert ran == ["", "right", "wrong"]
    assert (row.source, row.functions, row.honest, row.caught_share) == (TEST, ("test_values",), ("id of right",), 1.0)
    [mutant] = row.mutants
    assert (mutant.candidate_id, mutant.fault, mutant.caught_by) == ("id of wrong", "off_by_one", "test_values")


@pytest.mark.parametrize(
    ("fails", "reason"),
    [
        (("",), "fails the reference"),
        (("right", "wrong"), "fails an accepted candidate"),
        ((), "passes wrong programs"),
    ],
)
def test_a_test_that_does_not_tell_right_from_wrong_is_a_reject(fails, reason):
    row, _ = check([RIGHT, WRONG], fails)
    assert isinstance(row, Reject) and row.reason == reason


def test_a_test_that_misses_too_many_wrong_programs_is_a_reject_that_names_them():
    others = [candidate(f"wrong {number}", ErrorClass.RUNTIME, f"fault{number}") for number in range(3)]
    row, _ = check([RIGHT, WRONG, *others], fails=("wrong", "wrong 0", "wrong 1"))
    assert isinstance(row, Reject) and "fault2" in row.detail and "fault1" not in row.detail
    kept, _ = check([RIGHT, WRONG, *others], ("wrong", "wrong 0", "wrong 1"), config=UnitTestsConfig(least_caught=0.7))
    assert isinstance(kept, UnitTest) and kept.caught_share == 0.75


def test_programs_that_do_not_compile_or_that_cheat_say_nothing_about_a_test():
    others = [candidate(error.value, error) for error in (ErrorClass.COMPILE, ErrorClass.CHEATING, ErrorClass.INFRA)]
    row, ran = check([RIGHT, *others])
    assert isinstance(row, Reject) and row.reason == "no wrong program"
    assert ran == ["", "right"]


def test_a_seeded_fault_serves_where_no_candidate_is_wrong_and_its_source_is_kept():
    row, _ = check([RIGHT], ("seeded",), lambda: iter([Mutant("seeded", "wrong_axis"), Mutant("more", "x")]))
    assert isinstance(row, UnitTest)
    assert [(one.candidate_id, one.source, one.fault) for one in row.mutants] == [("", "seeded", "wrong_axis")]


def test_a_seeded_fault_that_changes_nothing_is_passed_over():
    seeded = [Mutant("neutral", "a", is_wrong=lambda source: False), Mutant("seeded", "b")]
    row, _ = check([RIGHT], ("seeded",), lambda: iter(seeded))
    assert isinstance(row, UnitTest) and [one.fault for one in row.mutants] == ["b"]
    missed, _ = check([RIGHT], (), lambda: iter(seeded))
    assert isinstance(missed, Reject) and "not caught: b" in missed.detail


def test_as_many_programs_are_run_as_the_config_says_those_first_that_differ():
    right = [candidate(f"right {number}", kept=number == 2) for number in range(3)]
    wrong = [candidate(f"wrong {number}", ErrorClass.RUNTIME) for number in range(3)]
    _, ran = check([*right, *wrong], [one.source for one in wrong], config=UnitTestsConfig(honest=1, mutants=2))
    assert ran == ["", "right 2", "wrong 0", "wrong 1"]


@pytest.mark.parametrize(
    "text", ["I cannot do that.", "```python\nx = 1\n```", "```python\ndef test_(:\n```", "", "```"]
)
def test_a_reply_without_a_test_is_a_reject(text):
    row, ran = check([RIGHT, WRONG], answer=Answer(text))
    assert isinstance(row, Reject) and row.reason == "no test in the reply" and not ran


def test_a_task_without_an_accepted_candidate_has_no_unit_test():
    row, ran = check([WRONG])
    assert isinstance(row, Reject) and row.reason == "no accepted candidate" and not ran


def test_the_teacher_is_asked_with_another_seed_for_each_sample_and_its_failures_are_rejects():
    asked = []

    def ask(request):
        asked.append(request)
        return ANSWER

    assert [ask_for_test(TASK, TRACED, sample, 3, ask) for sample in (0, 1)] == [ANSWER, ANSWER]
    assert {request.kind for request in asked} == {RequestKind.TEST}
    assert len({request.seed for request in asked}) == 2
    assert TASK.reference in asked[0].messages[-1].content

    def fail(error):
        def ask(request):
            raise error

        return ask_for_test(TASK, TRACED, 0, 3, ask)

    assert fail(RequestFailed("timeout")).reason == REQUEST_FAILED
    assert fail(CannotAnswer("no lowering")).reason == "no answer"


def test_rows_of_another_sample_have_another_id():
    rows = [check_test(TASK, sample, ANSWER, "t", [RIGHT, WRONG], tuple, _run, CONFIG) for sample in (0, 1)]
    assert rows[0].unit_test_id != rows[1].unit_test_id
    assert dataclasses.replace(rows[0], unit_test_id="", sample=1) == dataclasses.replace(rows[1], unit_test_id="")


def _run(task, test, programs, right):
    return [UnitTestRun(failed=(SEEN,)) if one == "wrong" else UnitTestRun(("test_values",)) for one in programs]
