"""What tracing writes down of a reference."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musadata.compiler.candidate_set import CandidateSet
from musadata.compiler.capturing import constructor_arguments
from musadata.compiler.capturing.capture import capture
from musadata.compiler.ir import lowering_errors
from musadata.compiler.ir.captured_graph import parse_graph
from musadata.compiler.ir.lowering_errors import Unsupported
from musadata.rows import plain
from tests.compiler.references import FIXTURES, ROWS, Fixture, tensor, two


def captured(fixture: Fixture) -> dict:
    return capture(fixture.source, [[plain(spec) for spec in specs] for specs in fixture.sets], 0)


def test_sizes_that_vary_stay_symbolic_and_others_are_numbers():
    graph = captured(FIXTURES["linear"])
    shape = next(item["shape"] for item in graph["inputs"] if item["role"] == "argument")
    assert shape == [["size", "s0_0"], 37]
    assert [size["values"] for size in graph["sizes"]] == [[9, 4]]


def test_a_captured_graph_is_plain_json():
    graph = captured(FIXTURES["residual block"])
    assert json.loads(json.dumps(graph)) == graph


def test_a_constructor_that_only_builds_layers_is_kept_word_for_word():
    assert "self.l = nn.Linear(37, 20)" in captured(FIXTURES["linear"])["constructor"]["methods"]


def test_a_graph_that_depends_on_sizes_is_refused():
    fixture = Fixture("return x * 2 if x.size(0) == 4 else x * 3", two(tensor(4, 3), tensor(5, 3)))
    assert captured(fixture)["unsupported"] == "the graph depends on the input's sizes"


SAVED = """@staticmethod
    def forward(ctx, x, by):
        ctx.save_for_backward(x)
        return x if any(ctx.needs_input_grad) else x * by
"""
SET_UP = """@staticmethod
    def forward(x, by):
        return x * by

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
"""


@pytest.mark.parametrize("forward", [SAVED, SET_UP])
def test_a_function_with_a_derivative_of_its_own_is_captured_by_its_result(forward):
    scaled = f"class Scaled(torch.autograd.Function):\n    {forward}\n    backward = None\n\n\n"
    source = Fixture("return Scaled.apply(x, 3.0)", ROWS).source.replace("class Model", f"{scaled}class Model")
    graph = capture(source, [[plain(spec) for spec in specs] for specs in ROWS], 0)
    assert [node["op"] for node in graph["nodes"]] == ["mul.Tensor"]


QUESTIONS = (
    *("rows > {n}", "rows <= {n}", "rows == {n}", "rows % {m} < 2", "rows // {m} >= {m}", "max(rows, {n}) == {n}"),
    *("min(rows, {n}) < cols", "rows > {m} and cols < {n}", "rows < {m} or cols > {n}", "2 * rows - cols > {n}"),
)


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=40, deadline=None)
@given(st.sampled_from(QUESTIONS), st.integers(2, 40), st.integers(2, 9), st.data())
def test_a_branch_on_sizes_is_a_condition_that_holds_where_the_reference_takes_it(question, n, m, data):
    size = st.integers(2, 60)
    known = data.draw(
        st.lists(st.tuples(size, size), min_size=2, max_size=2, unique_by=(lambda s: s[0], lambda s: s[1]))
    )
    code = question.format(n=n, m=m)
    fixture = Fixture(
        f"rows, cols = x.shape; return x * 2 if {code} else x * 3", two(*(tensor(*shape) for shape in known))
    )
    sides = [_side(code, *shape) for shape in known]
    graph = captured(fixture)
    if len(set(sides)) > 1:
        assert graph["unsupported"] == "the graph depends on the input's sizes"
        return
    if "unsupported" in graph:  # both sets answer one of two questions differently: `or` asks the second then
        return
    parsed = parse_graph(graph)
    for shape in data.draw(st.lists(st.tuples(size, size), min_size=5, max_size=20)):
        held = all(condition.holds(parsed.sizes_for({"x": shape})) for condition in parsed.conditions)
        assert _side(code, *shape) is sides[0] or not held


def _side(code: str, rows: int, cols: int) -> bool:
    return bool(eval(code, {"rows": rows, "cols": cols, "min": min, "max": max}))


def test_questions_of_pytorch_settle_none_of_the_reference():
    forward = "y = self.c(x)[:, 0]; return y * 2 if x.size(0) > 100 else y"  # cuDNN or not is asked for 16 images
    fixture = Fixture(forward, two(tensor(4, 3, 8, 9), tensor(7, 3, 9, 8)), "self.c = nn.Conv2d(3, 4, 3)")
    assert captured(fixture)["conditions"] == [["<=", ["size", "s0_0"], 100]]


def test_a_task_measured_on_the_other_side_of_a_branch_has_no_candidate():
    fixture = Fixture("return x * 2 if x.size(0) > 100 else x", two(tensor(4, 3), tensor(5, 8)))
    graph = parse_graph(captured(fixture))
    CandidateSet(graph, "", {"x": (100, 8)})
    with pytest.raises(Unsupported, match="depends on the input's sizes"):
        CandidateSet(graph, "", {"x": (101, 8)})


def test_a_reference_that_raises_is_refused_with_the_error():
    fixture = Fixture("raise KeyError(1)", two(tensor(4, 3), tensor(5, 3)))
    assert captured(fixture)["unsupported"] == "tracing failed: KeyError"


def test_a_graph_too_large_to_be_read_is_refused_before_constructor_arguments_are_tried(monkeypatch):
    monkeypatch.setattr(constructor_arguments, "_other_integers", None)  # so that it fails if it is called
    monkeypatch.setattr(lowering_errors, "_MOST_NODES", 300)
    fixture = Fixture("return [x := x * self.factor for _ in range(301)][-1]", ROWS, init="self.factor = factor")
    source = fixture.source.replace("__init__(self)", "__init__(self, factor=1.5)")
    sets = [[plain(spec) for spec in specs] for specs in fixture.sets]
    assert capture(source, sets, 0)["unsupported"] == "graph too large"


def test_functions_of_torch_are_as_they_were_after_a_capture():
    import torch

    before = torch.nn.functional.linear, torch.max_pool1d
    captured(FIXTURES["gelu"])
    assert (torch.nn.functional.linear, torch.max_pool1d) == before
