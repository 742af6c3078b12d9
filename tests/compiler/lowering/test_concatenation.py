"""Concatenations that begin with what an earlier one joins append to it."""

import pytest

from musadata.compiler.emission import candidate as emission
from musadata.compiler.emission.candidate import build_candidate
from musadata.compiler.emission.schedule_plan import PLANS
from musadata.compiler.ir.captured_graph import Node, Reference, TensorType
from musadata.compiler.ir.index_formulas import as_index
from musadata.compiler.lowering.concatenation import append_concatenations
from musadata.config import BackendType, VerifierConfig
from musadata.verifier import Verifier
from tests.compiler.references import FIXTURES, task_of


def cat(name: str, joined: str, dim: int = 1, dtype: str = "float32") -> Node:
    tensors = tuple(map(Reference, joined))
    shape = (as_index(2), as_index(3 * len(joined)))
    return Node(name, "cat.default", {"tensors": tensors, "dim": dim}, (TensorType(shape, dtype),))


def joined(node: Node) -> list[str]:
    return [one.node for one in node.arguments["tensors"]]


def test_the_longest_earlier_one_is_appended_to():
    nodes, linked = append_concatenations([cat("one", "ab"), cat("two", "abc"), cat("three", "abcde", -1)])
    assert [joined(node) for node in nodes] == [["a", "b"], ["one", "c"], ["two", "d", "e"]]
    assert linked == {"one", "two", "three"}


@pytest.mark.parametrize(
    "later",
    [cat("two", "bac"), cat("two", "ab"), cat("two", "a"), cat("two", "abc", 0), cat("two", "abc", dtype="float64")],
    ids=["another order", "the same", "less", "another dimension", "another type"],
)
def test_what_differs_stays_as_it_is(later):
    nodes, linked = append_concatenations([cat("one", "ab"), later])
    assert joined(nodes[1]) == joined(later)
    assert not linked


@pytest.mark.parametrize("plan", [PLANS[0], PLANS[4]])
def test_each_layer_of_a_long_dense_block_appends_to_what_it_was_given(graph_of, plan, monkeypatch):
    monkeypatch.setattr(emission, "MOST_CHARACTERS", 0)
    candidate = build_candidate(graph_of("dense layers"), plan)
    joins = [emitted.kernel for emitted in candidate.kernels if emitted.kernel.name.startswith("cat")]
    assert [len(kernel.inputs) for kernel in joins] == [2, 2, 2, 2]
    assert len({kernel.name for kernel in joins}) == 1, "all layers share one kernel"
    with Verifier(VerifierConfig(backend=BackendType.EMULATED)) as verifier:
        verdict = verifier.verify(task_of("dense layers"), candidate.source, FIXTURES["dense layers"].sets)
    assert verdict.accepted, verdict.feedback
