"""The compiler teacher's unit tests, and tests in replies."""

import copy
import dataclasses
import re

import pytest
import torch

from musadata.records import InputSpec, TensorFact
from musadata.tasks.reference_loading import load_reference
from musadata.teacher.unit_tests import list_functions, read_unit_test, write_unit_test
from tests.compiler.references import task_of, traces_of


def load(test):
    names = {}
    exec(compile(test, "<test>", "exec"), names)
    return [names[name] for name in list_functions(test)]


def model_of(name):
    torch.manual_seed(0)
    source = load_reference(task_of(name).reference)
    return source.Model(*source.get_init_inputs())


def run(name, candidate):
    """The names of the functions that fail."""
    failed = []
    model = model_of(name)
    for function in load(write_unit_test(task_of(name), traces_of(name))):
        torch.manual_seed(0)
        try:
            with torch.no_grad():
                function(model, candidate)
        except Exception:
            failed.append(function.__name__)
    return failed


@pytest.mark.parametrize("name", ["gelu", "softmax"])
def test_a_reference_passes_its_own_test(name):
    assert not run(name, copy.deepcopy(model_of(name)))


def test_a_test_names_the_operators_of_its_prompt_and_reads_as_formatted():
    traces = [dataclasses.replace(one, operators=("aten._softmax.default",)) for one in traces_of("softmax")]
    text = write_unit_test(dataclasses.replace(task_of("softmax"), operators=("aten.fused.default",)), traces)
    assert "`aten._softmax.default`" in text and "fused" not in text
    assert "\n\n\n\n" not in text and not re.search(r"[^\n]\n\ndef ", text)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda result: result * 1.01,
        lambda result: result.double(),
        lambda result: result[..., :-1],
        lambda result: torch.cat([result[..., :-1], result[..., -1:] * 0], -1),
        lambda result: torch.full_like(result, float("nan")),
        lambda result: (result, result),
    ],
)
def test_a_wrong_result_fails(wrong):
    model = model_of("softmax")
    assert run("softmax", lambda x: wrong(model(x)))


def test_a_program_that_takes_strided_inputs_for_contiguous_ones_fails_and_one_that_refuses_them_passes():
    model = model_of("softmax")

    def reads_memory(x):
        return model(torch.as_strided(x, x.shape, torch.empty(x.shape).stride()))

    def refuses(x):
        assert x.is_contiguous()
        return model(x)

    assert run("softmax", reads_memory) == ["test_inputs_that_are_not_contiguous"]
    assert run("softmax", refuses) == []


def test_strided_inputs_of_a_sum_tell_what_is_read_from_the_wrong_places():
    """Of a loss that reads prediction and target alike in another order, the sum is the same; here values differ."""
    names = {}
    exec(write_unit_test(task_of("softmax"), traces_of("softmax")), names)
    torch.manual_seed(0)
    for shape in ((6, 5), (7,), (5, 1), (1, 4), (2, 3, 4)):
        inputs = torch.randn(shape), torch.randn(shape)
        turned = [names["with_other_strides"](one) for one in inputs]
        assert all(torch.equal(one, other) for one, other in zip(inputs, turned, strict=True))
        flat = [one.as_strided((one.numel(),), (1,)) for one in turned]
        assert not torch.isclose((flat[0] - flat[1]).square().sum(), (inputs[0] - inputs[1]).square().sum())


def test_a_crash_on_strided_inputs_is_no_refusal():
    model, broken = model_of("softmax"), []

    def breaks_the_device(x):
        if broken or not x.is_contiguous():
            broken.append(x)
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return model(x)

    assert run("softmax", breaks_the_device) == ["test_inputs_that_are_not_contiguous"]


def test_what_only_moves_elements_is_compared_for_equality_and_on_unequal_sizes_first():
    [first, *_] = traces = traces_of("softmax")
    text = write_unit_test(
        task_of("softmax"), [dataclasses.replace(one, operators=("aten.flip.default",)) for one in traces]
    )
    assert "TOLERANCE = 0  # elements are only moved" in text
    shapes = [(6, 6), (7, 7), (8, 8), (300, 300), (9, 5)]
    sets = [tuple(dataclasses.replace(spec, shape=shape) for spec in first.inputs) for shape in shapes]
    text = write_unit_test(task_of("softmax"), [dataclasses.replace(first, inputs=specs) for specs in sets])
    drawn = re.findall(r"torch.randn\((\d+), ", text)
    assert drawn == ["9", "300", "8", "6"]  # what shows from the second tile on is drawn too, between the others


def test_a_formula_that_overflows_fails_on_large_values_which_are_only_asked_for_where_results_are_exact():
    task, traces = dataclasses.replace(task_of("softmax"), operators=("aten._softmax.default",)), traces_of("softmax")
    functions = {function.__name__: function for function in load(write_unit_test(task, traces))}
    model = model_of("softmax")
    functions["test_large_values"](model, model)
    with pytest.raises(AssertionError):
        functions["test_large_values"](model, lambda x: x.exp() / x.exp().sum(-1, keepdim=True))
    for other in ("aten.bmm.default", "aten.sin.default", "aten.cumsum.default"):
        task = dataclasses.replace(task, operators=("aten._softmax.default", other))
        assert "test_large_values" not in list_functions(write_unit_test(task, traces))


@pytest.mark.parametrize(
    ("operators", "right", "wrong"),
    [
        (
            ("logsumexp", "abs", "neg", "exp", "add"),
            lambda x: torch.exp(-torch.logsumexp(x, 1).abs()) + 1,
            lambda x: torch.exp(-x.exp().sum(1).log().abs()) + 1 + 0 * x.exp().sum(1),
        ),
        (
            ("_scaled_dot_product_flash_attention_for_cpu",),
            lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x),
            lambda x: (e := (x @ x.T / x.shape[1] ** 0.5).exp()) / e.sum(1, keepdim=True) @ x,
        ),
    ],
)
def test_a_maximum_that_is_not_taken_away_shows(operators, right, wrong):
    operators = tuple(f"aten.{name}.default" for name in operators)
    task, traces = dataclasses.replace(task_of("softmax"), operators=operators), traces_of("softmax")
    functions = {function.__name__: function for function in load(write_unit_test(task, traces))}
    torch.manual_seed(0)
    functions["test_exponentials_that_overflow"](right, right)
    with pytest.raises(AssertionError):
        functions["test_exponentials_that_overflow"](right, wrong)


def test_the_tolerance_grows_with_the_terms_of_a_sum_and_is_far_below_half_precision():
    def tolerance(operator, length):
        [first, *_] = traces_of("softmax")
        tensors = (
            TensorFact("x", "input", "", (8, length), (length, 1), "float32"),
            TensorFact("y", "output", f"aten.{operator}.default", (8, 1), (1, 1), "float32", ("x",)),
        )
        trace = dataclasses.replace(first, tensors=tensors, operators=(f"aten.{operator}.default",))
        text = write_unit_test(dataclasses.replace(task_of("softmax"), operators=trace.operators), [trace])
        return float(re.search(r"TOLERANCE = (\S+) ", text)[1])

    assert tolerance("exp", 100) == tolerance("exp", 10_000) == tolerance("sum", 1)
    assert tolerance("binary_cross_entropy", 1) == tolerance("exp", 1)
    assert tolerance("exp", 100) < tolerance("sum", 100) < tolerance("sum", 10_000) < 2.0**-12 / 4


@pytest.mark.parametrize("name", ["linear", "softmax"])
def test_inputs_that_half_precision_or_tf32_rounds_show_it(name):
    model = model_of(name)

    def short(*inputs):
        kept = {key: value.clone() for key, value in model.state_dict().items()}
        model.load_state_dict({key: value.half().float() for key, value in kept.items()})
        result = model(*(one.half().float() for one in inputs))
        model.load_state_dict(kept)
        return result

    assert "test_values_that_half_precision_rounds" in run(name, short)
    assert run(name, model) == []


def test_an_epsilon_of_another_size_shows_with_small_values():
    model, wrong = model_of("layer norm"), model_of("layer norm")
    wrong.n.eps = wrong.n.eps / 2
    task = dataclasses.replace(task_of("layer norm"), operators=("aten.native_layer_norm.default",))
    text = write_unit_test(task, traces_of("layer norm"))
    functions = {function.__name__: function for function in load(text)}
    functions["test_small_values"](model, model)
    with pytest.raises(AssertionError):
        functions["test_small_values"](model, wrong)


def test_large_values_are_said_to_overflow_only_where_something_is_exponentiated():
    for operator, told in (("aten._softmax.default", True), ("aten.pow.Tensor_Scalar", False)):
        task = dataclasses.replace(task_of("softmax"), operators=(operator,))
        text = write_unit_test(task, traces_of("softmax"))
        assert "def test_large_values" in text and ("exp(100)" in text) == told


def test_every_set_of_shapes_has_a_function():
    functions = list_functions(write_unit_test(task_of("softmax"), traces_of("softmax")))
    assert {f"test_shapes_{number}" for number, _ in enumerate(traces_of("softmax"), 1)} <= set(functions)


def test_the_same_task_and_traces_give_the_same_text():
    texts = {write_unit_test(task_of("gelu"), traces_of("gelu")) for _ in range(3)}
    assert len(texts) == 1


TEST = "def test_a(reference, candidate):\n    pass\n"


@pytest.mark.parametrize(
    "reply",
    [
        f"```python\n{TEST}```",
        f"First the idea:\n\n```cuda\n__global__ void k();\n```\n\n``` Python\n{TEST}```\nDone.",
        f"```python\nx = 1\n```\n```py\n{TEST}```\n```python\nprint(2)\n```",
        f"```\n{TEST}```",
        TEST,
    ],
)
def test_the_test_in_a_reply_is_found(reply):
    assert read_unit_test(reply) == TEST


@pytest.mark.parametrize(
    "reply", ["", "```python\n", "no", "```python\ndef tested(): pass\n```", "def test_(", "\0", "`" * 9]
)
def test_a_reply_without_a_test_holds_none(reply):
    assert read_unit_test(reply) == ""


def written(operator, *specs):
    """The test of a task with one operator and inputs of these specs."""
    inputs = tuple(InputSpec(name, kind, "float32", (4, 9), 0.0, high) for name, kind, high in specs)
    task = dataclasses.replace(task_of("gelu"), operators=(operator,), inputs=inputs)
    return write_unit_test(task, ())


@pytest.mark.parametrize(
    ("operator", "specs", "right", "wrong"),
    [
        (
            "aten.binary_cross_entropy.default",
            [("x", "uniform", 1.0), ("y", "uniform", 1.0)],
            torch.nn.functional.binary_cross_entropy,
            lambda x, y: -(y * x.log() + (1 - y) * (1 - x).log()).mean(),
        ),
        (
            "aten.linalg_vector_norm.default",
            [("x", "normal", 0.0)],
            torch.nn.functional.normalize,
            lambda x: x / x.norm(dim=1, keepdim=True),
        ),
    ],
)
def test_a_candidate_that_misses_the_branch_of_an_operator_fails_at_its_values(operator, specs, right, wrong):
    text = written(operator, *specs)
    functions = {one.__name__: one for one in load(text)}
    torch.manual_seed(0)
    functions["test_shapes_1"](right, wrong)
    functions["test_values_at_branches"](right, right)
    with pytest.raises(AssertionError):
        functions["test_values_at_branches"](right, wrong)


def test_operators_whose_choice_among_equal_values_is_free_get_no_equal_ones():
    assert "at_branches" in written("aten.relu.default", ("x", "normal", 0.0))
    for operator in ("aten.max.dim", "aten.topk.default", "aten.argmax.default", "aten.mm.default"):
        assert "at_branches" not in written(operator, ("x", "normal", 0.0))


def traced(operator, arguments, *names, dtype="float32"):
    """The functions of a test of a task with one operator on inputs of 6 x 9, as its trace tells it."""
    specs = tuple(InputSpec(name, "normal", dtype, (6, 9)) for name in names)
    facts = [TensorFact(name, "input", "", (6, 9), (9, 1), dtype) for name in names]
    made = TensorFact("y", "output", operator, (6, 9), (9, 1), dtype, names, arguments)
    trace = dataclasses.replace(traces_of("gelu")[0], inputs=specs, tensors=(*facts, made), operators=(operator,))
    task = dataclasses.replace(task_of("gelu"), operators=(operator,), inputs=specs)
    torch.manual_seed(0)
    return {one.__name__: one for one in load(write_unit_test(task, [trace]))}


def test_a_threshold_that_is_taken_for_the_other_side_shows_at_it():
    functions = traced("aten.threshold.default", "threshold=0.5, value=20.0", "x")
    right = torch.nn.Threshold(0.5, 20.0)
    shown = functions["test_values_at_and_beside_bounds"]
    shown(right, right)
    functions["test_shapes_1"](right, lambda x: torch.where(x < 0.5, 20.0, x))
    with pytest.raises(AssertionError):
        shown(right, lambda x: torch.where(x < 0.5, 20.0, x))


def test_a_bound_that_is_a_default_is_tried_in_the_dtype_of_the_input():
    functions = traced("aten.softshrink.default", "", "x", dtype="bfloat16")
    right, seen = torch.nn.Softshrink(), []
    functions["test_values_at_and_beside_bounds"](right, lambda x: seen.append(x) or right(x))
    beside = torch.tensor([0.5, 0.498046875, 0.50390625], dtype=torch.bfloat16)
    assert torch.equal(seen[0].view(-1)[:3], beside)


def test_a_distance_between_inputs_comes_to_the_bound_of_a_loss():
    functions = traced("aten.huber_loss.default", "reduction=0, delta=0.5", "x", "y")
    right = torch.nn.HuberLoss("none", delta=0.5)
    functions["test_values_at_and_beside_bounds"](right, right)
    seen = []
    functions["test_values_at_and_beside_bounds"](right, lambda x, y: seen.append(x - y) or right(x, y))
    assert (seen[0] - 0.5).abs().view(-1)[:3].max() < 1e-5


def test_a_maximum_that_drops_nan_shows():
    functions = traced("aten.relu.default", "", "x")
    functions["test_infinities_and_nan"](torch.relu, torch.relu)
    with pytest.raises(AssertionError):
        functions["test_infinities_and_nan"](torch.relu, lambda x: torch.fmax(x, torch.zeros(())))


def test_results_are_held_to_what_the_operator_promises():
    functions = traced("aten._softmax.default", "dim=-1, half_to_float=False", "x")
    with pytest.raises(AssertionError):
        functions["test_shapes_1"](lambda x: x, lambda x: x)  # equal, and no softmax


def test_a_test_has_sizes_that_take_several_blocks_where_there_are_any():
    shapes = ((4, 5), (7, 11), (50, 21), (3, 64))
    sets = [(InputSpec("x", "normal", "float32", shape),) for shape in shapes]
    traces = [dataclasses.replace(traces_of("gelu")[0], inputs=one) for one in sets]
    assert "x (50, 21)" in write_unit_test(task_of("gelu"), traces)
