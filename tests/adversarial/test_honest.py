"""Honest kernels, in as many styles as models write, are accepted."""

import pytest

from musadata.verifier import Verifier
from tests.adversarial.programs import Program, chosen, read_exercise, read_programs

HONEST = read_programs("honest")


@pytest.mark.parametrize("candidate", chosen(HONEST, "task", every=5))
def test_honest_kernel_is_accepted(verifier: Verifier, candidate: Program) -> None:
    exercise = read_exercise(candidate.value("task"))
    verdict = verifier.verify(exercise.task, candidate.source, exercise.shape_sets)
    assert verdict.accepted, verdict.findings
    assert verdict.test_share == 1.0
    assert verdict.kernels


def test_there_are_as_many_honest_kernels_as_promised() -> None:
    assert len(HONEST) >= 60
    assert len({candidate.value("task") for candidate in HONEST}) >= 40
