"""The steps of recurrent layers are loops of the host, whatever the length of the sequence."""

import pytest

from musadata.compiler.emission import candidate as emission
from musadata.compiler.emission.candidate import build_candidate
from musadata.compiler.emission.schedule_plan import PLANS


@pytest.mark.parametrize("name", ["long short-term memory", "gated both ways", "recurrent state"])
def test_steps_are_a_loop_around_one_kernel_or_two(name, graph_of):
    candidate = build_candidate(graph_of(name), PLANS[0])
    stepped = [emitted.kernel for emitted in candidate.kernels if emitted.kernel.steps]
    layers = {id(kernel.steps) for kernel in stepped}
    assert len(stepped) == (1 if name == "recurrent state" else 2) * len(layers)
    assert f"time_step < {'cols' if name.startswith('long') else 'batch'}" in candidate.source.replace("rows", "cols")


def test_layers_alike_go_through_their_steps_in_one_function(graph_of, monkeypatch):
    monkeypatch.setattr(emission, "MOST_CHARACTERS", 0)
    candidate = build_candidate(graph_of("gated both ways"), PLANS[0])
    assert candidate.source.count("for (int time_step") == 2, "one forwards, one backwards"
    assert candidate.source.count("= run_gru") == 4
