"""The oracle is exact in what its reference builds on the way, too."""

import pytest
import torch

from musadata.verifier.sandboxed.double_precision import call_in_double, find_tables

LENGTH = 1 << 16
POSITIONS = torch.arange(LENGTH, dtype=torch.float64)
ANGLES = torch.outer(POSITIONS, 10000.0 ** -torch.linspace(0, 1, 8, dtype=torch.float64))


class InForward(torch.nn.Module):
    def __init__(self, positions, powers):
        super().__init__()
        self.positions, self.powers = positions, powers

    def forward(self, x):
        return x * torch.outer(self.positions(), 10000.0 ** -self.powers()).cos()


class InConstructor(torch.nn.Module):
    def __init__(self):
        super().__init__()
        powers = torch.linspace(0, 1, 8)
        self.table = torch.outer(torch.arange(LENGTH).float(), 10000.0**-powers).cos()
        self.drawn = torch.randn(3)

    def forward(self, x):
        return x * self.table + self.drawn.sum() * 0


@pytest.mark.parametrize(
    ("positions", "powers"),
    [
        (lambda: torch.arange(LENGTH) * 1.0, lambda: torch.linspace(0, 1, 8)),
        (lambda: torch.arange(LENGTH).float(), lambda: torch.arange(0, 8).float() / 7),
        (lambda: torch.arange(LENGTH, dtype=torch.float32), lambda: torch.linspace(0, 1, 8).to(torch.float32)),
    ],
)
def test_a_table_that_forward_builds_is_exact(positions, powers):
    model, ones = InForward(positions, powers), torch.ones(LENGTH, 8)
    assert (model(ones) - ANGLES.cos()).abs().max() > 1e-3  # what single precision makes of such angles
    assert (call_in_double(model, [ones], {}) - ANGLES.cos()).abs().max() < 1e-9
    assert torch.get_default_dtype() is torch.float32


def test_a_table_that_the_constructor_builds_is_exact_and_random_numbers_stay():
    torch.manual_seed(0)
    model = InConstructor()
    tables = find_tables(model, InConstructor)
    assert [name for _, name in tables] == ["table"]
    assert (call_in_double(model, [torch.ones(LENGTH, 8)], tables) - ANGLES.cos()).abs().max() < 1e-9


def test_narrower_types_are_meant():
    class Rounds(torch.nn.Module):
        def forward(self, x):
            return x.to(torch.bfloat16).float()

    third = torch.tensor([1 / 3])
    assert call_in_double(Rounds(), [third], {}) == third.to(torch.bfloat16).double()
