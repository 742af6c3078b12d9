"""What figures of a verdict show is arithmetic that holds, or nothing is said."""

import pytest

from musadata.teacher.evidence import read_evidence

PAST = "- kernel a_kernel block (15,0,0) thread (80,0,0): a read of 4 bytes 0 bytes past the end of a 15680-byte device"
TIMES = "wrong in 9 of 9 elements, first at [0]: 40 instead of 2; largest error 99. Each is 20 times what it should be."


@pytest.mark.parametrize(
    ("feedback", "said"),
    [
        (PAST, "the access is at element 3920 of an allocation with 3920"),
        (PAST.replace(" 0 bytes", " 8 bytes"), "the access is at element 3922 of an allocation with 3920"),
        (
            PAST.replace("of 4 bytes", "of 16 bytes"),
            "the access of 16 bytes is at byte 15680 of an allocation with 15680",
        ),
        ("The output has shape (40, 7, 35) instead of (7, 40, 35).", "dimensions 0 and 1 have changed places"),
        ("The output has shape (4, 7) instead of (4, 8).", "dimension 1 is 7 and should be 8"),
        ("The output has shape (4,) instead of (4, 1).", "the result has rank 1 and should have rank 2"),
        ("wrong in 9 of 9 elements (Only where inputs are strided.)", "contiguous inputs go well and views do not"),
        (TIMES, "all 9 are 20 times what they should be"),
        (
            "wrong in 1 of 1 elements: 7.5 instead of 0.75; largest error 6.75.",
            "the result is 10 times what it should be",
        ),
        ("wrong in 1 of 1 elements: 0.76 instead of 0.75; largest error 0.01. ", "the result is too large by 0.01"),
        (
            "wrong in 9 of 9 elements, first at [0]: -1 instead of 1; largest error 2. There",
            "the first of 9 elements is too small by 2, and none is off by more",
        ),
        (
            "wrong in 9 of 9 elements, first at [0]: -1 instead of 1; largest error 5.",
            "",
        ),
        ("wrong in 3 of 9 elements, first at [0]: -1 instead of 1; largest error 2.", ""),
        ("Not right.\n- It is wrong. All of these are NaN: overflow.", "what is wrong is NaN"),
        ("Not right.\n- It is wrong.\n- It is wrong. All of these are NaN: overflow.", ""),
        ("error: expected ';' before 'if'", ""),
    ],
)
def test_figures_are_read(feedback, said):
    assert read_evidence(feedback) == said
