"""Candidates whose kernels share results, or end a product with what is made after it, are right."""

import pytest

from musadata.compiler.emission.candidate import build_candidate
from musadata.compiler.emission.schedule_plan import PLANS
from musadata.config import BackendType, VerifierConfig
from tests.compiler.references import FIXTURES, task_of


@pytest.mark.parametrize("plan", [0, 2])
@pytest.mark.parametrize("name", ["distances of rows", "mean and deviation"])
def test_shared_results_are_right(name, plan, graph_of):
    from musadata.verifier import Verifier

    candidate = build_candidate(graph_of(name), PLANS[plan])
    with Verifier(VerifierConfig(backend=BackendType.EMULATED)) as verifier:
        verdict = verifier.verify(task_of(name), candidate.source, FIXTURES[name].sets)
    assert verdict.accepted, verdict.feedback
