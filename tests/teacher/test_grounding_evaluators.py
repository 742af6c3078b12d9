"""Sentences about axes, windows, elements, arguments and ranges, each true or false by the trace of an example."""

import pytest

from musadata.teacher.grounding import Outcome, check_text
from tests.tracing.examples import traces_of

SENTENCES = {
    "convolution": [  # x is (2, 3, 16, 16): 3 x 3, stride 2, padding 1; the result is (2, 8, 8, 8)
        ("In the top left corner 4 of the 9 taps lie inside the image.", True),
        ("In the top left corner 6 of the 9 taps lie inside the image.", False),
        ("At the upper edge three taps fall on padding.", True),
        ("Output row 7 covers input rows 13 to 15.", True),
        ("Output row 7 covers input rows 14 to 16.", False),
        ("Output row 0 reads input rows -1 to 1.", True),
        ("The window of output column 3 starts at input column 5.", True),
        ("The window of output column 3 starts at input column 6.", False),
        ("All taps are valid for rows 1 to 7.", True),
        ("All taps are valid for rows 0 to 7.", False),
    ],
    "softmax": [  # x is (8, 128), along the last axis
        ("The softmax runs over dim 1.", True),
        ("The softmax normalises across dim=0.", False),
        ("The softmax normalises over the 128 columns of a row.", True),
        ("The softmax normalises over the 8 rows of a column.", False),
    ],
    "turned_rows": [  # x is (20, 3, 21): layer norm over 20, then softmax over 21
        ("The layer norm averages over the 20 values of a row.", True),
        ("The layer norm averages over the 3 rows.", False),
        ("The softmax sums over the 21 columns.", True),
    ],
    "variance": [  # x is (4, 16, 8): variance over dim 1, then the maximum over dims 0 and 1
        ("The variance is taken over the 16 rows, the maximum over the batch.", True),
        ("The variance is taken along the batch axis.", False),
        ("The variance reads `x[3, 15, 7]` last.", True),
        ("The variance reads `x[3, 16, 7]` last.", False),
        ("`x[3, 15, 7]` lies at offset 511.", True),
        ("`x[3, 15, 7]` lies at offset 503.", False),
    ],
}


@pytest.mark.parametrize(
    ("example", "sentence", "is_true"),
    [(name, sentence, is_true) for name, some in SENTENCES.items() for sentence, is_true in some],
    ids=[sentence for some in SENTENCES.values() for sentence, _ in some],
)
def test_a_sentence_is_contradicted_only_if_it_is_false(example, sentence, is_true):
    claims = check_text(sentence, traces_of(example)[:1])
    assert any(claim.outcome is Outcome.CONTRADICTED for claim in claims) != is_true, claims
