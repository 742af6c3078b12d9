"""Tolerances let honest rounding pass and refuse everything else; evidence names the place."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from musadata.verifier.protocol.pytree import BadStructure, flatten
from musadata.verifier.protocol.tensors import BadTensors, pack, unpack, unpack_torch
from musadata.verifier.protocol.tolerance import Tolerance, measure_tolerance
from musadata.verifier.protocol.variants import INFINITE, PLAIN, SCALED, InputSet
from musadata.verifier.trusted.compare import Result, compare_result
from musadata.verifier.trusted.expectation import ExpectedSet


def expect(reference, oracle=None, shaken=None, variant=PLAIN):
    oracle = reference.double() if oracle is None else oracle
    shaken = oracle if shaken is None else shaken
    tolerance = measure_tolerance(reference, oracle, shaken, None)
    condition = (shaken - oracle).abs().nan_to_num(0.0, 0.0, 0.0).float()
    wanted, truth, moves = (unpack(pack({"0": tensor}))["0"] for tensor in (reference, oracle, condition))
    return ExpectedSet(
        InputSet(0, variant, 0),
        (),
        {"tensor": 0},
        (),
        (tolerance,),
        inputs=pack({"0": reference}),
        expected=(wanted,),
        oracle=(truth,),
        conditions=(moves,),
    )


def check(expected, tensor):
    return compare_result(expected, Result({"tensor": 0}, (unpack(pack({"0": tensor}))["0"],)))


@pytest.fixture
def values():
    return torch.randn(64, 50, generator=torch.Generator().manual_seed(0))


def test_reference_itself_passes(values):
    assert check(expect(values), values) == ()


def test_sum_in_another_order_passes_and_half_precision_does_not():
    data = torch.randn(64, 4096, generator=torch.Generator().manual_seed(1))
    oracle = data.double().sum(1)
    serial = torch.zeros(64)
    for column in data.T:
        serial += column
    expected = expect(data.sum(1), oracle)
    assert check(expected, serial) == ()
    assert check(expected, data.half().float().sum(1)) != ()


def test_tf32_and_bfloat16_products_are_refused(values):
    weight = torch.randn(50, 40, generator=torch.Generator().manual_seed(2))
    expected = expect(values @ weight, values.double() @ weight.double())
    kept = torch.tensor(-0x2000, dtype=torch.int32)  # 10 bits of mantissa, as TF32 keeps
    tf32 = [(tensor.view(torch.int32) & kept).view(torch.float32) for tensor in (values, weight)]
    assert check(expected, values @ weight) == ()
    assert check(expected, tf32[0] @ tf32[1]) != ()
    assert check(expected, (values.bfloat16().float() @ weight.bfloat16().float())) != ()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_zeros_and_constants_never_pass_whatever_the_scale(values, scale):
    for reference in (values * scale, torch.softmax(values * 0.01, 1) * scale, 1000 * scale + values * 1e-2 * scale):
        expected = expect(reference)
        assert expected.tolerances[0].discriminating
        assert check(expected, torch.zeros_like(reference)) != ()
        assert check(expected, reference.mean().expand_as(reference).contiguous()) != ()


def test_large_columns_do_not_hide_small_ones_that_the_reference_has_exactly(values):
    scales = 10.0 ** torch.linspace(0, -6, 50)
    expected = expect(values * scales, values.double() * scales.double())
    assert check(expected, values * (scales * (1 + 1e-6))) == ()
    for column in (20, 40, 45):
        without = values * scales
        without[:, column] = 0.0
        assert check(expected, without) != ()


def test_small_columns_of_rounding_only_are_left_alone(values):
    oracle = values.double()
    oracle[:, 7] = 1e-12  # nothing is left where large values cancel: reference and candidate have an error there
    reference, candidate = oracle.float(), oracle.float()
    reference[:, 7], candidate[:, 7] = 2e-7, -3e-6
    assert check(expect(reference, oracle), candidate) == ()


def test_set_on_which_zeros_are_right_proves_nothing():
    zeros = torch.zeros(10)
    assert not measure_tolerance(zeros, zeros.double(), zeros.double(), None).discriminating


def test_answer_to_other_inputs_fails_even_if_it_is_one_number():
    reference, other = torch.tensor([1000.0]), torch.tensor([1000.01], dtype=torch.float64)
    tolerance = measure_tolerance(reference, reference.double(), reference.double(), other)
    assert tolerance.discriminating
    assert abs(float(other) - 1000.0) > tolerance.relative * 1000 + tolerance.slack


def test_ill_conditioned_result_is_given_the_room_it_needs(values):
    oracle = values.double() * 1e-3
    shaken = oracle * (1 + 1e-3)
    expected = expect(oracle.float(), oracle, shaken)
    assert check(expected, (oracle * (1 + 2e-3)).float()) == ()


def test_single_ill_conditioned_elements_are_given_their_own_room(values):
    oracle = values.double()
    shaken = oracle.clone()
    shaken[3, 4] += 1e-4
    expected = expect(values, oracle, shaken)
    there, elsewhere = values.clone(), values.clone()
    there[3, 4] += 1e-3
    elsewhere[3, 5] += 1e-3
    assert check(expected, there) == ()
    assert check(expected, elsewhere) != ()


def test_zeros_of_a_relu_do_not_hide_how_exact_the_reference_is():
    data = torch.randn(64, 200, generator=torch.Generator().manual_seed(3)) + 100.0

    def normalised(x, mean):
        return torch.relu((x - mean) / (x - mean).square().mean(1, keepdim=True).sqrt())

    serial = torch.zeros(64)
    for column in data.T:
        serial += column
    oracle = normalised(data.double(), data.double().mean(1, keepdim=True))
    expected = expect(normalised(data, data.mean(1, keepdim=True)), oracle)
    assert check(expected, normalised(data, (serial / 200)[:, None])) == ()
    assert check(expected, normalised(data.half().float(), data.half().float().mean(1, keepdim=True))) != ()


def test_step_of_a_rounding_function_does_not_widen_the_tolerance(values):
    reference = torch.round(values)
    oracle = reference.double()
    oracle[0, 0] += 1.0  # the oracle fell on the other side of one step
    expected = expect(reference, oracle)
    wrong = reference.clone()
    wrong[5, 5] += 1.0
    assert check(expected, reference) == ()
    assert check(expected, wrong) != ()


def test_integers_must_be_equal_but_for_ties_that_precision_decides():
    reference = torch.tensor([1, 2, 3])
    expected = expect(reference, torch.tensor([1, 2, 4]))
    assert check(expected, torch.tensor([1, 2, 4])) == ()
    assert check(expected, torch.tensor([1, 0, 3])) != ()
    assert check(expected, torch.tensor([1, 2, 1000])) != ()  # a tie, but not between 3 and 1000


def test_integers_next_to_a_step_may_fall_on_its_other_side():
    reference = torch.tensor([10, 20, 30])
    expected = expect(reference, shaken=torch.tensor([10, 21, 30]))
    assert check(expected, torch.tensor([10, 21, 30])) == ()
    assert check(expected, torch.tensor([11, 20, 30])) != ()


def test_nonfinite_positions_must_be_equal(values):
    reference = values.clone()
    reference[0, 0], reference[1, 1] = math.inf, math.nan
    expected = expect(reference)
    assert check(expected, reference) == ()
    for changed in (
        torch.nan_to_num(reference),
        reference.clone().index_put_((torch.tensor(2),), torch.tensor(math.nan)),
    ):
        assert {finding.rule for finding in check(expected, changed)} == {"correctness.nonfinite"}


def test_infinities_may_not_be_swallowed_but_nan_for_inf_is_no_fault(values):
    reference = values.clone()
    reference[0, 0] = math.inf
    expected = expect(reference, variant=INFINITE)
    other = reference.clone()
    other[0, 0] = math.nan
    assert check(expected, other) == ()
    assert check(expected, torch.nan_to_num(reference))[0].rule == "correctness.swallowed"


def test_evidence_names_shape_dtype_place_and_pattern(values):
    expected = expect(values)
    assert check(expected, values[:1])[0].rule == "correctness.shape"
    assert check(expected, values.double())[0].rule == "correctness.dtype"
    broken = values.clone()
    broken[63, 40:] = 7.0
    finding = check(expected, broken)[0]
    assert finding.index == "[63, 40]"
    assert "Everything from flat index 3190 on is wrong" in finding.message
    unwritten = values.clone()
    unwritten[3] = math.nan
    assert "never written" in check(expected, unwritten)[0].message
    assert "is 2 times" not in check(expected, values)  # nothing to say about what is right
    assert "Each is 2 times what it should be" in check(expected, values * 2)[0].message


def test_structure_is_compared_before_values(values):
    result = Result({"list": [{"tensor": 0}]}, (unpack(pack({"0": values}))["0"],))
    assert compare_result(expect(values), result)[0].rule == "correctness.structure"
    assert compare_result(expect(values), Result({"tensor": {}}, ()))[0].rule == "correctness.structure"
    assert compare_result(expect(values), Result([["nonsense"]], ()))[0].rule == "correctness.structure"


def test_results_flatten_alike_whatever_holds_them(values):
    assert flatten((values, [1, None]))[0] == flatten([values, (1, None)])[0]
    assert flatten({"b": values, "a": 1})[0] == flatten({"a": 1, "b": values})[0]
    with pytest.raises(BadStructure):
        flatten(object())


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "bfloat16", "int64", "int8", "uint8", "bool", "complex64"]
)
def test_tensors_survive_the_trip_as_bytes(dtype):
    tensor = torch.arange(-6, 6).reshape(3, 4).to(getattr(torch, dtype))
    data = pack({"a": tensor.t(), "b": tensor[:0]})
    back = unpack_torch(data)
    assert torch.equal(back["a"], tensor.t())
    assert back["b"].shape == (0, 4)
    assert np.array_equal(unpack(data)["a"].values.astype(np.complex128), tensor.t().to(torch.complex128).numpy())


def test_garbage_is_not_taken_for_tensors(values):
    good = pack({"0": values})
    for bad in (b"", b"\xff" * 20, good[:-1], good[:10], b"\x02\0\0\0{}", b'\x10\0\0\0[["a","float32",[-1],4]]'):
        with pytest.raises(BadTensors):
            unpack(bad)


def test_tolerance_of_integers_is_exact():
    tolerance = measure_tolerance(torch.tensor([1, 2]), torch.tensor([1, 2]), torch.tensor([1, 2]), None)
    assert tolerance == Tolerance(0.0, 0.0, True)


def test_a_result_that_is_a_little_off_everywhere_is_no_rounding():
    truth = torch.randn(500, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    item = expect(truth.float(), truth)
    item = replace(item, tolerances=(replace(item.tolerances[0], typical=3.0),))
    assert not check(item, truth.float())
    (finding,) = check(item, (truth * (1 + 1e-6)).float())
    assert finding.rule == "correctness.drift"
    assert not check(item, torch.where(torch.arange(500) % 3 == 0, truth * (1 + 1e-6), truth).float())


def test_a_finding_says_the_exact_value_and_how_large_inputs_are():
    values = torch.full((4, 5), 1 / 3)
    (finding,) = check(expect(values, torch.full((4, 5), 1 / 3, dtype=torch.float64)), values + 0.01)
    assert "There the exact value is 0.333333333, and the reference is off by 9.9e-09." in finding.message
    assert "Inputs are" not in finding.message
    (finding,) = check(expect(300 * values, variant=SCALED), values)
    assert finding.message.endswith("Inputs are up to 100 in size.")
