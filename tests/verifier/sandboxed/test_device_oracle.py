"""The oracle of a reference at its measure size, here on the CPU."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from musadata.records import InputSpec
from musadata.verifier.protocol import measure_messages as measures
from musadata.verifier.protocol.tolerance import Tolerance, least_wide_tolerance, measure_wide_tolerance
from musadata.verifier.sandboxed.device_models import describe_failure, digest_state
from musadata.verifier.sandboxed.device_oracle import DeviceOracle, find_wrong, surely_right

TEXT = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, x):
        return {result}


def get_inputs():
    return [torch.randn(64, 5)]


def get_init_inputs():
    return []
"""


def prepare(result, monkeypatch, most_rows):
    """An oracle of a device that has memory for some rows in float64."""
    oracle = DeviceOracle(
        measures.PrepareMeasure(TEXT.format(result=result), 7, (InputSpec("x", "normal", "float32", (64, 5)),)),
        "cpu",
    )
    run = oracle._run_double

    def run_double(values):
        if len(values[0]) > most_rows:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return run(values)

    monkeypatch.setattr(oracle, "_run_double", run_double)
    return oracle


def test_an_oracle_for_which_memory_lacks_is_made_in_parts_of_the_batch(monkeypatch):
    whole, parts = (prepare("self.layer(x).relu()", monkeypatch, rows) for rows in (64, 8))
    for oracle in (whole, parts):
        assert oracle.expect(measures.Expect(3)).telling
        assert not oracle._oracle  # it is much work, and there is no output yet
        oracle._find_oracle()
    assert parts._oracle[0].dtype is torch.float64
    torch.testing.assert_close(parts._oracle[0], whole._oracle[0], rtol=1e-14, atol=1e-14)


KEPT_ROWS = "self.layer(x) + torch.arange(64).to(x)[:, None]"  # a state of as many rows as the batch


@pytest.mark.parametrize(
    "result", ["self.layer(x).softmax(0)", "self.layer(x).sum(0)", "self.layer(x).cumsum(0)", KEPT_ROWS]
)
def test_rows_that_depend_on_each_other_are_no_parts(result, monkeypatch):
    oracle = prepare(result, monkeypatch, 8)
    oracle.expect(measures.Expect(3))
    with pytest.raises(torch.OutOfMemoryError):
        oracle._find_oracle()


def test_lack_of_memory_that_pytorch_cannot_name_is_one_as_well(monkeypatch):
    oracle = prepare("self.layer(x)", monkeypatch, 64)
    failing = RuntimeError('NVML_SUCCESS == DriverAPI::get()->nvmlInit_v2_() INTERNAL ASSERT FAILED at "/pytorch/c10"')
    monkeypatch.setattr(oracle, "_run_double", lambda values: (_ for _ in ()).throw(failing))
    oracle.expect(measures.Expect(3))
    with pytest.raises(RuntimeError, match="nvmlInit") as raised:
        oracle._find_oracle()
    assert describe_failure(raised.value).message == "CUDA out of memory."


def test_a_constant_is_told_with_its_value(monkeypatch):
    for result, constant in (("self.layer(x) * 0 + 2", "[2.0, 2.0]"), ("self.layer(x) * float('nan')", "")):
        found = prepare(result, monkeypatch, 64).expect(measures.Expect(3))
        assert (found.telling, found.constant) == (False, constant)


def test_digests_tell_values_places_and_names():
    layer = torch.nn.Linear(3, 3)
    first = digest_state(layer)
    assert first == digest_state(layer)
    with torch.no_grad():
        layer.weight.copy_(layer.weight.flip(0))
    second = digest_state(layer)
    assert (first["weight"] != second["weight"], first["bias"] == second["bias"]) == (True, True)
    with torch.no_grad():
        layer.bias[0] = torch.nan
    assert set(digest_state(layer)) == {"weight"}  # a start that means nothing


def test_a_digest_does_not_depend_on_where_a_tensor_lies_in_memory():
    layer, other = torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 4, bias=False)
    other.weight = torch.nn.Parameter(torch.cat([torch.zeros(1), layer.weight.detach().flatten()])[1:].view(4, 4))
    assert digest_state(other) == digest_state(layer)


VALUES = st.sampled_from([0.0, -0.0, 1.0, -1.0, 3e-39, 1e30, 3.4e38, math.inf, -math.inf, math.nan])
STEPS = st.integers(-200, 200)  # in the last place


@given(
    st.lists(st.tuples(VALUES, STEPS, STEPS), min_size=1, max_size=6),
    st.sampled_from([torch.float32, torch.float16, torch.float64, torch.bfloat16]),
    st.sampled_from([0.0, 1e-6, 1e-3]),
    st.sampled_from([0.0, 1e-5, 1.0]),
)
def test_what_is_surely_right_is_not_wrong_by_the_oracle(elements, dtype, relative, slack):
    unit = torch.finfo(dtype).eps
    truth = torch.tensor([value for value, _, _ in elements], dtype=torch.float64)
    want = torch.tensor([value * (1 + off * unit) for value, off, _ in elements], dtype=torch.float64).to(dtype)
    got = (want.double() * torch.tensor([1 + moved * unit for _, _, moved in elements])).to(dtype)
    tolerance = Tolerance(relative, slack, True)
    if surely_right(got, want, tolerance):
        assert not find_wrong(got, want, truth, 0.0, tolerance).any()
    assert surely_right(want, want, tolerance)


@given(
    st.lists(st.tuples(VALUES, STEPS), min_size=1, max_size=6),
    st.sampled_from([torch.float32, torch.float16, torch.float64, torch.bfloat16, torch.int32]),
)
def test_what_the_reference_alone_allows_is_never_more_than_with_the_oracle(elements, dtype):
    unit = torch.finfo(dtype).eps if dtype.is_floating_point else 0.0
    truth = torch.tensor([value for value, _ in elements], dtype=torch.float64).nan_to_num(7.0, 9.0, -9.0)
    truth = truth if dtype.is_floating_point else truth.clamp(-9, 9).round()
    want = (truth * torch.tensor([1 + off * unit for _, off in elements])).to(dtype)
    least, whole = least_wide_tolerance(want), measure_wide_tolerance(want, truth, None)
    assert least.relative == whole.relative
    assert least.slack <= 1.11 * whole.slack  # of which `surely_right` takes 0.9


@pytest.mark.parametrize("error, wrong", [(0.0, 0), (1e-7, 0), (0.1, 64 * 3)])
def test_oracle_is_made_only_for_outputs_that_are_not_next_to_the_results(monkeypatch, error, wrong):
    oracle = prepare("self.layer(x)", monkeypatch, 64)
    oracle.expect(measures.Expect(3))
    oracle.open_window("host", 64 * 3 * 4)
    output = (oracle.model(*oracle.arguments) + error).detach()
    oracle._window.memory.copy_(output.contiguous().view(-1).view(torch.uint8))
    assert (oracle.compare_chunk(0).wrong, bool(oracle._oracle)) == (wrong, bool(wrong))
    oracle.release()


def test_whole_numbers_are_right_only_if_they_are_equal():
    numbers = torch.arange(5)
    assert surely_right(numbers, numbers.clone(), Tolerance(0.0, 0.0, True))
    assert not surely_right(numbers, numbers + 1, Tolerance(1.0, 10.0, True))
