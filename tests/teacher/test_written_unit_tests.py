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


def test_a_test_has_sizes_that_take_several_blocks_where_there_are_any():
    shapes = ((4, 5), (7, 11), (50, 21), (3, 64))
    sets = [(InputSpec("x", "normal", "float32", shape),) for shape in shapes]
    traces = [dataclasses.replace(traces_of("gelu")[0], inputs=one) for one in sets]
    assert "x (50, 21)" in write_unit_test(task_of("gelu"), traces)
