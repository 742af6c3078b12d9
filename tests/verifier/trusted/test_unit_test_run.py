"""Unit tests run on the emulator: what passes, what fails, and what ends a process."""

import pytest

from musadata.verifier.protocol.unit_tests import IMPORT

TEST = """
import torch
from torch.testing import assert_close


def test_values(reference, candidate):
    x = torch.randn(37, 53)
    assert_close(candidate(x), reference(x))


def test_strides(reference, candidate):
    x = torch.randn(53, 37).t()
    assert_close(candidate(x), reference(x))
"""
DENSE = "auto dense = x.contiguous();\n  auto y = torch::empty_like(dense);"


def test_a_right_program_and_the_reference_pass(verifier, relu_task, relu):
    runs = verifier.run_unit_test(relu_task, TEST, ["", relu], 2)
    assert [run.passed for run in runs] == [("test_values", "test_strides")] * 2
    assert all(run.ok for run in runs)


@pytest.mark.parametrize(
    ("right", "wrong", "failed"),
    [
        ("if (i < n) y", "y", ["test_values", "test_strides"]),  # past the end, which only the emulator sees
        ("? 0.0f", "? 0.5f", ["test_values", "test_strides"]),
        (DENSE, "auto dense = x;\n  auto y = torch::empty(x.sizes(), x.options());", ["test_strides"]),
    ],
)
def test_a_wrong_program_fails_where_it_is_wrong(verifier, relu_task, relu, right, wrong, failed):
    assert right in relu
    [run] = verifier.run_unit_test(relu_task, TEST, [relu.replace(right, wrong)])
    assert [one.function for one in run.failed] == failed
    assert all(one.why for one in run.failed)


def test_a_program_that_cannot_be_imported_fails_as_a_whole(verifier, relu_task):
    [run] = verifier.run_unit_test(relu_task, TEST, ["import nothing_of_this_name"])
    assert [one.function for one in run.failed] == [IMPORT] and "nothing_of_this_name" in run.failed[0].why


@pytest.mark.parametrize(
    "test",
    [
        "def test_a(reference, candidate, device): pass",
        "x = 1",
        "def test_a(",
        "import os; os._exit(0)",
        "def test_a(candidate): assert False",
        "def test_a(candidate): raise SystemExit",
        "import ctypes; ctypes.string_at(0)",
    ],
)
def test_a_test_that_is_none_or_never_passes_fails_even_the_reference(verifier, relu_task, test):
    [run] = verifier.run_unit_test(relu_task, test, [""])
    assert not run.ok and not run.passed


def test_a_program_that_ends_its_process_or_hangs_leaves_the_others_alone(verifier, relu_task, relu):
    ends = relu.replace("return ext.relu(x)", "import os; os._exit(0)")
    runs = verifier.run_unit_test(relu_task, TEST, ["", ends, relu])
    assert [run.ok for run in runs] == [True, False, True]
    assert runs[1].failed[0].function == "crash"


def test_the_run_ends_at_a_program_that_must_pass_and_does_not(verifier, relu_task, relu):
    wrong = relu.replace("? 0.0f", "? 0.5f")
    assert [run.ok for run in verifier.run_unit_test(relu_task, TEST, ["", wrong, relu], 2)] == [True, False]
    assert [run.ok for run in verifier.run_unit_test(relu_task, TEST, ["", wrong, relu], 1)] == [True, False, True]
