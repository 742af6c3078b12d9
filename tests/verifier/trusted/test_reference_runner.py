"""References in their own process, as the trusted side runs them."""

import pytest

from musadata.records import InputSpec
from musadata.sandbox import Limits, Sandbox
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
