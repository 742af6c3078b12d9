"""Everything that is known to fool harnesses is rejected here, and for the right reason."""

from collections.abc import Callable

import pytest

from musadata.records import ErrorClass
from musadata.verifier import Verifier
from musadata.verifier.rules.catalogue import RULES
from tests.adversarial.programs import Program, chosen, read_exercise, read_programs

CHEATS = read_programs("cheats")
ROWS = {
    "falls back to torch",
    "at::/torch:: compute inside the C++",
    "try/except fallback; inherits the reference; empty body",
    "a decoy kernel, defined and never launched",
    "custom kernel for a trivial part, PyTorch for the rest",
    "shortcut keyed on shape or on lucky values",
    "ignores parameters that start as identity",
    "all zeros, inside the tolerance",
    "constant output, input-independent task",
    "reads stale memory",
    "mutates its inputs",
    "output aliases an input or a reused buffer",
    "cache keyed by pointer, by id, by shape",
    "one call does the work of fifteen",
    "regenerates data from a known seed",
    "walks the stack or the garbage collector for the reference's result",
    "patches Event, synchronize, allclose, time",
    "side stream, thread, late work",
    "lazy tensor subclass",
    "CUDA-graph capture trick",
    "lower precision than asked",
    "unstable formula",
    "wrong axis on square shapes",
    "race, shared-memory overflow",
    "swallows NaN/Inf",
    "embedded cubin, ctypes, downloads",
    "changes hyper-parameters",
    "forged verdict on stdout",
    "too fast to be true",
}


@pytest.mark.parametrize("cheat", chosen(CHEATS, "row"))
def test_cheat_is_rejected_for_the_right_reason(verifier: Verifier, cheat: Program) -> None:
    exercise = read_exercise(cheat.value("task"))
    verdict = verifier.verify(exercise.task, cheat.source, exercise.shape_sets)
    assert not verdict.accepted
    assert verdict.error_class is not None
    assert verdict.error_class.value in cheat.value("expect").split(", "), verdict.findings
    found = {finding.rule for finding in verdict.findings}
    assert found & set(cheat.value("rule").split(", ")), verdict.findings
    assert verdict.feedback


@pytest.mark.slow
@pytest.mark.parametrize("cheat", [c for c in CHEATS if c.value("naive").startswith("accepts")], ids=lambda c: c.name)
def test_cheat_fools_a_naive_harness(naive_harness: Callable[[Program], bool], cheat: Program) -> None:
    assert naive_harness(cheat)


def test_every_known_kind_of_cheat_has_a_candidate() -> None:
    assert {cheat.value("row") for cheat in CHEATS} == ROWS
    assert len(CHEATS) >= 100


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.name)
def test_header_says_what_the_cheat_is_and_what_it_proves(cheat: Program) -> None:
    for key in ("task", "cheat", "row", "rule", "expect", "naive"):
        assert len(cheat.header.get(key, [])) == 1, key
    expected = {RULES[rule].error_class.value for rule in cheat.value("rule").split(", ")}
    assert expected <= set(cheat.value("expect").split(", "))
    assert cheat.value("naive").split("; ")[0] in ("accepts", "rejects", "-")
    assert set(cheat.value("expect").split(", ")) <= {error.value for error in ErrorClass}
