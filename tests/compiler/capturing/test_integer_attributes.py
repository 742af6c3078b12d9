"""Numbers that a constructor is given reach the kernels; candidates are right for other values, or refuse them."""

from dataclasses import replace

import pytest

from musadata.compiler.candidate_set import CandidateSet, read_graph
from musadata.compiler.capturing.capture import capture
from musadata.compiler.ir.captured_graph import Graph
from musadata.config import BackendType, VerifierConfig
from musadata.rows import plain
from tests.compiler.references import FIXTURES, IMAGES, task_of

TEMPLATE = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, {names}):
        super().__init__()
        {init}

    def forward(self, x):
        return {forward}


def get_inputs():
    return []


def get_init_inputs():
    return {values}
"""
CONVOLUTION = "self.c = nn.Conv2d(6, 4, 3, stride, padding, dilation)", "stride, padding, dilation", "self.c(x)"
TRANSPOSED = (
    "self.c = nn.ConvTranspose2d(6, 4, 3, stride, padding, more)",
    "stride, padding, more",
    "self.c(x)",
)
WINDOW = "self.k, self.s, self.p = k, s, p", "k, s, p"
REFERENCES = {
    "convolution": (*CONVOLUTION, [2, 1, 1], [[1, 0, 2], [3, 2, 1]]),
    "transposed convolution": (*TRANSPOSED, [2, 1, 1], [[3, 0, 2], [1, 1, 0]]),
    "max pool": (*WINDOW, "F.max_pool2d(x, self.k, self.s, self.p)", [3, 2, 1], [[2, 1, 0], [4, 3, 2]]),
    "average pool": (
        *WINDOW,
        "F.avg_pool2d(x, self.k, self.s, self.p, count_include_pad=False)",
        [(3, 2), 2, 1],
        [[(2, 4), 3, 0]],
    ),
    "adaptive average": ("self.n = n", "n", "F.adaptive_avg_pool2d(x, self.n)", [(3, 5)], [[(4, 2)]]),
    "adaptive maximum": ("self.n = n", "n", "F.adaptive_max_pool2d(x, self.n)", [3], [[5]]),
    "reflection": ("self.pad = nn.ReflectionPad2d(n)", "n", "self.pad(x)", [2], [[0], [4]]),
    "patches": (*WINDOW, "F.unfold(x, self.k, 1, self.p, self.s)", [3, 2, 1], [[2, 1, 0]]),
    "neighbours": ("self.n = n", "n", "F.local_response_norm(x, self.n)", [2], [[5]]),
    "random leaks": ("self.a, self.b = a, b", "a, b", "F.rrelu(x, self.a, self.b)", [0.1, 0.3], [[0.0, 0.5]]),
    "groups": ("self.n = n", "n", "F.channel_shuffle(x, self.n)", [2], [[3]]),
}


@pytest.fixture(scope="module")
def verifier():
    from musadata.verifier import Verifier

    with Verifier(VerifierConfig(backend=BackendType.EMULATED)) as opened:
        yield opened


def reference_of(name: str, values: list) -> str:
    init, names, forward, *_ = REFERENCES[name]
    return TEMPLATE.format(init=init, names=names, forward=forward, values=values)


def graph_of(text: str, sets=IMAGES) -> Graph:
    captured = capture(text, [[plain(spec) for spec in specs] for specs in sets], 0)
    assert "unsupported" not in captured, captured
    return read_graph(captured)


@pytest.mark.parametrize("name", REFERENCES)
def test_a_candidate_is_right_for_other_values_too(name, verifier):
    *_, known, others = REFERENCES[name]
    candidate = CandidateSet(graph_of(reference_of(name, known)), name).candidate(0)
    assert "for these options" not in candidate.source
    for values in (known, *others):
        task = replace(task_of("max pool"), reference=reference_of(name, values))
        verdict = verifier.verify(task, candidate.source, IMAGES)
        assert verdict.accepted, (values, verdict.feedback)


@pytest.mark.parametrize(("name", "values"), [("reflection", [12]), ("reflection", [-1]), ("max pool", [3, 1, 2])])
def test_values_that_no_kernel_is_made_for_are_refused(name, values, verifier):
    """A reflection that is wider than the image, a negative one, a padding of more than half a window."""
    init, names, _, known, _ = REFERENCES[name]
    candidate = CandidateSet(graph_of(reference_of(name, known)), name).candidate(0)
    anything = TEMPLATE.format(init=init, names=names, forward="x * 1", values=values)
    verdict = verifier.verify(replace(task_of("max pool"), reference=anything), candidate.source, IMAGES)
    assert "the kernels are " in verdict.feedback


def test_normalising_by_neighbours_is_one_kernel_for_any_number_of_them():
    graph = graph_of(reference_of("neighbours", [2]))
    assert len(CandidateSet(graph, "a key").candidate(0).kernels) == 1


def test_an_integer_that_changes_the_structure_is_refused_for_other_values():
    text = TEMPLATE.format(
        init="self.n, self.dim = n, dim", names="n, dim", forward="(x.sum(self.dim) * 2 if self.n == 3 else x)",
        values=[3, 1],
    )  # fmt: skip
    assert set(graph_of(text).fixed) == {"n", "dim"}


def test_a_question_about_an_attribute_is_a_condition():
    text = TEMPLATE.format(
        init="self.n = n", names="n", forward="F.pad(x, (self.n, 0)) if self.n < 9 else x", values=[2]
    )
    graph = graph_of(text)
    assert [str(condition.relation) for condition in graph.conditions] == ["<"]
    assert "n_value < 9" in CandidateSet(graph, "").candidate(0).source


def test_what_a_constructor_computes_from_its_argument_is_taken_from_the_attribute():
    text = TEMPLATE.format(init="self.half = n // 2", names="n", forward="F.pad(x, (self.half, 0))", values=[4])
    assert [size.attribute for size in graph_of(text).sizes if size.attribute] == ["half"]


def test_a_list_that_holds_the_argument_is_not_overlooked():
    text = TEMPLATE.format(init="self.n, self.p = n, [n, 0]", names="n", forward="F.pad(x, self.p)", values=[2])
    assert graph_of(text).fixed == {"n": "2"}


def test_fixtures_without_arguments_are_traced_once(monkeypatch):
    from musadata.compiler.capturing import capture as module

    calls = []
    known = module.trace
    monkeypatch.setattr(module, "trace", lambda *given, **options: calls.append(1) or known(*given, **options))
    graph_of(FIXTURES["gelu"].source, FIXTURES["gelu"].sets)
    assert len(calls) == 1
