import pytest
import torch

from musadata.records import Bound, TensorFact
from musadata.tracing.cost import operator_flops
from musadata.tracing.roofline import H100, Unit, classify, tensor_bytes, traffic
from tests.tracing.examples import traces_of

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("operator", "args", "flops"),
    [
        (aten.add.Tensor, (torch.zeros(3, 5), torch.zeros(5)), 15),
        (aten.exp.default, (torch.zeros(7),), 7),
        (aten.relu_.default, (torch.zeros(7),), 7),
        (aten.sum.dim_IntList, (torch.zeros(4, 6), [1]), 24),
        (aten.max.other, (torch.zeros(4, 6), torch.zeros(6)), 24),
        (aten.max.dim, (torch.zeros(4, 6), 1), 24),
        (aten.var.correction, (torch.zeros(4, 6), [1]), 96),
        (aten._softmax.default, (torch.zeros(4, 6), 1, False), 120),
        (aten.native_layer_norm.default, (torch.zeros(4, 6), [6], None, None, 1e-5), 192),
        (aten.multi_margin_loss.default, (torch.zeros(4, 6), torch.zeros(4, dtype=torch.long)), 96),
        (aten.binary_cross_entropy_with_logits.default, (torch.zeros(4, 6), torch.zeros(4, 6)), 120),
        (aten.nll_loss_forward.default, (torch.zeros(4, 6), torch.zeros(4, dtype=torch.long), None, 1, -100), 8),
        (aten.mm.default, (torch.zeros(2, 3), torch.zeros(3, 4)), 48),
        (aten.avg_pool2d.default, (torch.zeros(1, 2, 6, 6), [3, 3], [3, 3]), 2 * 2 * 2 * 9),
        (aten.view.default, (torch.zeros(4, 6), [24]), 0),
        (aten.clone.default, (torch.zeros(4, 6),), 0),
        (aten.cat.default, ([torch.zeros(4, 6), torch.zeros(2, 6)],), 0),
        (aten.embedding.default, (torch.zeros(9, 4), torch.zeros(3, dtype=torch.long)), 0),
    ],
)
def test_flops_follow_the_documented_rule(operator, args, flops):
    assert operator_flops(operator, args, {}, operator(*args)) == flops


def test_a_convolution_counts_two_for_every_multiply_add():
    args = (torch.zeros(2, 3, 8, 8), torch.zeros(4, 3, 3, 3), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    assert operator_flops(aten.convolution.default, args, {}, aten.convolution.default(*args)) == 2 * 2 * 4 * 64 * 27


def test_causal_attention_has_half_of_the_scores():
    heads = (torch.zeros(1, 2, 64, 16),) * 3
    function = aten._scaled_dot_product_flash_attention_for_cpu.default
    given = [(*heads, 0.0, is_causal) for is_causal in (False, True)]
    whole, causal = (operator_flops(function, some, {}, function(*some)) for some in given)
    assert whole == 2 * 2 * 2 * 64 * 64 * 16 and causal == whole * 65 // 128


def test_traffic_is_inputs_parameters_and_outputs_once():
    trace = traces_of("linear")[0]
    assert trace.bytes == 4 * (16 * 64 + 32 * 64 + 32 + 16 * 32)
    assert (
        traffic(trace.tensors) == trace.bytes == sum(tensor_bytes(f) for f in trace.tensors if f.role != "intermediate")
    )


def test_of_what_is_looked_up_or_sliced_only_that_is_read():
    def fact(name, shape, operator="", *operands, role="intermediate"):
        return TensorFact(name, role, operator, shape, tuple(reversed(shape)), "float32", operands)

    x, rows = fact("x", (1000, 64), role="input"), fact("rows", (10,), role="input")
    looked_up = fact("y", (10, 64), "aten.embedding.default", "x", "rows", role="output")
    chosen = fact("y", (), "aten.nll_loss_forward.default", "x", "rows", role="output")
    weight = fact("w", (), "aten.nll_loss_forward.default", "x", "rows")
    assert traffic([x, rows, chosen, weight]) == 4 * (1000 + 10 + 1)
    twice = fact("z", (1000, 64), "aten.relu.default", "x")
    assert traffic([x, rows, looked_up]) == 4 * (640 + 10 + 640)
    assert traffic([x, rows, chosen]) == 4 * (1000 + 10 + 1)
    assert traffic([x, rows, looked_up, twice]) == 4 * (64000 + 10 + 640)


def test_the_roofline_decides_what_bounds_a_task():
    for unit in Unit:
        ridge = int(H100.balance(unit) * 100)
        assert classify(ridge, 100, unit) == (ridge / 100, Bound.MEMORY)
        assert classify(ridge + 100, 100, unit)[1] is Bound.COMPUTE
    assert classify(5, 0) == (0.0, Bound.MEMORY)
