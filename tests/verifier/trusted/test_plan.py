from musadata.config import VerifierConfig
from musadata.records import InputSpec
from musadata.verifier.protocol import variants
from musadata.verifier.trusted.plan import plan_calls, plan_sets

_SHAPES = [(InputSpec("x", "normal", "float32", shape),) for shape in ((4, 30), (5, 33), (2, 2051), (523, 2))]


def test_two_sets_of_shapes_are_drawn_in_full_and_each_further_one_once():
    sets = plan_sets(VerifierConfig(input_sets=3), "task", _SHAPES)
    plain = [one.variant for one in sets if one.shape == 2]
    assert plain == [variants.PLAIN] and [one.variant for one in sets if one.shape == 3] == plain
    assert sum(one.shape == 0 for one in sets) > 3 and sum(one.shape == 1 for one in sets) > 3
    assert sets[:2] == plan_sets(VerifierConfig(input_sets=3), "task", _SHAPES[:2])[:2]


def test_the_first_set_comes_again_at_once_hardly_changed():
    sets = plan_sets(VerifierConfig(input_sets=3), "task", _SHAPES)
    assert [one.variant for one in sets[:6]] == [variants.PLAIN, *variants.PERTURBED]
    assert len({(one.shape, one.seed) for one in sets[:6]}) == 1


def test_a_set_with_many_elements_is_drawn_once():
    many = (InputSpec("x", "normal", "float32", (251, 90)),)
    sets = plan_sets(
        VerifierConfig(input_sets=3), "task", [(InputSpec("x", "normal", "float32", (52, 90)),)] * 2 + [many]
    )
    assert [one.variant for one in sets if one.shape == 2] == [variants.PLAIN]


def test_calls_over_zeros_are_made_for_the_sets_that_are_drawn_in_full():
    calls = plan_calls([0, 1, 2, 3, 0, 1])
    assert [call.name for call in calls if call.name.startswith("zeros")] == ["zeros0", "zeros1"]
    assert len({call.name for call in calls}) == len(calls)


def test_most_sets_are_drawn_of_a_far_smaller_set_of_shapes():
    shapes = [*_SHAPES[:2], (InputSpec("x", "normal", "float32", (3, 4)),)]
    sets = plan_sets(VerifierConfig(input_sets=3), "task", shapes)
    assert [(one.shape, one.variant) for one in sets[:7]] == [
        *((shape, variants.PLAIN) for shape in (0, 2)),
        *((2, variant) for variant in variants.PERTURBED),
    ]
    assert len({one.seed for one in sets[1:7]}) == 1
    assert [one.variant for one in sets if one.shape == 0] == [
        *(variants.PLAIN, variants.SCALED, variants.OFFSET),
        variants.INFINITE,
    ]
    assert [one.variant for one in sets if one.shape == 1] == [variants.PLAIN]
    whole = plan_sets(VerifierConfig(input_sets=3), "task", shapes[:2])
    # the sets of shapes have other orders of these
    assert {one.variant for one in whole} - {one.variant for one in sets} == {variants.SMALL}


def test_what_an_input_set_is_there_for_is_its_condition_at_any_size():
    assert variants.condition_of(variants.InputSet(2, variants.REBUILT, 0)) == variants.REBUILT
    assert variants.condition_of(variants.InputSet(2, variants.TIES, 0)) == variants.SHAPES
