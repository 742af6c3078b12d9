from collections import Counter
from types import SimpleNamespace

import pytest

from benchmarks.rows import distance, row_of_family, rows_of_outcomes, rows_of_turns, sentences_of


def test_sentences_are_counted_without_their_names_and_figures():
    assert sentences_of("`a` has 12 elements. `b` (3, 4) has 12 elements.") == [
        "_ has _ elements.",
        "_ _ has _ elements.",
    ]


def test_code_and_tables_are_no_prose():
    assert sentences_of("```python\nthis is one line\n```\n| a b c d |\n# a heading of words\nThis is a sentence.") == [
        "This is a sentence."
    ]


def test_the_distance_of_programs_is_the_share_of_their_lines_that_differ():
    assert distance("a\nb\nc\nd", "a\n\n  b\nc\nx") == pytest.approx(0.25)
    assert distance("a\nb", "a\nb") == 0


def test_turns_have_a_median_and_a_share_of_far_ones():
    kept = [row[3] for row in rows_of_turns([0.01, 0.2, 0.4])]
    assert kept == [True, True]
    assert [row[3] for row in rows_of_turns([0.01, 0.01, 0.4])] == [False, True]
    assert not any(row[3] for row in rows_of_turns([]))


def test_conversations_of_one_answer_have_no_outcome():
    held = [SimpleNamespace(candidates=("a",) * count, success=success) for count, success in [(1, True), (2, True)]]
    assert [row[2] for row in rows_of_outcomes(held)] == ["0.0% of 1", "0.0% of 1"]
    more = [*held, *(SimpleNamespace(candidates=("a",) * 3, success=success) for success in (True, False))]
    assert [row[2] for row in rows_of_outcomes(more)] == ["33.3% of 3", "33.3% of 3"]


def test_the_share_of_frequent_sentences_goes_by_words():
    _, _, measured, kept = row_of_family("review", Counter({f"sentence {number}": 2 for number in range(300)}))
    assert (measured, kept) == ("16.7% of 600", True)
