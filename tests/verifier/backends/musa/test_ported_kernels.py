"""Honest kernels stay honest when they are ported: MUSA's names, compiled as CUDA's, give the same verdict."""

import pytest

from musadata.verifier import Verifier
from tests.adversarial.programs import Program, chosen, read_exercise, read_programs

HONEST = [program for program in read_programs("honest") if not program.value("musa")]


@pytest.mark.parametrize("candidate", chosen(HONEST, "task", every=12))
def test_ported_honest_kernel_is_accepted(ported_verifier: Verifier, candidate: Program) -> None:
    exercise = read_exercise(candidate.value("task"))
    verdict = ported_verifier.verify(exercise.task, candidate.source, exercise.shape_sets)
    assert verdict.backend == "ported"
    assert verdict.accepted, verdict.findings
    assert verdict.kernels
