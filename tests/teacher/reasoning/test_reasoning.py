import dataclasses
import re

import pytest
import torch

from musadata.teacher.prompts import STEPS
from musadata.teacher.reasoning import write_reasoning
from musadata.teacher.reasoning.element_origins import adaptive_windows, nearest_places
from musadata.teacher.reasoning.kernel_plan import Call, _pointwise_operators, read_calls
from musadata.teacher.reasoning.mathematics import elementwise
from tests.tracing.examples import NAMES, example, traces_of


def texts(name: str) -> dict[str, str]:
    return {step.step: step.text for step in write_reasoning(example(name), traces_of(name))}


def test_without_a_lowering_steps_name_strides_and_what_blocks_leave():
    assert "| 264 % 256 = 8 | 243 % 256 = 243 |" in texts("gelu_chain")["boundary handling"]
    assert "`t` by stride (1, 64)" in texts("linear")["index mapping"]


def test_the_mathematics_is_the_formula_of_the_whole_chain():
    assert "`add = ((0.5·x·(1 + erf(x / √2)))·2) + y`" in texts("gelu_chain")["scalar mathematics"]


def test_the_shape_of_a_convolution_is_derived_from_kernel_stride_and_padding():
    text = texts("convolution")["shape calculation"]
    assert "⌊(16 + 2 × 1 − 1 × (3 − 1) − 1) / 2⌋ + 1 = 8" in text


def test_equal_operators_with_another_stride_have_formulas_of_their_own():
    text = texts("strides")["scalar mathematics"]
    assert "in the same way" not in text
    assert "c < 8: 8 terms" in text and "w·2 + kw − 1" in text and "c < 8, kw < 3: 8 × 3 = 24 terms" in text


def test_attention_is_warned_of_rows_that_see_nothing():
    assert "softmax(q·kᵀ·0.5 + m)·v with q, k, v = q, k, v" in texts("masked_attention")["scalar mathematics"]
    pitfalls = texts("masked_attention")["error pre-analysis"]
    assert "PyTorch gives 0 there" in pitfalls
    assert "scaled by exp(old" not in pitfalls  # which is about tiles of keys, and no kernel is known


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
        assert 15 < len(text) < 6000, (step, len(text))
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
    assert re.search(r"`scatter_add` = 0, with x\[\w, \w\] added to \[.*i\[.*\].*\] for each element of x", text)


def test_an_upsampling_has_its_scales():
    fact = traces_of("gelu_chain")[0].tensors[0]
    x, y = (dataclasses.replace(fact, name=n, shape=shape) for n, shape in (("x", (1, 2, 8, 9)), ("y", (1, 2, 16, 30))))
    call = Call("aten.upsample_nearest2d.default", (x,), (y,), "output_size=[16, 30], scales_h=2.0")
    assert nearest_places(call) == "`y`[n, c, h, w] = x[n, c, ⌊h / 2.0⌋, ⌊w·9 / 30⌋]"


def test_a_bound_that_is_not_given_is_not_in_the_formula():
    fact = traces_of("gelu_chain")[0].tensors[0]
    for arguments, formula in (("min=0", "max(x, 0)"), ("max=6", "min(x, 6)"), ("min=0, max=6", "min(max(x, 0), 6)")):
        assert elementwise(Call("aten.clamp.default", (fact,), (fact,), arguments), ["x"]) == formula


def test_a_gather_is_a_formula():
    assert "`gather`[r, c] = _softmax[r, i[r, c]]" in texts("softmax_gather")["scalar mathematics"].replace(
        "softmax[", "_softmax["
    ).replace("__", "_")


def test_the_windows_of_an_adaptive_pooling_are_ranges_of_indices():
    def call(source, made, packet="_adaptive_avg_pool2d"):
        fact = traces_of("gelu_chain")[0].tensors[0]
        x, y = (dataclasses.replace(fact, name=name, shape=shape) for name, shape in (("x", source), ("y", made)))
        return Call(f"aten.{packet}.default", (x,), (y,), "")

    uneven = adaptive_windows(call((2, 3, 16, 19), (2, 3, 5, 7)), "mean")
    ranges = re.findall(r"⌊(\w)·(\d+) / (\d+)⌋ <= (\w) < ⌈\(\1 \+ 1\)·\2 / \3⌉", uneven)
    assert ranges == [("h", "16", "5", "i"), ("w", "19", "7", "j")]
    covered = [range(o * 16 // 5, -(-(o + 1) * 16 // 5)) for o in range(5)]
    pooled = torch.nn.functional.adaptive_avg_pool1d(torch.arange(16.0)[None], 5)[0]
    assert [sum(places) / len(places) for places in covered] == pytest.approx(pooled.tolist())
    assert (
        adaptive_windows(call((2, 3, 1, 80), (2, 3, 1, 5)), "max")
        == "`y`[n, c, h, w] = max of x[n, c, h, j] over w·80 / 5 <= j < (w + 1)·80 / 5"
    )
    assert "over all 9 places i and all 8 places j" in adaptive_windows(call((2, 3, 9, 8), (2, 3, 1, 1)), "mean")


def test_the_formula_of_an_activation_has_its_scale_and_slope():
    text = texts("selu")["scalar mathematics"]
    assert "1.0507009873554805·(x > 0 ? x : 1.6732632423543772·(exp(x) − 1))" in text
    assert "log(1 + exp(2.0·x)) / 2.0" in text


def test_a_loss_is_summed_averaged_or_neither_as_its_reduction_says():
    text = texts("losses")["scalar mathematics"]
    assert "`mse_loss` = Σ (x − y)², over all 36 elements" in text
    assert "`huber_loss` = (Σ (|x − y| < 0.5 ? 0.5·(x − y)² : 0.5·(|x − y| − 0.5·0.5))) / 36" in text
    assert texts("squared_errors")["scalar mathematics"] == "- `mse_loss` = (x − y)²"


def test_only_the_element_that_a_class_selects_is_counted():
    assert "of every row, the one element that its class selects" in texts("cross_entropy")["scalar mathematics"]


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
    assert "`roll[n, c, h, w] = x[n, c, h, (w - 2 + 20) % 20]`" in texts("rolled_maximum")["scalar mathematics"]
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
