"""MirrorPop against numbers that were worked out by hand."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from musadata.sampling.mirrorpop import MASK, is_kept, keep_mask, mean_deviation, with_mask

LOGPROB = st.floats(-20, 0)
PAIRS = st.lists(st.tuples(LOGPROB, LOGPROB), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("trained", "sampled", "expected"),
    [
        ([-0.1, -0.5, -0.3], [-0.1, -0.2, -0.3], 0.1),  # (0 + 0.3 + 0) / 3
        ([-1.0, -3.0], [-2.0, -1.0], 1.5),  # (1 + 2) / 2
        ([math.log(0.5), math.log(0.25)], [math.log(0.25), math.log(0.5)], math.log(2)),  # ratios of 2 and 1/2
        ([-4.0], [-1.0], 3.0),
    ],
)
def test_mean_deviation_is_the_mean_of_the_absolute_log_ratios(trained, sampled, expected):
    assert mean_deviation(trained, sampled) == pytest.approx(expected)
    assert mean_deviation(sampled, trained) == pytest.approx(expected)


def test_deviations_of_opposite_sign_do_not_cancel():
    trained, sampled = [-1.0, -2.0], [-2.0, -1.0]
    assert np.mean(np.subtract(trained, sampled)) == 0.0
    assert not is_kept(trained, sampled, delta=0.5)


def test_a_sequence_at_the_limit_is_kept():
    assert is_kept([-1.0, -1.0], [-1.5, -1.0], delta=0.25)
    assert not is_kept([-1.0, -1.0], [-1.5, -1.0], delta=0.2499)


@pytest.mark.parametrize("pair", [([], []), ([-math.inf], [-math.inf]), ([math.nan], [-1.0]), ([-math.inf], [-1.0])])
def test_what_cannot_be_compared_is_not_kept(pair):
    assert not is_kept(*pair, delta=1e9)


def test_sequences_of_different_length_are_an_error():
    with pytest.raises(ValueError, match="2 token log-probabilities of one policy and 1 of the other"):
        mean_deviation([-1.0, -1.0], [-1.0])


def test_the_table_gets_a_column():
    columns = {
        "id": [1, 2, 3, 4],
        "trained": [[-0.1, -0.5, -0.3], [-1.0, -2.0], None, []],
        "sampled": [[-0.1, -0.2, -0.3], [-2.0, -1.0], [-1.0], []],
    }
    table = pa.table(columns)
    masked = with_mask(table, "trained", "sampled", delta=0.1 + 1e-9)
    assert masked[MASK].to_pylist() == [True, False, False, False]
    assert with_mask(masked, "trained", "sampled", delta=2.0)[MASK].to_pylist() == [True, True, False, False]
    assert with_mask(table.slice(1, 2), "trained", "sampled", delta=2.0)[MASK].to_pylist() == [True, False]


@given(st.lists(PAIRS, min_size=1, max_size=4), st.floats(0, 20))
def test_a_padded_batch_gives_what_its_sequences_give(batch, delta):
    width = max(map(len, batch))
    trained, sampled, tokens = np.full((3, len(batch), width), -math.inf)
    tokens[:] = 0
    for row, pairs in enumerate(batch):
        trained[row, : len(pairs)], sampled[row, : len(pairs)] = zip(*pairs, strict=True)
        tokens[row, : len(pairs)] = 1
    deviations = [mean_deviation(*zip(*pairs, strict=True)) for pairs in batch]
    kept = keep_mask(trained, sampled, tokens, delta)
    for deviation, one in zip(deviations, kept, strict=True):
        assert one == (deviation <= delta) or deviation == pytest.approx(delta)


@given(PAIRS)
def test_the_absolute_mean_is_never_below_the_signed_one(pairs):
    trained, sampled = zip(*pairs, strict=True)
    assert mean_deviation(trained, sampled) >= abs(np.mean(np.subtract(trained, sampled))) - 1e-9
