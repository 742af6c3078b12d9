"""Faults are small edits that matter for the task's sizes."""

import difflib
from random import Random

import pytest

from musadata.teacher.compiler.candidate_set import CandidateSet
from musadata.teacher.compiler.emission.schedule_plan import PLANS
from musadata.teacher.compiler.explanation import explain_repair
from musadata.teacher.compiler.faults import KINDS, FaultContext
from musadata.teacher.compiler.faults.catalogue import FaultKind
from tests.teacher.compiler.references import FIXTURES

MOST_LINES = 16  # changed, counting removed and added ones
PLACES = (
    *("softmax", "linear", "convolution", "chain", "layer norm", "max pool", "gelu", "transpose", "group norm"),
    *("running results", "added to rows", "activations"),
)


def inserted(kind, candidate):
    return candidate.source, KINDS[kind].insert(FaultContext(candidate, Random(1)))


def test_there_are_at_least_a_dozen_kinds():
    assert len(KINDS) >= 12


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_finds_a_place_and_changes_little(kind, candidate_of):
    found = [inserted(kind, candidate_of(name, plan)) for name in PLACES for plan in PLANS]
    changed = [(honest, faulty) for honest, faulty in found if faulty is not None]
    assert changed
    for honest, faulty in changed:
        assert faulty != honest
        lines = list(difflib.unified_diff(honest.splitlines(), faulty.splitlines(), lineterm="", n=0))
        assert sum(line[0] in "+-" for line in lines[2:]) <= MOST_LINES


def test_a_bounds_check_is_only_dropped_where_the_last_block_is_not_full(candidate_of):
    naive = next(plan for plan in PLANS if plan.elements == "naive")
    assert inserted("missing_bounds_check", candidate_of("gelu", naive))[1] is not None
    full = candidate_of("gelu", naive)
    even = type(full)(full.source, full.kernels, full.plan, full.graph, ({"rows": 8, "cols": 64},))
    assert KINDS["missing_bounds_check"].insert(FaultContext(even, Random(1))) is None


def test_a_stride_is_only_replaced_by_one_that_differs(candidate_of):
    honest = candidate_of("softmax", PLANS[0])
    square = type(honest)(honest.source, honest.kernels, honest.plan, honest.graph, ({"rows": 9, "cols": 9},))
    assert KINDS["wrong_stride"].insert(FaultContext(square, Random(1))) is None


def test_what_is_seeded_is_what_models_get_wrong_and_seldom_a_toy(graph_of):
    drawn = [
        kind
        for name in (*PLACES, "row maxima", "residual block", "losses")
        for sample in range(3, 6)
        for kind in CandidateSet(graph_of(name), name).faulty(sample)[0].faults
    ]
    assert sum(kind.toy for kind in drawn) <= 0.15 * len(drawn)
    assert len({kind.name for kind in drawn}) >= 20
    assert sum(kind.weight >= 2 for kind in drawn) >= 0.5 * len(drawn)


def test_a_softmax_that_overflows_leaves_its_maximum_unused(candidate_of):
    for plan in PLANS:
        source = inserted("unstable_softmax", candidate_of("softmax", plan))[1]
        assert source is not None
        assert " - softmax_max" not in source
    assert inserted("unstable_softmax", candidate_of("log softmax", PLANS[0]))[1] is None


def test_fixtures_cover_what_the_compiler_can_do():
    assert len(FIXTURES) >= 50


def test_a_repair_names_the_lines_that_it_changes(candidate_of):
    whole = candidate_of("softmax", PLANS[0])
    before = "int i = 0;\ny[i] = a * x[i] + b;\nreturn y;\n"
    fault = FaultKind("constant", lambda context: None, "a constant was wrong", "the constant is right")
    said = explain_repair("", fault, whole, before.replace("+ b", "- b"), before)
    assert said.endswith("Now the constant is right: `y[i] = a * x[i] + b;` instead of `y[i] = a * x[i] - b;`.")
    said = explain_repair("", fault, whole, before.replace("return y;\n", ""), before)
    assert said.endswith("`return y;` comes in.")
    said = explain_repair("", fault, whole, "another program\n" * 40, before * 9)
    assert said.endswith("the constant is right.")
