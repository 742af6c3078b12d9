"""A reference that comes alone is judged at any size: at smaller ones, and it says which."""

import pytest

from musadata.records import ErrorClass
from musadata.verifier.task_from_reference import read_reference
from tests.verifier.conftest import CONFIG


@pytest.fixture(scope="module")
def large(relu_reference):
    text = relu_reference.replace("torch.randn(37, 53)", "torch.randn(batch, width)")
    return text.replace("class Model", "batch = 4096\nwidth = 32768\n\n\nclass Model")


def test_a_candidate_that_takes_sizes_from_its_arguments_is_judged_at_smaller_ones(verifier, large, relu):
    verdict = verifier.verify_text(large, relu)
    assert verdict.accepted, verdict.findings
    assert "batch (line 6) 4096 to " in verdict.shrunk
    assert "width (line 7) 32768 to " in verdict.shrunk


def test_a_wrong_candidate_is_rejected_at_any_size(verifier, large, relu):
    verdict = verifier.verify_text(large, relu.replace("? 0.0f", "? -0.01f"))
    assert verdict.error_class is ErrorClass.CORRECTNESS
    assert verdict.shrunk


def test_a_candidate_that_relies_on_powers_of_two_is_judged_at_such_sizes(verifier, large, relu):
    relying = relu.replace("if (i < n) y[i]", "y[i]").replace("(n + 255) / 256, 256", "n / 32, 32")
    verdict = verifier.verify_text(large, relying)
    assert verdict.accepted, verdict.findings
    assert " 4096 to 64" in verdict.shrunk or " 4096 to 128" in verdict.shrunk


def test_a_candidate_with_sizes_written_into_it_cannot_be_judged_and_is_told_why(verifier, large, relu):
    verdict = verifier.verify_text(large, relu.replace("int n = dense.numel()", "int n = 134217728"))
    assert (verdict.error_class, [finding.rule for finding in verdict.findings]) == (
        ErrorClass.INFRA,
        ["reference.shrunk"],
    )
    assert "134217728" in verdict.feedback
    assert "batch * width" in verdict.feedback
    assert relu.splitlines()[verdict.findings[0].line - 1].strip().startswith("int n")


def test_a_reference_that_cannot_be_shrunk_leaves_the_candidate_undecided(verifier, large, relu):
    verdict = verifier.verify_text(large.replace("torch.relu(x)", "torch.relu(x.view(16384, 8192))"), relu)
    assert [finding.rule for finding in verdict.findings] == ["reference.too_large"]


def test_numbers_within_words_and_fractions_are_no_sizes(verifier, large):
    lone = read_reference(large, CONFIG, verifier._opened.reference_sandbox)
    assert lone.written_sizes("x4096 = 0.4096 + a_32768 + 1.32768e5\ny = 7") == []
    assert lone.written_sizes("# a\nf(4096)")[0] == (4096, 2, "batch")
