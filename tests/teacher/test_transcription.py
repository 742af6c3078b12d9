"""Sentences written as expressions over the facts: what is evaluated, what is refused, and what an analysis gains."""

import contextlib
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musadata.asking_config import GroundingConfig
from musadata.sampling.conversing import hold
from musadata.teacher.annotation import annotate
from musadata.teacher.claim_expressions import NAMES, CannotEvaluate, evaluate_claim
from musadata.teacher.grounding import check_sentences, parse_steps, share_checked
from musadata.teacher.grounding.facts import Facts
from musadata.teacher.grounding.steps import STEPS
from musadata.teacher.prompts import render_claims, render_steps
from musadata.teacher.protocol import Answer, CannotAnswer
from musadata.teacher.reasoning import write_reasoning
from musadata.teacher.transcription import judge_reply
from tests.tracing.examples import example, traces_of


def evaluate(text: str, name: str = "variance") -> bool:
    return evaluate_claim(text, [Facts(trace) for trace in traces_of(name)])


@pytest.mark.parametrize(
    ("claim", "holds"),
    [
        ('shape("x") == (4, 16, 8)', True),
        ('shape("x")[1:] == [16, 8]', True),
        ('stride("x")[0] == 128 and contiguous("x")', True),
        ('argument("var", "dim") == [1] and argument("var", "correction") == 0', False),
        ('argument("var", "dim") == [1] and argument("amax", "dim") == (0, 1)', True),
        ('argument("var", "keepdim")', True),
        ('nbytes("x") == 2048 and dtype("x") == "float32"', True),
        ('operands("var") == ("x",) and operator("amax") == "amax"', True),
        ('all((i // 128) * 128 + (i // 8) % 16 * 8 + i % 8 == i for i in range(numel("x")))', True),
        ('all(i % 16 == (i // 8) % 16 for i in range(numel("x")))', False),
        ('near(flops() / traffic(), intensity()) and bound() == "memory"', True),
        ('all(b * 128 + r * 8 < numel("x") for b in range(4) for r in range(16))', True),
        ('ceil_div(numel("x"), 100) == 6', True),
        ('"softmax" not in operators()', True),
        ('ceil(numel("x") / 100) == 6 and 6 * 100 - numel("x") == 88', True),
    ],
)
def test_an_expression_is_evaluated_on_the_facts(claim, holds):
    assert evaluate(claim) is holds


@pytest.mark.parametrize(
    "claim",
    [
        "",
        "2 * 2 == 4",  # names no fact
        'shape("x")',  # neither true nor false
        'shape("nothing") == ()',
        'shape("x", set=9) == (4, 16, 8)',
        'shape("x")[7] == 1',
        'numel("x") / 0 == 1',
        '__import__("os").system("true") == numel("x")',
        '(lambda: True)() and numel("x") == 512',
        '"{0.__class__}".format(shape("x")) == numel("x")',
        'numel("x") == 9 ** 9 ** 9',
        'numel("x") == sum(range(10 ** 9))',
        'all(i * j >= 0 for i in range(9999) for j in range(9999)) and numel("x") == 512',
        'all(all(i * j >= 0 for i in range(9999)) for j in range(9999)) and numel("x") == 512',
        'all(prod(range(1, 9999)) > i for i in range(9999)) and numel("x") == 512',
        'numel("x") == "a" * 999999999',
        'numel("x") == len([1] * 999999999)',
        "(" * 400,
    ],
)
def test_anything_else_is_refused_in_time(claim):
    start = time.process_time()
    with pytest.raises(CannotEvaluate):
        evaluate(claim)
    assert time.process_time() - start < 1.0


TOKENS = [*NAMES, "(", ")", '"x"', "==", "1", "[", "]", "for i in range(9)"]


@given(st.text(max_size=80) | st.lists(st.sampled_from(TOKENS)).map(" ".join))
@settings(max_examples=100, deadline=None)
def test_no_text_breaks_the_evaluation(text):
    with contextlib.suppress(CannotEvaluate):
        assert evaluate(text) in (True, False)


TASK, TRACES = example("gelu_chain"), traces_of("gelu_chain")
VAGUE = [
    ("Nobody would call `y` large beside `x`, which outweighs it eightfold.", 'numel("x") == 8 * numel("y")'),
    ("All that follows happens in the format of the input.", 'dtype("add") == dtype("x")'),
]


def judged(sentence: str, claim: str | None):
    steps = parse_steps(f"### 4. Index mapping\n\n{sentence}")
    checks = check_sentences(steps, TRACES)
    assert len(checks) == 1
    return judge_reply(checks, json.dumps([{"sentence": 1, "claim": claim}]), TRACES)


@pytest.mark.parametrize(("sentence", "claim"), VAGUE)
def test_words_that_no_rule_knows_are_checked_by_their_expression(sentence, claim):
    assert share_checked(judged(sentence, None)) == 0.0
    assert share_checked(judged(sentence, claim)) == 1.0


@pytest.mark.parametrize(
    ("sentence", "claim"),
    [
        ("Whoever counts finds 265 of them.", 'numel("x") == 264'),  # another figure than that of the sentence
        ("Whoever counts finds 264 of them.", "264 == 264"),  # no fact
        ("Whoever counts finds 264 of them.", "numel(x"),
    ],
)
def test_an_expression_that_is_not_about_its_sentence_checks_nothing(sentence, claim):
    assert share_checked(judged(sentence, claim)) == 0.0


def answering(*replies):
    asked = []

    def ask(request):
        asked.append(request)
        given = replies[len(asked) - 1]
        if isinstance(given, Exception):
            raise given
        return Answer(given)

    return ask, asked


ANALYSIS = render_steps(write_reasoning(TASK, TRACES))
FALSE = ANALYSIS + "\n\nThe vector outweighs the matrix."
COUNT = len(check_sentences(parse_steps(FALSE), TRACES))
CLAIMED = json.dumps([{"sentence": COUNT, "claim": 'numel("y") > numel("x")'}])


def test_a_sentence_whose_expression_is_false_is_corrected():
    ask, asked = answering(FALSE, CLAIMED, ANALYSIS, "[]")
    row = hold(annotate(TASK, TRACES, "model", 7, GroundingConfig(transcribe=True)), ask)
    assert row.grounded and len(asked) == 4
    assert [request.turn for request in asked] == [1, 3, 2, 4]  # answers are kept by it
    assert "The vector outweighs the matrix" in asked[2].messages[-1].content


@pytest.mark.parametrize("reply", ["I would rather not.", "[1, 2]", CannotAnswer("no")])
def test_an_analysis_whose_sentences_are_not_transcribed_is_checked_by_rules_alone(reply):
    ask, asked = answering(FALSE, reply)
    row = hold(annotate(TASK, TRACES, "model", 7, GroundingConfig(transcribe=True)), ask)
    assert row.grounded and 0.0 < row.checked < 1.0 and len(asked) == 2


def test_an_analysis_of_which_too_little_is_checked_is_not_trained_on():
    padded = ANALYSIS + "\n\n" + "It is what it is, and one may say so at length. " * 200
    ask, _ = answering(padded, padded)
    row = hold(annotate(TASK, TRACES, "model", 7, GroundingConfig(least_checked=0.4)), ask)
    assert not row.grounded and row.checked < 0.4
    assert row.ungrounded[0].endswith("% of the sentences could be checked, 40 % are needed")


def test_the_request_lists_every_sentence_and_every_name():
    text = render_claims(["One.", "Two."])[0].content
    assert "1. One." in text and "2. Two." in text
    assert all(f"{name}(" in text for name in NAMES)
    assert len(STEPS) == 6
