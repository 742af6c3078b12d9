"""References in their own process, as the trusted side runs them."""

import pytest

from musadata.records import InputSpec
from musadata.sandbox import Limits, Sandbox
from musadata.verifier.protocol.tensors import unpack
from musadata.verifier.protocol.variants import HUGE, PLAIN, SCALED, InputSet
from musadata.verifier.trusted.expectation import BadReference, ReferenceRunner

X = InputSpec("x", "normal", "float32", (4, 50))
ABORTING = """
import os

import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return os.abort() if x.abs().max() > {} else x * 2


def get_inputs():
    return []


def get_init_inputs():
    return []
"""


def test_a_reference_that_ends_the_process_on_changed_inputs_is_judged_on_declared_ones():
    plans = [InputSet(0, variant, seed) for seed, variant in enumerate((PLAIN, SCALED, PLAIN, HUGE))]
    with Sandbox() as sandbox:
        runner = ReferenceRunner(sandbox, Limits(seconds=60))
        found = runner.expect(ABORTING.format(100), [[X]], plans, 3)
        assert [one.plan.variant for one in found.sets] == [PLAIN, PLAIN]
        with pytest.raises(BadReference, match="crash"):
            runner.expect(ABORTING.format(0.001), [[X]], plans, 3)


def test_a_reference_sees_no_device():
    text = ABORTING.replace(
        "os.abort() if x.abs().max() > {} else x * 2", 'x + len(os.environ["CUDA_VISIBLE_DEVICES"])'
    )
    with Sandbox(environment={"CUDA_VISIBLE_DEVICES": "0"}) as sandbox:
        found = ReferenceRunner(sandbox, Limits(seconds=60)).expect(text, [[X]], [InputSet(0, PLAIN, 0)], 3)
    assert found.sets[0].expected[0].raw == unpack(found.sets[0].inputs)["0"].raw
