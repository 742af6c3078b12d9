"""An analysis that the traces contradict is corrected once; what stays contradicted is marked."""

import dataclasses

import pytest

from musadata.records import Annotation, Reject, Usage
from musadata.sampling.conversing import hold
from musadata.teacher.annotation import annotate
from musadata.teacher.claims.steps import render_analysis
from musadata.teacher.prompts import STEPS, PromptForm, form_of, render_generation
from musadata.teacher.protocol import Answer, CannotAnswer, RequestFailed
from musadata.teacher.reasoning import write_analysis
from tests.tracing.examples import example, traces_of

TASK, TRACES = example("gelu_chain"), traces_of("gelu_chain")
STEPS_WRITTEN, CLAIMS = write_analysis(TASK, TRACES)
RIGHT = render_analysis(STEPS_WRITTEN, CLAIMS.items())
WRONG = RIGHT.replace("(8, 33)", "(8, 34)")
PAID = Usage(prompt_tokens=10, completion_tokens=5)


def annotated(*answers: str | Exception):
    asked = []

    def ask(request):
        asked.append(request)
        given = answers[len(asked) - 1]
        if isinstance(given, Exception):
            raise given
        return Answer(given, usage=PAID)

    return hold(annotate(TASK, TRACES, "model", 7), ask), asked


def test_a_grounded_analysis_is_not_asked_for_again():
    row, asked = annotated(RIGHT)
    assert isinstance(row, Annotation) and row.grounded and row.usage == PAID
    assert len(asked) == 1


def test_the_correcting_request_names_the_contradicted_claims():
    row, asked = annotated(WRONG, RIGHT)
    assert row.grounded and row.ungrounded == () and len(asked) == 2
    *before, answer, question = asked[1].messages
    assert tuple(before) == asked[0].messages and asked[1].turn == 2
    assert answer.role == "assistant" and answer.content == WRONG
    assert question.role == "user" and "(8, 34)" in question.content
    assert row.usage == Usage(prompt_tokens=20, completion_tokens=10)


@pytest.mark.parametrize("second", [WRONG, "I cannot.", CannotAnswer("no"), RequestFailed("timed out")])
def test_there_is_one_correction_and_the_first_analysis_stays_flagged_if_it_does_not_help(second):
    row, asked = annotated(WRONG, second)
    assert len(asked) == 2
    assert not row.grounded and any("(8, 34)" in claim for claim in row.ungrounded)
    assert [step.step for step in row.reasoning] == list(STEPS)


def test_an_answer_without_six_steps_is_a_reject():
    row, asked = annotated("Nothing to say.")
    assert isinstance(row, Reject) and row.reason == "steps missing"
    assert len(asked) == 1


def test_a_flagged_analysis_is_in_no_generation_prompt():
    from musadata.sampling.rollout import run_rollout
    from tests.sampling.test_rollout import VERDICT

    row, _ = annotated(WRONG, WRONG)
    asked = []

    def ask(request):
        asked.append(request)
        return Answer("```python\npass\n```")

    names = (f"task-{number}" for number in range(20))
    task = dataclasses.replace(TASK, task_id=next(name for name in names if form_of(name) is PromptForm.PLAN))
    for annotation in (row, dataclasses.replace(row, grounded=True)):
        run_rollout(task, annotation, 0, 1, 7, ask, lambda task, annotation, answer: VERDICT)
    flagged, grounded = ("\n".join(message.content for message in request.messages) for request in asked)
    assert "(8, 34)" not in flagged and "(8, 34)" in grounded
    assert asked[0].messages == render_generation(TASK, TRACES, ())
