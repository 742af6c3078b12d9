"""Weights by weakness and targets."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from musadata.errors import MusadataError
from musadata.sampling.mixing import PRIOR, Cell, Measured, check_targets, mix, shares, weakness
from musadata.training_config import MixingConfig

DEFAULT = MixingConfig()
COUNTS = st.tuples(st.integers(0, 500), st.integers(0, 500)).map(lambda pair: (max(pair), min(pair)))
MEASURED = st.dictionaries(
    st.sampled_from(["softmax", "convolution", "elementwise", "reduction"]), COUNTS, min_size=1
).map(lambda found: [Measured(name, *counts) for name, counts in found.items()])


def test_weights_are_the_ratios_of_failures():
    """250 of 1000 fail on average; convolution 150 + 2 of 200 + 8, elementwise 100 + 2 of 800 + 8."""
    measured = [Measured("convolution", 200, 50), Measured("elementwise", 800, 700)]
    assert PRIOR == 8
    found = weakness(measured, DEFAULT)
    assert found["convolution"] == pytest.approx(152 / 208 / 0.25)
    assert found["elementwise"] == pytest.approx(102 / 808 / 0.25)
    milder = weakness(measured, MixingConfig(strength=0.5))
    assert milder["convolution"] == pytest.approx(math.sqrt(152 / 208 / 0.25))


def test_few_answers_say_little_and_none_nothing():
    measured = [Measured("softmax", 1, 0), Measured("elementwise", 500, 400)]
    assert 1.0 < weakness(measured, DEFAULT)["softmax"] < 1.5
    assert weakness([], DEFAULT) == {}
    assert weakness([Measured("softmax", 0, 0)], DEFAULT) == {}


@pytest.mark.parametrize("passed", [0, 100])
def test_where_all_are_equal_all_weights_are_one(passed):
    measured = [Measured("softmax", 100, passed), Measured("elementwise", 100, passed)]
    assert set(weakness(measured, DEFAULT).values()) == {1.0}


@given(MEASURED)
def test_the_weaker_family_never_weighs_less(measured):
    weights = weakness(measured, DEFAULT)
    equal = [one for one in measured if one.judged == 100]
    for one in equal:
        for other in equal:
            assert (one.passed < other.passed) <= (weights[one.operator_family] >= weights[other.operator_family])
    assert all(DEFAULT.least <= weight <= DEFAULT.most for weight in weights.values())


CELLS = st.dictionaries(
    st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), st.integers(1, 1000), min_size=1, max_size=9
).map(lambda found: [Cell(*key, rows) for key, rows in found.items()])


@given(CELLS, st.dictionaries(st.sampled_from("xyz"), st.floats(0.3, 3)), st.floats(0, 0.9))
def test_weights_are_one_on_average_and_no_row_is_lost(cells, weights, target):
    mixed = mix(cells, weights, MixingConfig(families={"a": target}))
    assert [(one.family, one.operator_family, one.rows) for one in mixed] == [
        (one.family, one.operator_family, one.rows) for one in cells
    ]
    assert sum(one.mass for one in mixed) == pytest.approx(sum(one.rows for one in cells))
    assert all(one.weight > 0 for one in mixed)


def test_targets_are_met_where_bounds_allow_it_and_the_rest_keeps_its_proportions():
    cells = [Cell("generation", "x", 600), Cell("repair", "x", 300), Cell("reasoning", "y", 100)]
    mixed = mix(cells, {}, MixingConfig(families={"repair": 0.6}))
    found = {
        one["family"]: (one["share"], one["target"], one["achieved"])
        for one in shares(mixed, {"repair": 0.6}, "family")
    }
    assert found["repair"] == (0.3, 0.6, 0.6)
    assert found["generation"] == (0.6, None, pytest.approx(0.4 * 6 / 7, abs=1e-4))
    bounded = mix(cells, {}, MixingConfig(families={"reasoning": 0.9}, most=2.0))
    achieved = {one["family"]: one["achieved"] for one in shares(bounded, {}, "family")}
    assert 0.1 < achieved["reasoning"] < 0.9  # what was achieved is said, not what was asked for


def test_a_target_for_what_is_not_there_changes_nothing_and_is_reported():
    cells = [Cell("generation", "x", 10)]
    targets = {"review": 0.5}
    mixed = mix(cells, {}, MixingConfig(families=targets))
    assert [one.weight for one in mixed] == [1.0]
    assert {"family": "review", "rows": 0, "share": 0.0, "target": 0.5, "achieved": 0.0} in shares(
        mixed, targets, "family"
    )
    assert mix([], {}, DEFAULT) == []


@pytest.mark.parametrize(
    ("targets", "said"),
    [({"softmaxx": 0.1}, "softmaxx"), ({"softmax": 1.5}, "0 to 1"), ({"softmax": 0.7, "matmul": 0.7}, "add up to 1.4")],
)
def test_wrong_targets_are_named(targets, said):
    with pytest.raises(MusadataError, match=said):
        check_targets(targets, "mixing.operator_families", ["softmax", "matmul"])
