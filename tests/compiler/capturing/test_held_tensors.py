"""Tensors that a model keeps beside its parameters and writes into."""

import pytest

from musadata.compiler.candidate_set import read_graph
from musadata.compiler.capturing.capture import capture
from musadata.compiler.emission.candidate import build_candidate
from musadata.compiler.emission.schedule_plan import PLANS
from musadata.config import BackendType, VerifierConfig
from musadata.rows import plain
from musadata.verifier import Verifier
from tests.compiler.references import FIXTURES, Fixture, task_of, tensor

SETS = ((tensor(3, 4), tensor(3, 4, name="y")),)
MADE = "self.state = torch.randn(3, 4); self.l = nn.Linear(8, 4)"
STEP = "self.state = torch.tanh(self.l(torch.cat((x, self.state), 1)))"


def captured(forward: str) -> dict:
    fixture = Fixture(f"{forward}\n        return self.state * 2", SETS, MADE)
    return capture(fixture.source, [[plain(spec) for spec in specs] for specs in fixture.sets], 0)


def test_a_state_that_is_overwritten_first_is_like_an_argument(monkeypatch):
    forward = f"self.state.copy_(y)\n        {STEP}\n        return self.state * 2"
    monkeypatch.setitem(FIXTURES, "held state", Fixture(forward, SETS, MADE))
    graph = captured(f"self.state.copy_(y)\n        {STEP}")
    assert {item["role"] for item in graph["inputs"]} == {"state", "argument"}, "its first values are not read"
    candidate = build_candidate(read_graph(graph), PLANS[0])
    with Verifier(VerifierConfig(backend=BackendType.EMULATED)) as verifier:
        verdict = verifier.verify(task_of("held state"), candidate.source, SETS)
    assert verdict.accepted, verdict.feedback


@pytest.mark.parametrize(
    "written", ["self.state.add_(y)", "self.state[0].copy_(y[0])", "self.state.copy_(self.state + y)"]
)
def test_a_state_that_each_call_changes_is_refused(written):
    assert captured(f"{written}\n        {STEP}")["unsupported"] == "a state that each call changes"
