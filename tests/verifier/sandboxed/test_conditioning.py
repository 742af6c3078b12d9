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
    order = torch.randperm(1600, generator=torch.Generator().manual_seed(0))
    values = torch.tensor([0.5, -0.5] * 400 + [1.5, -1.5] * 400)[order].reshape(8, 200)

    def choose(x):
        return torch.where(x.cumsum(1) > 0, 5.0, 0.0)

    of_rounded = conditions(lambda x: choose(torch.tanh(x)), values, exact=True) * CONDITION_FACTOR
    assert set(of_rounded.unique().tolist()) == {0.0, 5.0}
    at_zero = torch.tanh(values.double()).cumsum(1).abs() < 1e-9
    assert at_zero.any() and float((of_rounded[at_zero] == 5.0).double().mean()) > 0.9
    assert not of_rounded[torch.tanh(values).cumsum(1).abs() > 0.1].any()
    assert not conditions(choose, values, exact=True).any()


def one_after_the_other(values):
    """Sums of the last dimension in single precision, in order; and all of them on the way."""
    total, sums = torch.zeros(values.shape[:-1]), []
    for column in values.unbind(-1):
        total = total + column
        sums.append(total)
    return total, torch.stack(sums, -1)


def test_where_a_layer_norm_leaves_the_rounding_of_a_mean_that_is_allowed():
    values = 200.0 * torch.randn(300, generator=torch.Generator().manual_seed(0))

    def normalise(x):
        return torch.nn.functional.layer_norm(x.unsqueeze(-1).expand(-1, 9), (9,))

    centred = values - one_after_the_other(values.unsqueeze(-1).expand(-1, 9))[0] / 9
    error = centred / (centred * centred + 1e-5).sqrt()  # the exact result is 0
    assert float(error.abs().max()) > 1e-3
    assert bool((error.abs() <= CONDITION_FACTOR * conditions(normalise, values)[:, 0]).all())
    assert not conditions(normalise, values.round()).any()


def test_partial_sums_that_are_larger_than_their_sum_are_rounded_too():
    values = torch.randn(64, 4096, generator=torch.Generator().manual_seed(0)).sort(1).values
    error = (one_after_the_other(values)[0] - values.double().sum(1)).abs()
    unit = torch.finfo(torch.float32).eps / 2
    assert float(error.max()) > 500 * unit * 64
    assert bool((error <= CONDITION_FACTOR * conditions(lambda x: x.sum(1), values)).all())


def test_no_element_of_many_is_allowed_too_little_by_chance():
    values = torch.randn(8, 20000, generator=torch.Generator().manual_seed(0)) - 2.0

    def spread(x):
        return torch.softmax(x.cumsum(1), dim=0)

    truth = spread(values.double())
    error = (torch.softmax(one_after_the_other(values)[1], dim=0) - truth).abs()
    telling = error > 170 * torch.finfo(torch.float32).eps / 2 * truth
    assert float(telling.double().mean()) > 0.01
    assert bool((error <= CONDITION_FACTOR * conditions(spread, values))[telling].all())


def test_a_choice_among_values_of_a_half_type_may_fall_on_either_side_of_their_rounding():
    draws = torch.Generator().manual_seed(0)
    values, first, second = (torch.randn(size, generator=draws).half() for size in ((900, 64), (64, 64), (64, 600)))

    def keep_best(x, narrow=lambda x: x):
        scores = narrow(narrow(x @ first.to(x.dtype)) @ second.to(x.dtype))
        return torch.where(scores < scores.topk(200).values[:, -1:], 0.0, 1.0).to(x.dtype)

    def round_either_way(x):
        near = torch.rand(x.shape, generator=draws) - 0.5
        return (x * (1.0 + near * torch.finfo(torch.float16).eps)).half().float()

    other = keep_best(values.float(), round_either_way) != keep_best(values.double())
    found = conditions(keep_best, values) * CONDITION_FACTOR
    assert int(other.sum()) > 50 and float((found[other] == 0).double().mean()) < 0.07
    assert float((found > 0).double().mean()) < 0.01
