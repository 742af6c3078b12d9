"""Sentences with expressions: what the facts say of them, and what an analysis is asked for."""

import json

import pytest

from musadata.asking_config import GroundingConfig
from musadata.records import ClaimOutcome, ReasoningStep
from musadata.sampling.conversing import hold
from musadata.teacher.annotation import annotate
from musadata.teacher.claims.expressions import NAMES, Facts
from musadata.teacher.claims.judging import judge_claim, judge_claims, share_checked
from musadata.teacher.claims.steps import parse_claims, render_analysis
from musadata.teacher.prompts import render_claims, render_reasoning, render_steps
from musadata.teacher.protocol import Answer, CannotAnswer
from musadata.teacher.reasoning import write_reasoning
from tests.tracing.examples import example, traces_of

TASK, TRACES = example("gelu_chain"), traces_of("gelu_chain")
FACTS = Facts(TRACES)
HOLDS, CONTRADICTED, UNCHECKED = ClaimOutcome


@pytest.mark.parametrize(
    ("sentence", "claim", "outcome"),
    [
        (
            "Nobody would call `y` large: `x` outweighs it eightfold.",
            'numel("x") == 8 * numel("y")',
            HOLDS,
        ),
        ("There are 8 × 33 = 264 elements.", 'numel("x") == 264', HOLDS),
        ("There are 8 × 33 = 265 elements.", 'numel("x") == 265', CONTRADICTED),
        ("There are 8 × 33 = 265 elements.", "8 * 33 == 265", CONTRADICTED),
        ("On the second set there are 243.", 'numel("x", set=2) == 243', HOLDS),
        (
            "Whoever counts finds 265 of them.",
            'numel("x") == 264',
            UNCHECKED,
        ),  # another figure
        ("Whoever counts finds 264 of them.", "264 == 264", UNCHECKED),  # no fact
        ("Whoever counts finds 264 of them.", "numel(x", UNCHECKED),
        ("Whoever counts finds 264 of them.", 'numel("z") == 264', UNCHECKED),
    ],
)
def test_a_sentence_is_contradicted_by_a_false_expression_alone(sentence, claim, outcome):
    assert judge_claim(sentence, claim, FACTS)[0] is outcome


def test_the_share_that_is_checked_counts_sentences():
    steps = (ReasoningStep("index mapping", "There are 264\nelements. Nobody knows why. They fit."),)
    claims = [("There are 264 elements.", 'numel("x") == 264'), ("Somebody else says so.", 'numel("x") == 264')]
    judged = judge_claims(claims, steps, FACTS)
    assert [(one.step, one.outcome) for one in judged] == [("index mapping", HOLDS)]  # the other stands in no step
    assert share_checked(judged, steps) == 0.5
    assert share_checked((), ()) == 0.0


def answering(*replies):
    asked = []

    def ask(request):
        asked.append(request)
        given = replies[len(asked) - 1]
        if isinstance(given, Exception):
            raise given
        return Answer(given)

    return ask, asked


ANALYSIS = write_reasoning(TASK, TRACES)
SENTENCE = "The vector outweighs the matrix."
PROSE = f"{render_steps(ANALYSIS)}\n\n{SENTENCE}"
FALSE = 'numel("y") > numel("x")'


def test_an_answer_is_asked_for_its_claims_and_keeps_them():
    claims = [(SENTENCE, FALSE), ("It is not there.", 'numel("x") == 1')]
    text = PROSE + render_analysis((), claims)
    assert parse_claims(text) == claims
    ask, asked = answering(text, PROSE)
    row = hold(annotate(TASK, TRACES, "model", 7), ask)
    assert asked[0].messages == render_reasoning(TASK, TRACES, ask_claims=True)
    assert "### Claims" in asked[0].messages[-1].content
    assert f'"{SENTENCE}": `{FALSE}` is false' in asked[1].messages[-1].content
    assert row.grounded and row.claims == () and row.checked == 0.0  # what has no expression is prose
    ask, _ = answering(text, text)
    row = hold(annotate(TASK, TRACES, "model", 7), ask)
    assert not row.grounded and [one.outcome for one in row.claims] == [CONTRADICTED]
    assert row.claims[0].why == "numel('y') is 33, numel('x') is 264"


def transcript(claim: str) -> str:
    last = render_claims(["One."])  # asks for numbers
    assert "1. One." in last[0].content
    return json.dumps([{"sentence": number, "claim": claim} for number in range(1, 200)])


def test_prose_may_be_transcribed_and_is_corrected():
    ask, asked = answering(PROSE, transcript(FALSE), PROSE, "[]")
    row = hold(annotate(TASK, TRACES, "model", 7, GroundingConfig(transcribe=True)), ask)
    assert row.grounded and len(asked) == 4
    assert [request.turn for request in asked] == [1, 3, 2, 4]  # answers are kept by it
    assert SENTENCE in asked[2].messages[-1].content


@pytest.mark.parametrize("reply", ["I would rather not.", "[1, 2]", CannotAnswer("no")])
def test_an_analysis_that_is_not_transcribed_is_prose(reply):
    ask, asked = answering(PROSE, reply)
    row = hold(annotate(TASK, TRACES, "model", 7, GroundingConfig(transcribe=True)), ask)
    assert row.grounded and row.checked == 0.0 and len(asked) == 2


def test_an_analysis_of_which_too_little_is_checked_is_not_trained_on():
    ask, _ = answering(PROSE, PROSE)
    row = hold(annotate(TASK, TRACES, "model", 7, GroundingConfig(least_checked=0.4)), ask)
    assert not row.grounded
    assert row.ungrounded == ("all steps: 0 % of the sentences could be checked, 40 % are needed",)


def test_every_request_for_expressions_describes_every_name():
    for messages in (render_claims(["One."]), render_reasoning(TASK, TRACES, ask_claims=True)):
        assert all(f"{name}(" in messages[-1].content for name in NAMES)
    assert "shape(" not in render_reasoning(TASK, TRACES)[-1].content  # what is trained on asks for prose
