"""What rounding explains of an error, and what it does not."""

import pytest
import torch

from musadata.verifier.sandboxed.double_precision import call_in_double
from musadata.verifier.sandboxed.rounding_noise import UNIT, measure_typical


class Function(torch.nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.function = forward

    def forward(self, *values):
        return self.function(*values)


def allowed(forward, *values):
    model, given = Function(forward), list(values)
    oracle = call_in_double(model, given, {})
    (found,) = measure_typical(lambda: [call_in_double(model, given, {})], [model(*given)], [oracle], 3)
    return found


def typical(found, truth):
    return float(((found.double() - truth).abs() / (truth.abs() + truth.square().mean().sqrt())).median()) / UNIT


X, Y = torch.randn(64, 300, generator=torch.Generator().manual_seed(1)), torch.linspace(0.5, 2, 300)


def test_a_small_branch_does_not_fit_into_the_rounding_of_plain_arithmetic():
    def step(x, y):
        return x - 0.1 * (y + 1e-5 * x)

    truth = call_in_double(Function(step), [X, Y], {})
    assert typical(X - 0.1 * Y, truth) > allowed(step, X, Y)


def test_the_noise_of_a_small_branch_is_small():
    assert allowed(lambda x: x + 1e-6 * torch.tanh(x), X) < 4.0 < allowed(lambda x: torch.tanh(x), X)


@pytest.mark.parametrize("length", [300, 4096, 30000])
def test_a_sum_of_one_value_after_the_other_is_explained(length):
    x = torch.randn(64, length, generator=torch.Generator().manual_seed(2))
    total = torch.zeros(64)
    for column in x.T:
        total = total + column
    assert typical(total, x.double().sum(1)) < allowed(lambda x: x.sum(1), x)


def test_nothing_is_said_of_few_elements_and_of_other_types():
    assert allowed(lambda x: x[:1, :9] * 2.0, X) == 0.0
    assert allowed(lambda x: (x * 2.0).half(), X) == 0.0
