"""The compiler as a teacher: samples, faults and repairs."""

from dataclasses import replace

import pytest

from musadata.compiler.faults import KINDS
from musadata.config import TeacherConfig
from musadata.teacher.compiler_teacher import CompilerTeacher
from musadata.teacher.protocol import CannotAnswer, Request, RequestKind
from musadata.training_rows import ChatMessage
from musadata.verifier.extract import extract
from tests.compiler.references import task_of, traces_of

FEEDBACK = (
    "The candidate compiles and runs, but its results are not right.\n- The output is wrong in 3 of 148 elements."
)


@pytest.fixture(scope="module")
def teacher():
    with CompilerTeacher(TeacherConfig(samples=3, faults=1), seed=7) as opened:
        yield opened


def ask(teacher, name, sample=0, turn=1):
    kind = RequestKind.GENERATE if turn == 1 else RequestKind.REPAIR
    messages = () if turn == 1 else (ChatMessage("user", FEEDBACK),)
    return teacher.answer(Request(kind, task_of(name), traces_of(name), messages, sample=sample, turn=turn))


def changed(forward):
    task = task_of("gelu")
    return replace(task, task_id=f"task-{forward}", reference=task.reference.replace("return F.gelu(x)", forward))


def test_answers_hold_one_candidate_and_say_what_was_done(teacher):
    answer = ask(teacher, "softmax")
    assert extract(answer.text).source.count("class ModelNew") == 1
    assert answer.schedule
    assert answer.fault == ""


def test_the_last_sample_holds_a_fault_and_the_others_do_not(teacher):
    faults = [ask(teacher, "linear", sample).fault for sample in range(3)]
    assert faults[:2] == ["", ""]
    assert set(faults[2].split("+")) <= set(KINDS)


def test_samples_without_a_fault_differ(teacher):
    assert ask(teacher, "convolution", 0).text != ask(teacher, "convolution", 1).text


def test_a_repair_ends_in_the_honest_kernel_and_shows_the_change(teacher):
    answers = [ask(teacher, "softmax", sample=2)]
    while answers[-1].fault:
        answers.append(ask(teacher, "softmax", sample=2, turn=len(answers) + 1))
        assert answers[-1].text.startswith("```diff\n@@ -")
    assert len(answers) > 1


def test_an_honest_answer_that_was_refused_is_followed_by_another_schedule(teacher):
    assert ask(teacher, "softmax", turn=2).text.partition("```")[2] != ask(teacher, "softmax").text.partition("```")[2]


def test_the_same_request_gives_the_same_answer_in_another_teacher(teacher):
    with CompilerTeacher(TeacherConfig(samples=3, faults=1), seed=7) as other:
        for sample in range(3):
            assert ask(other, "max pool", sample) == ask(teacher, "max pool", sample)


def test_what_cannot_be_lowered_is_refused_with_a_reason(teacher):
    with pytest.raises(CannotAnswer, match=r"no lowering for aten\.linalg_qr"):
        teacher.answer(Request(RequestKind.GENERATE, changed("return torch.linalg.qr(x)[0]"), traces_of("gelu"), ()))


def test_a_hostile_reference_harms_nobody(teacher):
    with pytest.raises(CannotAnswer, match="tracing failed"):
        teacher.answer(Request(RequestKind.GENERATE, changed("import os; os._exit(3)"), traces_of("gelu"), ()))
