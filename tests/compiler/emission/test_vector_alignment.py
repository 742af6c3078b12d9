"""Vectors are moved only where an address allows it: contiguous tensors may start anywhere in their memory."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from musadata.compiler.emission.candidate import build_candidate
from musadata.compiler.emission.schedule_plan import PLANS
from musadata.tasks.reference_loading import load_reference
from tests.compiler.references import FIXTURES
from tests.verifier.backends.emulated.conftest import run  # noqa: F401

CALLS = """
calls = {calls}


def tensor(offset, values):
    values = torch.tensor(values)
    memory = torch.empty(offset + values.numel(), device="cuda")
    memory[offset:].copy_(values.flatten())
    return memory[offset:].view(values.shape)


def answer():
    torch.manual_seed(0)
    model = ModelNew().to("cuda")
    return [model(*(tensor(*one) for one in inputs)).cpu().tolist() for inputs in calls]
"""
SIZES = {  # of each input, from rows and columns
    "chain": lambda rows, cols: ((rows, cols),),
    "activations": lambda rows, cols: ((rows, cols),),
    "mean squared error": lambda rows, cols: ((rows, cols), (rows, cols)),
    "matrix product": lambda rows, cols: ((rows, 8), (8, cols)),
    "product and more": lambda rows, cols: ((rows, 8), (8, cols), (rows, cols)),
    "softmax": lambda rows, cols: ((rows, cols),),
}
VECTORS = [plan for plan in PLANS if plan.elements == "vector" or plan.in_registers]


@pytest.mark.parametrize("name", SIZES)
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_inputs_that_start_anywhere_give_the_same_results(name, graph_of, run, data):  # noqa: F811
    plan = data.draw(st.sampled_from(VECTORS))
    graph = graph_of(name)
    candidate = build_candidate(graph, plan, {size.name: 4096 for size in graph.sizes})
    shapes = [
        SIZES[name](data.draw(st.integers(1, 6)), data.draw(st.sampled_from([1, 3, 4, 7, 12, 64]))) for _ in range(4)
    ]
    calls = [[(data.draw(st.integers(0, 5)), torch.randn(shape).tolist()) for shape in one] for one in shapes]
    answer = run(candidate.source + CALLS.format(calls=calls))
    assert (answer["error"], answer["records"]["faults"]) == ("", [])
    torch.manual_seed(0)
    reference = load_reference(FIXTURES[name].source).Model()
    for inputs, result in zip(calls, answer["value"], strict=True):
        expected = reference(*(torch.tensor(values) for _, values in inputs))
        torch.testing.assert_close(torch.tensor(result), expected, rtol=1e-4, atol=1e-5)


def test_the_emulator_sees_a_vector_at_an_odd_address(graph_of, run):  # noqa: F811
    plan = next(plan for plan in PLANS if plan.elements == "vector")
    source = build_candidate(graph_of("chain"), plan).source
    unchecked = source.replace("reinterpret_cast<size_t>(x) % 16 == 0", "true")
    assert unchecked != source
    answer = run(unchecked + CALLS.format(calls=[[(1, torch.randn(4, 8).tolist())]]))
    assert [fault["kind"] for fault in answer["records"]["faults"]] == ["misaligned"]
