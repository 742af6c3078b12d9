"""`get_inputs` as text draws what the specs say: read back, they are the same."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from musadata.records import InputSpec
from musadata.tasks.input_specs import infer_specs
from musadata.tasks.sizing.inputs_text import replace_inputs, write_inputs
from tests.tasks.conftest import reference

SHAPES = st.lists(st.integers(2, 9), min_size=1, max_size=4).map(tuple)
REAL = st.sampled_from(["float32", "float64", "float16", "bfloat16"])
SPECS = st.one_of(
    st.builds(InputSpec, st.just("x"), st.just("normal"), REAL, SHAPES),
    st.builds(InputSpec, st.just("x"), st.just("uniform"), REAL, SHAPES, st.just(-2.0), st.just(5.0)),
    st.builds(InputSpec, st.just("x"), st.just("integers"), st.sampled_from(["int64", "int32"]), SHAPES,
              st.just(-3.0), st.just(12.0)),
    st.builds(InputSpec, st.just("x"), st.just("bool"), st.just("bool"), SHAPES),
    st.builds(InputSpec, st.just("x"), st.just("choice"), REAL, SHAPES, literal=st.just("(-1.0, 1.0)")),
    st.builds(InputSpec, st.just("x"), st.just("literal"), st.just(""), st.just(()),
              literal=st.sampled_from(["3", "None", "(1, 2)", "inf", "-inf", "torch.float16", "'sum'"])),
)  # fmt: skip


def draw(*specs: InputSpec) -> list:
    namespace = {"torch": torch}
    exec(write_inputs(specs), namespace)
    return namespace["get_inputs"]()


@settings(max_examples=60, deadline=None)
@given(st.lists(SPECS, min_size=1, max_size=3))
def test_drawn_values_have_the_shape_dtype_and_range_of_their_spec(specs):
    for spec, value in zip(specs, draw(*specs), strict=True):
        if spec.kind == "literal":
            assert spec.literal in (repr(value), str(value))
            continue
        assert (tuple(value.shape), str(value.dtype)) == (spec.shape, f"torch.{spec.dtype}")
        if spec.kind in ("uniform", "integers"):
            assert spec.low <= value.min() <= value.max() <= spec.high
        if spec.kind == "choice":
            assert set(value.flatten().tolist()) <= {-1.0, 1.0}


ORDERED = [
    InputSpec("x", "permutation", "int64", (12,), 0.0, 12.0),
    InputSpec("x", "permutation", "int32", (12,), 3.0, 15.0),
    InputSpec("x", "offsets", "int64", (9,), 0.0, 100.0),
    InputSpec("x", "offsets", "int32", (9,), 5.0, 100.0),
    InputSpec("x", "segments", "int64", (40,), 0.0, 9.0),
    InputSpec("x", "normal", "float32", (3, 16, 16), literal="upper"),
    InputSpec("x", "normal", "float64", (3, 16, 16), literal="lower"),
    InputSpec("x", "normal", "float32", (3, 16, 16), literal="diagonal"),
    InputSpec("x", "normal", "float32", (16, 16), literal="symmetric"),
]


@pytest.mark.parametrize("spec", ORDERED, ids=lambda spec: f"{spec.kind} {spec.literal or spec.dtype}")
def test_order_and_structure_are_drawn_too(spec):
    (found,) = infer_specs(torch.nn.Identity(), [draw(spec) for _ in range(3)])
    wanted = {"dtype": spec.dtype, "shape": list(spec.shape), "literal": spec.literal}
    assert {key: found.get(key, "") for key in wanted} == wanted
    assert found["kind"] == spec.kind or spec.literal == "diagonal"  # mostly zeros, which look like no distribution


def test_only_get_inputs_is_replaced():
    text = reference("return F.relu(x)")
    replaced = replace_inputs(text, [InputSpec("x", "normal", "float32", (64, 128))])
    assert replaced == text.replace("torch.randn(4, 33)", "torch.randn(64, 128)")


def test_a_reference_without_get_inputs_is_refused():
    with pytest.raises(ValueError, match="get_inputs"):
        replace_inputs("x = 1\n", [])
