"""Pointwise work shares a kernel with what makes or reads its elements."""

import pytest

from musadata.config import BackendType, VerifierConfig
from musadata.teacher.compiler.emission.schedule_plan import PLANS
from musadata.verifier import Verifier
from tests.teacher.compiler.references import FIXTURES, task_of

FUSED = ("shuffled pixels", "normalised convolution", "convolution of two tensors", "joined heads")


@pytest.mark.parametrize("name", FUSED)
def test_pointwise_work_has_no_kernel_of_its_own(candidate_of, name):
    assert len(candidate_of(name, PLANS[0]).kernels) == 1


@pytest.mark.parametrize("name", [*FUSED, "pooled rows of channels"])
def test_fused_kernels_are_right(candidate_of, name):
    with Verifier(VerifierConfig(backend=BackendType.EMULATED)) as verifier:
        for plan in (PLANS[0], PLANS[1]):
            verdict = verifier.verify(task_of(name), candidate_of(name, plan).source, FIXTURES[name].sets)
            assert verdict.accepted, verdict.feedback
