"""Pointwise work shares a kernel with what makes or reads its elements."""

import re

import pytest

from musadata.compiler.emission.schedule_plan import PLANS
from musadata.config import BackendType, VerifierConfig
from musadata.verifier import Verifier
from tests.compiler.references import FIXTURES, task_of

FUSED = {
    "shuffled pixels": 1,
    "normalised convolution": 1,
    "convolution of two tensors": 1,
    "joined heads": 1,
    "bilinear image": 1,
    "scaled similarity": 1,
    "joined product": 1,
    "joined product of half type": 1,
    "flipped product": 1,
    "padded operand": 1,  # whose first rows are no places of the tensor
    "computed operands": 1,
    "computed operands of half type": 1,
    "modulated convolution": 2,
    "modulated rows": 2,
    "divided convolution": 2,  # windows that overlap would divide the same elements again
}


@pytest.mark.parametrize("name", FUSED)
def test_pointwise_work_has_no_kernel_of_its_own(candidate_of, name):
    assert len(candidate_of(name, PLANS[0]).kernels) == FUSED[name]


@pytest.mark.parametrize("plan", PLANS)
def test_what_is_flipped_has_a_name_of_its_own(plan, candidate_of):
    (emitted,) = candidate_of("flipped product", plan).kernels
    assert [(buffer.name, buffer.node) for buffer in emitted.kernel.outputs] == [("flip", "flip")]


def test_what_is_joined_moves_in_vectors(candidate_of):
    joined = [candidate_of(name, PLANS[0]).source for name in ("joined product", "joined product of half type")]
    assert "k < 24 ? x + row * 24 + k : y + row * 40" in joined[0]  # a vector lies on one side of the seam
    assert "next < 64 ? y + k * 72 + loaded_col : z" in joined[1]  # a whole slice does


@pytest.mark.parametrize("name", ["computed operands", "computed operands of half type"])
def test_vectors_of_what_is_computed_are_loaded_at_once(name, candidate_of):
    source = candidate_of(name, PLANS[0]).source
    assert all(f"load_vector<{8 if 'half' in name else 4}>({side}_part" in source for side in "xy")
    assert "left_part[j] = " in source and "right_part[j] = " in source


def test_a_product_leaves_to_a_reduction_what_that_can_end_with(candidate_of):
    first, *_ = candidate_of("lengths of two tensors", PLANS[0]).kernels
    assert "/" in first.source.split("sum_result")[-1], "rows are divided by their lengths where these are known"


def test_a_value_is_computed_once_for_all_places_that_read_it(candidate_of):
    source = candidate_of("bilinear image", PLANS[0]).kernels[0].source
    computed = re.findall(r"const \w+ \w+ = (.*);", source)
    assert len(computed) == len(set(computed))


@pytest.mark.parametrize("name", [*FUSED, "pooled rows of channels", "demodulated convolution"])
def test_fused_kernels_are_right(candidate_of, name):
    with Verifier(VerifierConfig(backend=BackendType.EMULATED)) as verifier:
        for plan in (PLANS[0], PLANS[1]):
            verdict = verifier.verify(task_of(name), candidate_of(name, plan).source, FIXTURES[name].sets)
            assert verdict.accepted, verdict.feedback


@pytest.mark.parametrize("name", ["classes of rows", "cross entropy"])
def test_the_kernel_of_rows_makes_the_terms_of_their_mean_loss(name, candidate_of):
    rows, mean = (emitted.kernel for emitted in candidate_of(name, PLANS[0]).kernels)
    assert [buffer.name for buffer in rows.outputs] == ["sum2_terms"]
    assert {buffer.name for buffer in mean.inputs} == {"sum2_terms", rows.inputs[-1].name}  # losses, and which count


def test_a_sum_of_what_needs_one_result_of_a_row_alone_is_not_split(candidate_of):
    kernels = [emitted.kernel for emitted in candidate_of("lengths of rows, added up", PLANS[0]).kernels]
    assert not any("terms" in buffer.name for kernel in kernels for buffer in kernel.outputs)


def test_of_the_largest_few_only_what_is_read_is_found(candidate_of):
    [emitted] = candidate_of("largest few of rows", PLANS[0]).kernels
    assert [stage.kind for stage in emitted.kernel.reductions] == [*["argmax"] * 7, "max", "fast_max", "sum"]
