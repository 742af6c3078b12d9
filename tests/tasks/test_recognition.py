"""The family of work is known however a reference spells it."""

import pytest

from musadata.records import OperatorFamily
from tests.tasks.conftest import reference

ROWS, STEPS = "torch.randn(4, 33)", "torch.randn(2, 5, 33)"
TWO = "torch.randn(4, 33), torch.randn(4, 33)"
LOOP = """state = x.new_zeros(2, 8)
for step in x.unbind(dim=1):
    state = torch.tanh(self.mix(torch.cat([step, state], dim=-1)))
return state"""

SPELLINGS = [
    (OperatorFamily.RECURRENT, reference("return self.f(x)[0]", "self.f = nn.GRU(33, 8, batch_first=True)", STEPS)),
    (OperatorFamily.RECURRENT, reference("return self.f(x)[0]", "self.f = nn.LSTM(33, 8, batch_first=True)", STEPS)),
    (OperatorFamily.RECURRENT, reference(LOOP, "self.mix = nn.Linear(41, 8)", STEPS)),
    (OperatorFamily.NORMALIZATION, reference("return self.f(x)", "self.f = nn.LayerNorm(33)")),
    (OperatorFamily.NORMALIZATION, reference("return self.f(x)", "self.f = nn.RMSNorm(33)")),
    (OperatorFamily.NORMALIZATION, reference("return F.normalize(x, dim=-1)")),
    (OperatorFamily.NORMALIZATION, reference("return x * torch.rsqrt((x * x).mean(dim=-1, keepdim=True) + 1e-6)")),
    (
        OperatorFamily.NORMALIZATION,
        reference("d = x - x.mean(0)\nreturn d / torch.sqrt((d**2).mean(0) + 1e-5)"),
    ),
    (OperatorFamily.NORMALIZATION, reference("return (x - x.mean(0)) / (x.std(0) + 1e-5)")),
    (OperatorFamily.LOSS, reference("return F.mse_loss(x, y)", inputs=TWO, arguments="x, y")),
    (OperatorFamily.LOSS, reference("return F.l1_loss(x, y)", inputs=TWO, arguments="x, y")),
    (OperatorFamily.LOSS, reference("return torch.log(torch.cosh(x - y)).mean()", inputs=TWO, arguments="x, y")),
]
OTHERS = [
    (
        OperatorFamily.MATMUL,
        reference("return self.b(torch.relu(self.a(x)))", "self.a, self.b = nn.Linear(33, 33), nn.Linear(33, 33)"),
    ),
    (OperatorFamily.MATMUL, reference("return self.a(x) * self.a(x + 1)", "self.a = nn.Linear(33, 33)")),
    (OperatorFamily.REDUCTION, reference("return x.std(dim=-1)")),
    (OperatorFamily.REDUCTION, reference("return x / x.sum(dim=-1, keepdim=True)")),
    (OperatorFamily.REDUCTION, reference("return y / x.std(0)", inputs=TWO, arguments="x, y")),
    (OperatorFamily.REDUCTION, reference("return torch.sqrt((x * x).mean())")),
    (OperatorFamily.REDUCTION, reference("return (x - y).abs().mean(dim=1)", inputs=TWO, arguments="x, y")),
    (OperatorFamily.BROADCAST, reference("return torch.maximum(x[:, :1], x[:1])")),
]


@pytest.mark.parametrize(("family", "text"), SPELLINGS)
def test_family_is_recognised_in_every_spelling(examine, family, text):
    assert examine(text).operator_family is family


@pytest.mark.parametrize(("family", "text"), OTHERS)
def test_what_only_looks_alike_is_not_recognised(examine, family, text):
    assert examine(text).operator_family is family
