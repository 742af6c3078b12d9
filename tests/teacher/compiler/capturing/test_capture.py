"""What tracing writes down of a reference."""

import json

from musadata.rows import plain
from musadata.teacher.compiler.capturing import constructor_arguments
from musadata.teacher.compiler.capturing.capture import capture
from tests.teacher.compiler.references import FIXTURES, ROWS, Fixture, tensor, two


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


def test_a_reference_that_raises_is_refused_with_the_error():
    fixture = Fixture("raise KeyError(1)", two(tensor(4, 3), tensor(5, 3)))
    assert captured(fixture)["unsupported"] == "tracing failed: KeyError"


def test_a_graph_too_large_to_be_read_is_refused_before_constructor_arguments_are_tried(monkeypatch):
    monkeypatch.setattr(constructor_arguments, "_changed_models", None)  # so that it fails if it is called
    fixture = Fixture("return [x := x * self.factor for _ in range(301)][-1]", ROWS, init="self.factor = factor")
    source = fixture.source.replace("__init__(self)", "__init__(self, factor=1.5)")
    sets = [[plain(spec) for spec in specs] for specs in fixture.sets]
    assert capture(source, sets, 0)["unsupported"] == "graph too large"


def test_functions_of_torch_are_as_they_were_after_a_capture():
    import torch

    before = torch.nn.functional.linear, torch.max_pool1d
    captured(FIXTURES["gelu"])
    assert (torch.nn.functional.linear, torch.max_pool1d) == before
