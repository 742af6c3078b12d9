"""What is expected of a candidate, computed in this process: these references are our own."""

from dataclasses import asdict

from musadata.records import InputSpec
from musadata.rows import plain
from musadata.verifier.reference import run_reference
from musadata.verifier.variants import OFFSET, PLAIN, SCALED, InputSet

SATURATING = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.softplus(-5 * x.abs())


def get_inputs():
    return []


def get_init_inputs():
    return []
"""


def test_variant_under_which_nothing_is_left_is_replaced_by_plain_values(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = InputSpec("x", "normal", "float32", (4, 50), 0.0, 0.0, "")
    plans = [asdict(InputSet(0, variant, seed)) for seed, variant in enumerate((PLAIN, SCALED, OFFSET))]
    facts = run_reference(SATURATING, plain([[x]]), plans, 3)
    assert [item["plan"]["variant"] for item in facts["sets"]] == [PLAIN, SCALED, PLAIN]  # softplus(-500) is 0
