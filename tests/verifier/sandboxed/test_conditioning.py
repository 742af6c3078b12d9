"""What is allowed next to a step, and what is not where inputs lie exactly on it."""

import torch

from musadata.verifier.protocol.tolerance import CONDITION_FACTOR
from musadata.verifier.sandboxed.conditioning import measure_conditioning


def conditions(function, values, exact=False):
    """Those of the only output of a function of one input."""
    truth = [function(values.double())]
    reference, oracle = (lambda moved: [function(moved[0])]), (lambda moved: [function(moved[0].double())])
    return measure_conditioning(reference, oracle, [values], truth, exact)[1][0]


def test_a_smooth_function_moves_as_its_inputs_do():
    values = torch.randn(500, generator=torch.Generator().manual_seed(0))
    found = conditions(lambda x: 3 * x, values)
    assert torch.allclose(found, 3 * values.abs() * torch.finfo(torch.float32).eps, rtol=1e-3)


def test_next_to_a_step_its_height_is_allowed_and_elsewhere_nothing():
    values = torch.tensor([0.3, 2.4999998, 2.5000005, -1.2])
    found = conditions(lambda x: torch.round(x) * 7, values) * CONDITION_FACTOR
    assert found.tolist() == [0, 7, 7, 0]
    assert (conditions(lambda x: torch.round(x).long(), values) * CONDITION_FACTOR).tolist() == [0, 1, 1, 0]


def test_integers_of_narrow_steps_may_be_next_door():
    values = 100.0 + torch.rand(300, generator=torch.Generator().manual_seed(0))
    found = conditions(lambda x: torch.floor(x * 1000).to(torch.int32), values) * CONDITION_FACTOR
    assert float(found.min()) >= 1 and float(found.max()) <= 3


def test_on_a_step_nothing_is_allowed_if_inputs_are_exact():
    values = torch.tensor([0.3, 2.5, 0.5, -1.25])
    assert conditions(torch.round, values, exact=True).tolist() == [0, 0, 0, 0]
    assert conditions(torch.round, values).tolist() != [0, 0, 0, 0]
    rounded = torch.tensor([2.4999998, 2.5, 1.0])  # only the first is a matter of rounding
    assert (conditions(torch.round, rounded, exact=True) * CONDITION_FACTOR).tolist() == [1, 0, 0]


def test_labels_and_other_whole_numbers_are_not_moved():
    labels = torch.tensor([1.0, -1.0, 1.0])
    assert not conditions(lambda x: torch.where(x == 1, 5.0, 0.0), labels).any()


def test_an_element_that_is_right_by_luck_is_allowed_what_rounding_costs_next_to_it():
    generator = torch.Generator().manual_seed(0)
    values = 100.0 + torch.randn(4000, generator=generator)

    def cancels(x):  # in float32 all of x but some bits is lost
        return (x + 4096.0) - 4096.0

    error = (cancels(values).double() - cancels(values.double())).abs()
    luck = error < error.median() / 20
    assert luck.any()
    allowed = conditions(cancels, values)[luck] * CONDITION_FACTOR
    assert float((allowed > error.median()).double().mean()) > 0.9


def test_a_reference_that_bears_no_other_inputs_has_its_condition_all_the_same():
    values = torch.tensor([0.3, 2.4])

    def picky(x):
        if x.dtype == torch.float32:
            raise ValueError("not these")
        return 2 * x

    assert conditions(picky, values).all()


def test_a_sum_near_a_threshold_may_fall_on_either_side_and_one_of_exact_values_may_not():
    values = torch.tensor([0.5, -0.5] * 400 + [1.5, -1.5] * 400)[torch.randperm(1600)].reshape(8, 200)

    def choose(x):
        return torch.where(x.cumsum(1) > 0, 5.0, 0.0)

    of_rounded = conditions(lambda x: choose(torch.tanh(x)), values, exact=True) * CONDITION_FACTOR
    assert set(of_rounded.unique().tolist()) == {0.0, 5.0}
    at_zero = torch.tanh(values.double()).cumsum(1).abs() < 1e-9
    assert at_zero.any() and float((of_rounded[at_zero] == 5.0).double().mean()) > 0.9
    assert not of_rounded[torch.tanh(values).cumsum(1).abs() > 0.1].any()
    assert not conditions(choose, values, exact=True).any()
