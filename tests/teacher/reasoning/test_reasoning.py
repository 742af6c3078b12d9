import dataclasses
import re

import pytest

from musadata.teacher.prompts import STEPS
from musadata.teacher.reasoning import write_reasoning
from musadata.teacher.reasoning.kernel_plan import CallKind, _pointwise_operators, plan_stages, read_calls
from tests.tracing.examples import NAMES, example, traces_of


def texts(name: str) -> dict[str, str]:
    return {step.step: step.text for step in write_reasoning(example(name), traces_of(name))}


def test_the_boundary_step_counts_the_live_threads_of_the_last_block():
    text = texts("gelu_chain")["boundary handling"]
    assert "⌈264 / 256⌉ = 2 blocks" in text
    assert "264 − 256 = 8 threads are live" in text
    assert "`if (i < n)` is required" in text
    assert "243 elements" in text  # and what changes on the second set


def test_the_index_mapping_reads_a_broadcast_operand_at_its_own_axis_and_checks_an_element():
    text = texts("gelu_chain")["index mapping"]
    assert "`r = i / 33` and `c = i % 33`" in text
    assert "`y` (33,) is broadcast: read at `c`, the same for every `r`" in text
    row, column, flat = map(int, re.search(r"element \((\d+), (\d+)\) is at .* = (\d+)\.", text).groups())
    assert row * 33 + column == flat


def test_an_axis_of_1_on_one_set_of_shapes_is_a_coordinate_where_the_other_has_more():
    text = texts("upsample")["index mapping"]  # (1, 3, 10, 10) and (3, 5, 14, 6)
    first, second = text.split("With the second set of shapes it reads differently")
    assert "`n = i /" not in first and "`n = i / 420`" in second
    assert "reads differently" not in texts("gelu_chain")["index mapping"]


def test_the_mathematics_is_the_formula_of_the_whole_chain():
    assert "`add = ((0.5·x·(1 + erf(x / √2)))·2) + y`" in texts("gelu_chain")["scalar mathematics"]


def test_the_shape_of_a_convolution_is_derived_from_kernel_stride_and_padding():
    text = texts("convolution")["shape calculation"]
    assert "⌊(16 + 2 × 1 − 1 × (3 − 1) − 1) / 2⌋ + 1 = 8" in text


def test_a_transposed_weight_is_read_through_its_strides():
    assert "`t` at `k + n * 64`" in texts("linear")["index mapping"]


def test_rows_of_a_view_are_not_said_to_follow_each_other_in_memory():
    text = texts("turned_rows")["index mapping"]
    assert "they lie apart: element (n, r, c) is at `n + r * 21 + c * 63`" in text  # transpose (21, 3, 20)
    assert "60 rows of 21 elements: each starts at `n * 21 + r * 63`" in text  # transpose_1 (3, 20, 21)
    assert "takes 21 elements of `transpose_2`, stride (21, 63, 1), from `n * 21 + r * 63` on." in text
    assert "contiguous" not in text and "`o * 21`" not in text
    assert "which are contiguous" in texts("layer_norm")["index mapping"]


def test_softmax_is_warned_of_overflow_and_variance_of_cancellation():
    assert "maximum, `expf` overflows above 88.7" in texts("softmax")["error pre-analysis"]
    assert "E[x²] − E[x]² cancels" in texts("variance")["error pre-analysis"]


def test_attention_is_warned_of_overflow_and_of_rows_that_see_nothing():
    assert "softmax(q·kᵀ·0.5 + m)·v with q, k, v = q, k, v" in texts("masked_attention")["scalar mathematics"]
    assert "of 16 terms" in texts("masked_attention")["scalar mathematics"]
    pitfalls = texts("masked_attention")["error pre-analysis"]
    assert "`expf` overflows" in pitfalls and "PyTorch gives 0 there" in pitfalls and "scaled by exp(old" in pitfalls


def test_elementwise_chains_share_a_kernel_and_matrix_products_do_not():
    chain = plan_stages(read_calls(traces_of("gelu_chain")[0]))
    assert [len(stage.calls) for stage in chain] == [3] and chain[0].anchor is None
    kinds = [stage.anchor.kind for stage in plan_stages(read_calls(traces_of("attention")[0])) if stage.anchor]
    assert kinds == [CallKind.MATMUL, CallKind.SOFTMAX, CallKind.MATMUL]


def test_work_that_no_output_needs_is_not_talked_about():
    trace = traces_of("gelu_chain")[0]
    dead = dataclasses.replace(trace.tensors[2], name="dead", operator="aten.cos.default")
    assert "dead" not in str(read_calls(dataclasses.replace(trace, tensors=(*trace.tensors, dead))))


@pytest.mark.parametrize("name", NAMES)
def test_the_same_task_and_traces_give_the_same_text(name):
    assert write_reasoning(example(name), traces_of(name)) == write_reasoning(example(name), traces_of(name))


@pytest.mark.parametrize("name", NAMES)
def test_every_step_says_something_about_this_task_and_stays_readable(name):
    for step, text in texts(name).items():
        assert re.search(r"[0-9]|`", text), step
        assert 40 < len(text) < 6000, (step, len(text))
        assert (
            "None" not in text
            and "{" not in text
            and "()" not in text.replace("__syncthreads()", "").replace("data_ptr()", "")
        ), step


def test_what_is_said_about_meaning_mathematics_and_shapes_differs_between_any_two_tasks():
    for step in STEPS[:3]:
        assert len({texts(name)[step] for name in NAMES}) == len(NAMES), step


def test_scattered_values_are_said_to_be_added_not_read():
    text = "\n".join(texts("scatter_add").values())
    assert "`scatter_add` = zeros_like, with x added at the places that i holds" in text


def test_a_running_sum_is_said_to_accumulate():
    text = texts("cumsum")["scalar mathematics"]
    assert re.search(r"accumulate.* in float.*`cumsum` of 40 terms", text, re.IGNORECASE)
    assert "no accumulation" not in text


def test_a_product_is_said_to_have_factors_not_terms():
    text = texts("product")["scalar mathematics"]
    assert "Products of 40 factors accumulate in float" in text
    assert "sums" not in text.lower()


def test_sizes_that_every_set_shares_may_be_numbers_and_others_are_arguments():
    text = texts("convolution")["shape calculation"]
    assert "axis 0, axis 2 and axis 3 of `x`" in text
    assert "axis 1 of `x` is the same in every set, so a kernel may hold that size as a number" in text
    everything = texts("gelu_chain")["shape calculation"]
    assert "arguments" in everything and "as a number" not in everything
    assert "the sizes of parameters are fixed" in texts("embedding")["shape calculation"]


@pytest.mark.parametrize("name", NAMES)
def test_no_launch_is_stated_as_the_only_one(name):
    """The same steps stand before kernels with a thread, a warp or a block for each result, and before tiles."""
    steps = texts(name)
    assert not re.search(r"One (thread|warp|block) per", steps["index mapping"] + steps["boundary handling"])
    assert "One kernel does it" not in steps["semantic decomposition"]


def test_the_bound_of_a_flat_grid_is_given_for_other_grids_as_well():
    assert re.search(r"grid-stride loop.*(axis|axes|both)", texts("gelu_chain")["boundary handling"])
    assert "grid-stride" not in texts("linear")["boundary handling"]


def test_values_that_other_threads_hold_are_not_fused_into_a_lookup():
    stages = plan_stages(read_calls(traces_of("softmax_gather")[0]))
    assert [stage.operators for stage in stages] == [("aten._softmax.default",), ("aten.gather.default",)]


def test_a_view_of_a_value_in_a_register_is_not_said_to_be_read():
    text = texts("linear")["index mapping"]
    assert "`aten.tanh.default` is applied to the finished value in its register" in text
    assert "`addmm` (16, 32) is read" not in text


def test_the_formula_of_an_activation_has_its_scale_and_slope():
    text = texts("selu")["scalar mathematics"]
    assert "`elu` = 1.0507009873554805·(x > 0 ? x : 1.6732632423543772·(exp(x) − 1))" in text
    assert "`softplus` = log(1 + exp(2.0·x)) / 2.0" in text


def test_a_loss_is_summed_averaged_or_neither_as_its_reduction_says():
    text = texts("losses")["scalar mathematics"]
    assert "`mse_loss` = Σ (x − y)², over all 36 elements" in text
    assert "`huber_loss` = (Σ (|x − y| < 0.5 ? 0.5·(x − y)² : 0.5·(|x − y| − 0.5·0.5))) / 36" in text
    assert "`mse_loss` = (x − y)²\n" in texts("squared_errors")["scalar mathematics"]


def test_only_the_element_that_a_class_selects_is_counted():
    text = texts("cross_entropy")
    assert "Each of the 8 classes in `b` picks one element" in text["index mapping"]
    assert "of 80 terms" not in text["scalar mathematics"]


def test_a_bag_of_embeddings_is_said_to_accumulate_and_a_maximum_not_to_round():
    assert "= mean of table.weight[idx, d]" in texts("bag")["scalar mathematics"]
    assert "no accumulation" not in texts("bag")["scalar mathematics"]
    volume = texts("adaptive_volume")
    assert "max of x over its share of the volume" in volume["scalar mathematics"]
    assert "nothing is rounded" in volume["scalar mathematics"]
    assert "`ie * 5 / 2`" in volume["index mapping"]


def test_a_short_row_is_not_said_to_be_scanned_in_several_pieces():
    assert "several pieces" not in texts("cumsum")["error pre-analysis"]  # rows of 40


@pytest.mark.parametrize("name", NAMES)
def test_no_operator_is_defined_by_itself(name):
    """Functions of mathematics have no other name, and of a placement all is said with its index mapping."""
    known = "|".join(["exp", "log", "tanh", "sin", "cos", "erf", "sign", "floor", "ceil", "round"])
    for line in texts(name)["scalar mathematics"].splitlines():
        match = re.match(r"- `([a-z]\w*?)(?:_\d+)?`(?:\[[^]]*\])? = \1\(", line)
        assert match is None or re.match(known, match[1]) or line.endswith("a copy, no arithmetic"), line


def test_a_weight_of_a_loss_is_part_of_its_formula():
    text = texts("margins")["scalar mathematics"]
    assert "(1 + (pos_weight − 1)·y)" in text
    assert "the mean over all rows of Σ max(0, 1.0 − x[row, t[row]] + x[row, j])^1" in text


def test_the_largest_few_are_said_to_be_so():
    assert "`topk` = the first 3 of x along its axis, largest first" in texts("largest")["scalar mathematics"]


def test_what_changes_place_on_the_way_is_mapped_to_where_it_comes_from():
    assert "`roll[n, c, h, w]` is `x[n, c, h, (w - 2 + 20) % 20]`" in texts("rolled_maximum")["index mapping"]
    assert (
        "`channel_shuffle[n, c, h, w] = x[n, c % 2 * (6 / 2) + c / 2, h, w]`"
        in (texts("channel_shuffle")["scalar mathematics"])
    )


def test_pointwise_operators_are_those_that_torch_tags():
    import torch

    schemas = [one for one in torch._C._jit_get_all_schemas() if one.name.startswith("aten::")]
    tagged = set()
    for one in schemas:
        packet = getattr(torch.ops.aten, one.name.removeprefix("aten::"), None)
        operator = getattr(packet, one.overload_name or "default", None)
        if operator is not None and torch.Tag.pointwise in operator.tags:
            tagged.add(".".join(filter(None, (one.name.removeprefix("aten::"), one.overload_name))))
    assert _pointwise_operators() == tagged
