"""The reference as a rival: a process of its own that outlives candidates and failures, here timed on the CPU."""

from dataclasses import replace

import pytest
import torch

from musadata.records import InputSpec
from musadata.sandbox import Sandbox
from musadata.verifier import REFERENCE_PRELOAD
from musadata.verifier.protocol import measure_messages as measures
from musadata.verifier.protocol.messages import PrepareReference, number_blobs
from musadata.verifier.protocol.tensors import pack
from musadata.verifier.sandboxed import measure
from musadata.verifier.trusted.baseline_pool import _prepared
from musadata.verifier.trusted.baseline_process import Baseline, BaselineFailed

REFERENCE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.sin(x) * 2 + torch.relu(x)
def get_inputs():
    return [torch.ones(64, 100)]
def get_init_inputs():
    return []
"""
REQUEST = PrepareReference(REFERENCE, 0, [], (None,), pack({}), number_blobs([pack({"0": torch.ones(64, 100)})]))


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox((*REFERENCE_PRELOAD, "musadata.verifier.sandboxed.measure")) as sandbox:
        yield sandbox


def open_baseline(sandbox, compiled):
    baseline = Baseline(sandbox, "cpu", compiled, flush_bytes=1 << 20)
    baseline.launch()
    return baseline


def test_one_process_serves_references_in_turn(sandbox):
    baseline = open_baseline(sandbox, compiled=False)
    try:
        for reference in (REFERENCE, REFERENCE.replace("sin", "cos"), REFERENCE):
            baseline.prepare(replace(REQUEST, reference=reference))
            turn = baseline.measure(5)
            assert len(turn.times) == 5
            assert 0 < sum(turn.times) < turn.wall_ms
        assert baseline._served == 3
    finally:
        baseline.close()


def test_reference_that_fails_is_no_baseline_and_says_why(sandbox):
    baseline = open_baseline(sandbox, compiled=False)
    try:
        with pytest.warns(RuntimeWarning, match="eager mode is no baseline: ValueError: no device for this"):
            broken = REFERENCE.replace(
                "return torch.sin", "raise ValueError('no device for this')\n        return torch.sin"
            )
            assert _prepared(baseline, replace(REQUEST, reference=broken)) is None
        with pytest.raises(BaselineFailed):
            baseline.measure(1)
        assert _prepared(baseline, REQUEST) is baseline
    finally:
        baseline.close()


@pytest.mark.parametrize("lacks_room", [True, False])
def test_a_reference_that_a_full_device_has_freed_is_prepared_again(monkeypatch, lacks_room):
    process, asked = measure._Baseline("cpu"), []

    def ask(command, kind):
        asked.append(type(command))
        answer = process.carry_out(command)
        assert isinstance(answer, kind)
        return answer

    monkeypatch.setattr(measure, "lacks_room", lambda device: lacks_room)
    monkeypatch.setattr(Baseline, "_alive", True)
    monkeypatch.setattr(Baseline, "_begin", lambda self, reference: setattr(self, "_served", 1))
    baseline = Baseline(None, "cpu", compiled=False, flush_bytes=0)
    baseline.ask = ask
    request = measures.PrepareMeasure(REFERENCE, 0, (InputSpec("x", "normal", "float32", (64, 100)),), b"")
    with torch.no_grad():
        for _ in range(2):
            baseline.prepare_measure(request)
            assert len(baseline.measure(2).times) == 2
            baseline.release()
    assert asked.count(measures.PrepareMeasure) == (2 if lacks_room else 1)


@pytest.mark.slow
def test_compiled_reference_is_a_baseline_inside_the_sandbox(sandbox):
    baseline = open_baseline(sandbox, compiled=True)
    try:
        baseline.prepare(REQUEST)
        assert len(baseline.measure(3).times) == 3
    finally:
        baseline.close()
