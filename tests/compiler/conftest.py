"""Graphs of the small references, captured once per session in this process: the references are our own."""

import pytest

from musadata.compiler.candidate_set import read_graph
from musadata.compiler.emission.candidate import Candidate, build_candidate
from musadata.compiler.emission.schedule_plan import Plan
from musadata.compiler.ir.captured_graph import Graph
from musadata.rows import plain
from tests.compiler.references import FIXTURES

_graphs: dict[str, Graph] = {}
_candidates: dict[tuple[str, Plan], Candidate] = {}


@pytest.fixture(scope="session")
def graph_of():  # type: ignore[no-untyped-def]
    """A function from a fixture's name to its graph."""
    from musadata.compiler.capturing.capture import capture

    def get(name: str) -> Graph:
        if name not in _graphs:
            fixture = FIXTURES[name]
            captured = capture(fixture.source, [[plain(spec) for spec in specs] for specs in fixture.sets], 0)
            assert "unsupported" not in captured, captured
            _graphs[name] = read_graph(captured)
        return _graphs[name]

    return get


@pytest.fixture(scope="session")
def candidate_of(graph_of):  # type: ignore[no-untyped-def]
    """A function from a fixture's name and a plan to its honest candidate."""

    def get(name: str, plan: Plan) -> Candidate:
        if (name, plan) not in _candidates:
            _candidates[name, plan] = build_candidate(graph_of(name), plan)
        return _candidates[name, plan]

    return get
