"""Normal inputs of any mean and deviation: recognised, drawn again, and judged on large values."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from musadata.records import InputSpec
from musadata.tasks.input_specs import infer_specs
from musadata.tasks.normal_values import bounds, moments
from musadata.tasks.sizing.inputs_text import write_value
from musadata.tracing.inputs import draw
from musadata.verifier.protocol.variants import BELOW, FAR, LARGE, OFFSET, SCALED, SMALL, TIES
from musadata.verifier.sandboxed.device_inputs import draw_on
from musadata.verifier.sandboxed.draws import apply_variant


def infer(expression, seed=0):
    torch.manual_seed(seed)
    (spec,) = infer_specs(torch.nn.Identity(), [[eval(expression)] for _ in range(3)])
    return InputSpec(**{**spec, "shape": tuple(spec["shape"])})


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("expression", "mean", "deviation"),
    [
        ("torch.randn(64, 64)", 0.0, 1.0),
        ("torch.randn(64, 64) * 3", 0.0, 3.0),
        ("torch.randn(64, 64) + 1", 1.0, 1.0),
        ("torch.randn(64, 64) * 0.02", 0.0, 0.02),
        ("torch.randn(64, 64) * 0.1 + 5", 5.0, 0.1),
        ("torch.randn(64, 64) * 3 - 7", -7.0, 3.0),
        ("torch.randn(512, 128).half() * 3", 0.0, 3.0),
        ("torch.randn(512, 128).bfloat16() * 0.5", 0.0, 0.5),
        ("torch.randn(8, 16) * 100", 0.0, 100.0),
        ("torch.randn(64, 64) * (torch.rand(64, 64) > 0.3) * 3", 0.0, 3.0),  # partly masked
    ],
)
def test_scaled_and_moved_normal_values_are_recognised(expression, mean, deviation, seed):
    spec = infer(expression, seed)
    assert spec.kind == "normal"
    found_mean, found_deviation = moments(spec)
    assert found_mean == pytest.approx(mean, abs=deviation / 5)
    assert found_deviation == pytest.approx(deviation, rel=0.2)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    "expression",
    [
        "torch.rand(64, 64)",
        "torch.rand(64, 64) * 6 - 3",
        "torch.rand(8, 8)",
        "torch.randn(64, 64).abs()",
        "torch.randn(64, 64).exp()",
        "torch.randn(64, 64).sigmoid()",
        "torch.randn(64, 64).tanh()",
        "torch.randn(64, 64).relu()",
        "torch.randn(64, 64).clamp(-1, 1)",
        "torch.randn(64, 64).clamp(-2, 2)",
        "torch.randn(64, 64).softmax(1)",
        "torch.randn(64, 64).abs() + 1",
        "torch.rand(64, 64) + torch.rand(64, 64)",
        "torch.linspace(-3, 3, 400)",
        "torch.full((64,), 2.5)",
    ],
)
def test_bounded_values_keep_their_range(expression, seed):
    assert infer(expression, seed).kind == "uniform"


@settings(max_examples=12, deadline=None)
@given(
    st.floats(-100, 100).map(lambda value: round(value, 2)),
    st.sampled_from([0.001, 0.02, 0.5, 1.0, 3.0, 250.0]),
    st.sampled_from(["float32", "float64"]),
    st.integers(0, 2**31),
)
def test_values_are_drawn_with_the_mean_and_deviation_of_their_spec(mean, deviation, dtype, seed):
    spec = InputSpec("x", "normal", dtype, (20_000,), *bounds(mean, deviation))
    assert moments(spec) == (pytest.approx(mean, rel=1e-5, abs=1e-12), pytest.approx(deviation, rel=1e-5))
    torch.manual_seed(seed)
    for value in (draw([spec], seed)[0], draw_on("cpu", [spec], seed)[0], eval(write_value(spec))):
        assert value.dtype is getattr(torch, dtype)
        assert float(value.double().mean()) == pytest.approx(mean, abs=deviation / 20 + abs(mean) * 1e-6)
        assert float(value.double().std()) == pytest.approx(deviation, rel=0.04)


def test_standard_values_are_the_same_whether_the_spec_says_so_or_not():
    silent, said = (InputSpec("x", "normal", "float32", (99,), *limits) for limits in ((0.0, 0.0), (-1.0, 1.0)))
    assert torch.equal(draw([silent], 3)[0], draw([said], 3)[0])
    assert torch.equal(draw_on("cpu", [silent], 3)[0], draw_on("cpu", [said], 3)[0])


def test_a_normal_spec_without_a_deviation_is_an_error():
    with pytest.raises(ValueError, match="empty range"):
        draw([InputSpec("x", "normal", "float32", (3,), 2.0, 2.0)], 0)


@pytest.mark.parametrize(("mean", "deviation"), [(0.0, 0.02), (1.0, 1.0), (0.0, 3.0), (5.0, 0.1)])
def test_variants_of_scaled_and_moved_values_find_what_those_of_standard_ones_find(mean, deviation):
    spec = InputSpec("x", "normal", "float32", (40, 50), *bounds(mean, deviation))
    (value,) = draw([spec], 1)
    changed = {
        variant: apply_variant([spec], [value], variant)[0]
        for variant in (LARGE, FAR, BELOW, TIES, OFFSET, SMALL, SCALED)
    }
    assert all(one.dtype is torch.float32 and bool(torch.isfinite(one).all()) for one in changed.values())
    assert float(changed[LARGE].max()) > 100.0  # exp() of it overflows
    assert float(changed[FAR].max()) < -80_000.0
    assert bool((changed[BELOW] < 0).all())
    assert torch.equal(changed[TIES], (changed[TIES] * 16).round() / 16)
    assert float(changed[OFFSET].mean()) == pytest.approx(mean + 100 * deviation, rel=0.05)
    assert float(changed[SMALL].std()) == pytest.approx(0.01 * deviation, rel=0.1)
    assert float(changed[SCALED].std()) == pytest.approx(3 * deviation, rel=0.1)
