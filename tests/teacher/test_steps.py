"""The six steps are found under whatever headings a model writes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musadata.records import ReasoningStep
from musadata.teacher.claims.steps import parse_steps, read_sections, split_sentences


@pytest.mark.parametrize(
    "heading",
    [
        "## 4. Index mapping",
        "**Index Mapping**",
        "### Step 4: index mapping",
        "4) index mapping",
        "#### **4. Index-Mapping:**",
        "Index mapping:",
    ],
)
def test_steps_are_read_however_a_model_writes_the_heading(heading):
    text = (
        f"<think>## Index mapping\nno</think>\nHere it is.\n{heading}\nThe mapping.\n\n### Error preanalysis\nErrors."
    )
    assert parse_steps(text) == (
        ReasoningStep("index mapping", "The mapping."),
        ReasoningStep("error pre-analysis", "Errors."),
    )


def test_an_answer_without_headings_has_no_steps_and_an_empty_step_does_not_count():
    assert parse_steps("I cannot help with index mapping.") == ()
    assert parse_steps("## Index mapping\n\n## Boundary handling\nGuard it.") == (
        ReasoningStep("boundary handling", "Guard it."),
    )


def test_claims_behind_the_steps_are_no_part_of_them():
    text = "### 6. Error pre-analysis\n\nErrors.\n\n### 7. Claims\n\n[]"
    assert parse_steps(text) == (ReasoningStep("error pre-analysis", "Errors."),)
    assert read_sections(text)["claims"] == "[]"


def test_sentences_are_read_without_code_and_marks():
    text = "- `x` has 1.5 times 2. It is wide.\n* Guard it: `if (i < n)`.\n```cuda\nint i = 0; // No.\n```\nNo."
    assert split_sentences(text) == ["`x` has 1.5 times 2.", "It is wide.", "Guard it: `if (i < n)`."]


@given(st.text(max_size=300))
@settings(max_examples=100, deadline=None)
def test_any_text_is_read(text):
    assert all(step.text for step in parse_steps(text))
    split_sentences(text)
