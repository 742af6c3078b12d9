"""Inputs that nobody can expect."""

import pytest
import torch

from musadata.records import InputSpec
from musadata.tracing.inputs import draw
from musadata.verifier.protocol.variants import (
    DRIFTED,
    ELEMENT,
    HUGE,
    LARGE,
    NEARLY,
    NEGATED,
    NUDGED,
    OPPOSED,
    ORDERED,
    ORDERED_ACROSS,
    OUTLIERS,
    PERMUTED,
    REDRAWN,
    STRIPED,
    SWAPPED,
    ZEROED,
)
from musadata.verifier.sandboxed.draws import apply_variant

X = InputSpec("x", "normal", "float32", (16, 64))
INDICES = InputSpec("i", "integers", "int64", (40,), 0.0, 9.0)


def changed(variant, specs=(X,), seed=5):
    values = draw(specs, seed)
    return values, apply_variant(specs, values, variant, seed)


def test_each_perturbation_changes_a_little_more_than_the_one_before():
    ((plain,), (swapped,)), (_, (element,)), (_, (permuted,)) = (changed(v) for v in (SWAPPED, ELEMENT, PERMUTED))
    assert (plain != swapped).sum() == 2 and plain.sort().values.shape == swapped.shape
    assert torch.equal(plain.flatten().sort().values, swapped.flatten().sort().values)
    assert (swapped != element).sum() == 1
    (rows,) = (element != permuted).any(1).nonzero(as_tuple=True)
    assert len(rows) == 1 and torch.equal(element.sort(1).values, permuted.sort(1).values)


def test_no_place_is_among_the_first_or_a_multiple_of_a_small_number():
    for seed in range(20):
        (plain,), (element,) = changed(ELEMENT, seed=seed)
        places = (plain != element).flatten().nonzero().flatten()
        assert 1 <= len(places) <= 3 and all(place % 2 and place % 3 and place >= 128 for place in places)
        assert places.min() < 512 and (len(places) < 3 or 512 < places[1:].min() < places.max() < 1000)


def test_most_of_a_set_of_integers_is_in_one_place():
    for variant, most in ((ORDERED, 0), (ORDERED_ACROSS, 8)):
        _, (found,) = changed(variant, (INDICES,))
        assert (found == most).sum() >= 35


def test_of_several_inputs_the_first_stays_while_the_others_change():
    (_, (x, indices)) = changed(SWAPPED, (X, INDICES))
    (_, (same, other)) = changed(ELEMENT, (X, INDICES))
    assert torch.equal(x, same) and (indices != other).sum() == 1
    assert other.min() >= 0 and other.max() < 9


@pytest.mark.parametrize("variant", [ORDERED, ORDERED_ACROSS])
def test_ordered_rows_hold_the_values_that_they_held(variant):
    (plain,), (ordered,) = changed(variant)
    axis = 1 if variant == ORDERED else 0
    assert torch.equal(plain.sort(axis).values, ordered.sort(axis).values)
    rows = ordered.movedim(axis, 1)
    assert torch.equal(rows[0], rows[0].sort().values) and torch.equal(rows[2], rows[2].sort(descending=True).values)


def test_constants_are_redrawn_far_from_what_they_were():
    ones = InputSpec("s", "uniform", "float32", (1,), 1.0, 1.000001)
    tiny = InputSpec("d", "uniform", "float32", (3,), 1e-5, 1e-5 + 1e-6)
    for seed in range(8):
        _, (one, other, x) = changed(REDRAWN, (ones, tiny, X), seed)
        assert abs(one - 1.0) > 0.25 and 0.25 < one < 2.5
        assert (other > 0.25).all()
        assert torch.equal(x, draw([ones, tiny, X], seed)[2])


def test_a_step_is_taken_to_zero_and_a_slope_to_nearly_what_it_is():
    step, slope = (
        InputSpec("s", "integers", "int64", (), 37.0, 38.0),
        InputSpec("b", "uniform", "float32", (), 1.0, 1.000001),
    )
    first, nearly = (changed(variant, (step, slope))[1] for variant in (ZEROED, NEARLY))
    assert [float(one) for one in first] == [0.0, 0.0]
    assert nearly[0] == 37 and 1.0 < nearly[1] < 1.005
    assert {int(changed(REDRAWN, (step,), seed)[1][0]) for seed in range(2)} == {18, 32 * 37 + 257}
    assert changed(NEGATED, (step,))[1][0] == 37


def test_a_nudge_leaves_the_upper_bits_of_each_element():
    (_, (permuted,)), (_, (nudged,)) = changed(PERMUTED), changed(NUDGED)
    upper = [value.view(torch.int32) >> 16 for value in (permuted, nudged)]
    assert torch.equal(*upper) and (permuted != nudged).all()


def test_two_seeds_in_a_row_take_a_constant_to_both_sides():
    ones = InputSpec("s", "uniform", "float32", (), 1.0, 1.000001)
    for seed in range(8):
        found = sorted(float(changed(REDRAWN, (ones,), seed + more)[1][0]) for more in (0, 1))
        assert found[0] < 1.0 < found[1]


def test_a_drift_moves_each_element_by_the_same_little():
    (_, (nudged,)), (_, (drifted,)) = changed(NUDGED), changed(DRIFTED)
    assert ((drifted - nudged) - 2.0**-11).abs().max() < 1e-6


def test_integers_of_a_wide_range_share_their_lower_bits():
    wide = InputSpec("i", "integers", "int64", (400,), 5.0, 1e12)
    _, (found,) = changed(STRIPED, (wide,))
    assert ((found - 5) % (1 << 22) == 0).all() and len(found.unique()) > 300
    assert torch.equal(*[one[0] for one in changed(STRIPED, (INDICES,))])


def test_outliers_leave_most_rows_as_they_were():
    (plain,), (found,) = changed(f"{OUTLIERS}1e+06")
    assert found[0, 0] >= 1e6 and set((found != plain).any(1).nonzero().flatten().tolist()) == {0, 8}


def test_stripes_and_peaks_have_the_largest_values_at_places_of_one_kind():
    (plain,), (found,) = changed(STRIPED, (InputSpec("x", "normal", "float32", (32, 128)),))
    assert torch.equal(plain.sort(1).values, found.sort(1).values)
    top = found.topk(4).indices
    assert any(len(set((row % 32).tolist())) == 1 for row in top)
    assert {0, 64, 32, 16} <= set(found.argmax(1).tolist())


def test_half_sums_overflow_where_their_means_do_not():
    specs = [InputSpec(name, "normal", "float16", (16, 256)) for name in "xy"]
    _, (huge, _) = changed(HUGE, specs)
    _, (left, right) = changed(LARGE, specs)
    for values in (huge, left * right):
        rows = values.double()
        assert float(rows.mean(1).abs().max()) < 65504 < float(rows.sum(1).abs().min())


def test_products_of_opposed_inputs_are_below_zero_whatever_stands_between():
    labels = InputSpec("labels", "integers", "int64", (16,), 0.0, 9.0)
    _, (left, _, right) = changed(OPPOSED, (X, labels, X))
    assert float((left * right).max()) < 0 and float((left @ right.T).max()) < 0
