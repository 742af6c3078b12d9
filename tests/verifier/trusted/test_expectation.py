"""What is expected of a candidate, computed in this process: these references are our own."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from musadata.records import InputSpec
from musadata.verifier.protocol.message_encoding import decode, encode
from musadata.verifier.protocol.messages import ReferenceFacts, ReferenceRequest
from musadata.verifier.protocol.tensors import unpack
from musadata.verifier.protocol.variants import (
    BELOW,
    HUGE,
    INFINITE,
    NONZERO_TIES,
    OFFSET,
    OUTLIERS,
    PLAIN,
    RAISED,
    REBUILT,
    SCALED,
    TIES,
    UPDATED,
    InputSet,
)
from musadata.verifier.sandboxed.draws import apply_variant
from musadata.verifier.sandboxed.oracle import run_reference

X = InputSpec("x", "normal", "float32", (4, 50), 0.0, 0.0, "")


def reference(result):
    """A reference that returns this expression of x."""
    return f"""
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return {result}


def get_inputs():
    return []


def get_init_inputs():
    return []
"""


def run(result, variants):
    sets = tuple(InputSet(0, variant, seed) for seed, variant in enumerate(variants))
    facts = decode(run_reference(encode(ReferenceRequest(reference(result), ((X,),), sets, 3))), ReferenceFacts)
    assert facts is not None
    return facts.sets


def variants_of(result, variants):
    return [item.plan.variant for item in run(result, variants)]


def test_variant_under_which_nothing_is_left_is_replaced_by_plain_values(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = variants_of("torch.nn.functional.softplus(-5 * x.abs())", (PLAIN, SCALED, OFFSET))
    assert found == [PLAIN, SCALED, PLAIN]  # softplus(-500) is 0


@pytest.mark.parametrize(
    ("result", "found"),
    [
        ("torch.round(x)", [PLAIN, TIES, BELOW]),
        ("x.argmax(1)", [PLAIN, TIES, BELOW]),
        ("1 / x", [PLAIN, NONZERO_TIES, BELOW]),
        ("x.abs().log()", [PLAIN, NONZERO_TIES, BELOW]),
        ("x.topk(3).values", [PLAIN, TIES, BELOW]),
        ("x.topk(3).indices", [PLAIN, BELOW]),  # which of equal values comes first is open
        ("torch.relu(x)", [PLAIN, TIES]),  # nothing is left below zero
    ],
)
def test_sets_with_ties_and_below_zero_are_judged_where_they_tell_something(tmp_path, monkeypatch, result, found):
    monkeypatch.chdir(tmp_path)
    assert variants_of(result, (PLAIN, TIES, BELOW)) == found


def test_ties_hold_equal_values_zeros_halves_and_a_large_last_value():
    x = torch.randn(40, 50, generator=torch.Generator().manual_seed(0))
    (tied,) = apply_variant([X], [x], TIES)
    assert not tied[0].any()
    assert 100 < int((tied[1:, :-1] == 0).sum()) < 1000
    assert bool((tied == (tied * 16).round() / 16).all())
    assert abs(float(tied[-1, -1])) >= 4
    (below,) = apply_variant([X], [x], BELOW)
    assert bool((below < 0).all())
    assert int(below.argmax()) == below.numel() - 1 or float(below[-1, -1]) > -0.1


def test_ties_of_bounded_values_stay_in_their_range_and_meet_its_lower_bound():
    spec = InputSpec("p", "uniform", "float32", (30, 30), 0.0, 1.0, "")
    x = torch.rand(30, 30, generator=torch.Generator().manual_seed(0))
    for variant, low in ((TIES, 0.0), (NONZERO_TIES, 0.0625)):
        (tied,) = apply_variant([spec], [x], variant)
        assert float(tied.min()) == low
        assert float(tied.max()) < 1.0


def test_an_empty_result_beside_another_says_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (found,) = run("(x.exp(), x[:0])", (PLAIN,))
    assert [tolerance.discriminating for tolerance in found.tolerances] == [True, False]


def test_results_that_are_inputs_may_be_inputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("(torch.relu(x), x, x.t(), x + 1)", (PLAIN,))[0].handed_on == (1, 2)
    assert run("(torch.relu(x), x.add_(1))", (PLAIN,))[0].handed_on == ()


def test_what_a_mask_takes_out_need_not_become_nan(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("torch.softmax(x, 1) * (torch.arange(50) < 20)", (INFINITE,))
    oracle = unpack((tmp_path / "oracle0").read_bytes())["0"].values
    expected = unpack((tmp_path / "expected0").read_bytes())["0"].values
    nan = (expected != expected).any(1)
    assert nan.any()
    assert (oracle[nan][:, 20:] == 0).all()
    assert (oracle[nan][:, :20] != oracle[nan][:, :20]).all()


def test_what_is_multiplied_by_zero_need_not_become_nan(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("torch.tril(torch.ones(4, 4, dtype=x.dtype)) @ x", (INFINITE,))
    oracle = unpack((tmp_path / "oracle0").read_bytes())["0"].values
    expected = unpack((tmp_path / "expected0").read_bytes())["0"].values
    assert expected[0, 16] != expected[0, 16]  # 0 · inf, from the row below
    assert oracle[0, 16] == 0
    assert expected[1, 16] == oracle[1, 16] == float("inf")


def test_what_a_clamp_takes_may_be_a_number_where_it_was_nan(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("torch.stack([torch.relu(x - x.mean(1, True)), (x - x.mean(1, True)).exp()])", (INFINITE,))
    oracle = unpack((tmp_path / "oracle0").read_bytes())["0"].values
    expected = unpack((tmp_path / "expected0").read_bytes())["0"].values
    nan = expected != expected
    assert nan[0].any() and nan[1].any()
    assert (oracle[0][nan[0]] == 0).all()
    assert (oracle[1][nan[1]] != oracle[1][nan[1]]).all()


def test_huge_inputs_reach_clamps_where_results_are_finite_and_no_integer_overflows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert variants_of("(x * 2).clamp(-5000, 300)", (PLAIN, HUGE)) == [PLAIN, HUGE]
    assert variants_of("x ** 14", (PLAIN, HUGE)) == [PLAIN]
    assert variants_of("(x * 2e8).to(torch.int32)", (PLAIN, HUGE)) == [PLAIN]


def test_what_outliers_do_not_reach_stays_as_exact_as_without_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (_, found) = run("x.cumsum(1)", (PLAIN, OUTLIERS))
    assert found.plan.variant == f"{OUTLIERS}1000" and found.tolerances[0].slack < 1e-2
    condition = unpack((tmp_path / "condition1").read_bytes())["0"].values
    assert condition[0].min() > condition[1:].max()


def test_a_set_comes_with_the_state_of_a_model_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scaled = reference("x * self.scale.exp().clamp(max=100)").replace(
        "    def forward",
        "    def __init__(self):\n        super().__init__()\n"
        "        self.scale = torch.nn.Parameter(torch.tensor(2.5))\n\n    def forward",
    )
    request = ReferenceRequest(scaled, ((X,),), (InputSet(0, PLAIN, 1), InputSet(0, RAISED, 2)), 3)
    facts = decode(run_reference(encode(request)), ReferenceFacts)
    assert [one.own_state for one in facts.sets] == [False, True]
    usual, raised = (unpack(Path(name).read_bytes())["scale"].values for name in ("state", "state1"))
    assert usual < 4.6 < raised


def test_a_set_on_which_the_reference_fails_is_left_out_unless_it_declares_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    long = replace(X, shape=(4, 90))
    sets = (InputSet(0, PLAIN, 0), InputSet(1, PLAIN, 1), InputSet(0, SCALED, 2))

    def plans(expression):
        request = ReferenceRequest(reference(expression), ((X,), (long,)), sets, 3)
        facts = decode(run_reference(encode(request)), ReferenceFacts)
        return [(item.plan.shape, item.plan.variant) for item in facts.sets]

    assert plans("x * 2") == [(0, PLAIN), (1, PLAIN), (0, SCALED)]
    assert plans("x.view(4, 50) * 2") == [(0, PLAIN), (0, SCALED)]
    with pytest.raises(RuntimeError):
        plans("x.view(4, 90) * 2")


def with_constructor(text, body, arguments="[]"):
    return text.replace("    def forward", f"    def __init__(self, size=1):\n{body}\n    def forward").replace(
        "get_init_inputs():\n    return []", f"get_init_inputs():\n    return {arguments}"
    )


def facts_of(text, variant):
    request = ReferenceRequest(text, ((X,),), (InputSet(0, PLAIN, 1), InputSet(0, variant, 2)), 3)
    return decode(run_reference(encode(request)), ReferenceFacts).sets[1:]


def test_a_model_is_constructed_with_other_arguments_where_these_matter(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    body = "        super().__init__()\n        self.size = size\n"
    (found,) = facts_of(with_constructor(reference("x.roll(self.size, 1)"), body, "[2]"), REBUILT)
    assert found.init == [3] and found.own_state
    assert facts_of(with_constructor(reference("x * 2"), body, "[2]"), REBUILT) == ()


def test_buffers_that_a_call_changes_are_results_as_well(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    body = "        super().__init__()\n        self.norm = torch.nn.BatchNorm1d(50)\n"
    (found,) = facts_of(with_constructor(reference("self.norm(x)"), body), UPDATED)
    assert found.updated == ("norm.running_mean", "norm.running_var", "norm.num_batches_tracked")
    assert len(found.tolerances) == 4
    assert facts_of(with_constructor(reference("self.norm.eval()(x)"), body), UPDATED) == ()
