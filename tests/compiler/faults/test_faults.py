"""Faults are small edits that matter for the task's sizes."""

import difflib
import itertools
import re
from dataclasses import replace
from random import Random

import pytest

from musadata.compiler.candidate_set import CandidateSet
from musadata.compiler.emission.schedule_plan import PLANS
from musadata.compiler.faults import KINDS, FaultContext
from musadata.compiler.faults.kernel_changes import CHANGES, within_tanh
from musadata.compiler.ir.code import Assign, Choice, Name, Number, apply, every, replace_at, walk
from tests.compiler.references import FIXTURES

MOST_LINES = 16  # changed, counting removed and added ones
PLACES = (
    *("softmax", "linear", "convolution", "chain", "layer norm", "max pool", "gelu", "transpose", "group norm"),
    *("running results", "added to rows", "activations"),
)


def inserted(kind, candidate, seed=1):
    faulty = KINDS[kind].insert(FaultContext(candidate, Random(seed)))
    return candidate.source, faulty and faulty.source


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
    even = replace(full, hints=({"rows": 8, "cols": 64},))
    assert KINDS["missing_bounds_check"].insert(FaultContext(even, Random(1))) is None


def test_threads_are_known_of_kernels_that_a_function_launches(candidate_of):
    sites = FaultContext(candidate_of("normed layers", PLANS[0]), Random(1)).sites()
    assert min(site.threads for site in sites) >= 8  # of a tile along x


def test_a_stride_is_only_replaced_by_one_that_differs(candidate_of):
    honest = candidate_of("softmax", PLANS[0])
    square = replace(honest, hints=({"rows": 9, "cols": 9},))
    assert KINDS["wrong_stride"].insert(FaultContext(square, Random(1))) is None


def test_a_shorter_loop_always_has_fewer_rounds(candidate_of):
    for name, plan, seed in itertools.product(PLACES, PLANS, (1, 2)):
        _, faulty = inserted("off_by_one", candidate_of(name, plan), seed=seed)
        for extent, step in re.findall(r"< (\d+) - 1; \w+ \+= (\d+)", faulty or ""):
            assert len(range(0, int(extent) - 1, int(step))) < len(range(0, int(extent), int(step)))


def test_a_dropped_check_is_dropped_whole():
    places = (Name("h") - "kh", Name("w") - "kw")
    conditions = [test for place, size in zip(places, (3, 4), strict=True) for test in (place >= 0, place < size)]
    check = every(*conditions)
    numbers = [n for n, node in enumerate(walk(check)) if CHANGES["without_lower_bound"](node) is not None]
    left = {str(replace_at(check, number, CHANGES["without_lower_bound"])) for number in numbers}
    whole = "h - kh >= 0 && h - kh < 3 && w - kw >= 0 && w - kw < 4"
    assert str(check) == whole and left == {whole.replace("h - kh >= 0 && ", ""), whole.replace("w - kw >= 0 && ", "")}


def test_an_overflow_that_a_tanh_takes_away_is_no_fault():
    x = Name("x")
    exponential = apply("log1pf", apply("expf", x))
    softplus = Choice(x > Number("20.0f"), x, exponential)
    assert CHANGES["overflowing_softplus"](softplus) == exponential
    assert not within_tanh(softplus) and within_tanh(apply("tanhf", softplus))


def test_a_wrong_start_is_never_one_that_a_running_maximum_takes_away(candidate_of):
    for name, plan in itertools.product(PLACES, PLANS):
        honest, faulty = inserted("wrong_identity", candidate_of(name, plan))
        if faulty is not None:
            changed = next(old for old, new in zip(honest.splitlines(), faulty.splitlines(), strict=True) if old != new)
            variable = changed.split()[1]
            kernel = honest[honest.index(changed) :].partition("\n}\n")[0]
            assert f" {variable} = {variable} * expf(" not in kernel


def test_what_is_seeded_is_mostly_what_models_get_wrong(graph_of):
    drawn = [
        conversation(graph_of(name), name, sample)[0].fault
        for name in (*PLACES, "row maxima", "residual block", "losses")
        for sample in range(3, 6)
    ]
    assert len({kind.name for kind in drawn}) >= 16
    assert sum(kind.weight >= 2 for kind in drawn) >= 0.5 * len(drawn)


def conversation(graph, key, sample):
    known = CandidateSet(graph, key)
    candidates = {id(one): one for one in map(known.candidate, range(len(PLANS)))}
    return known.faulty(sample, list(candidates.values()))


def test_a_conversation_mends_one_fault_where_it_is(graph_of):
    for name, sample in itertools.product(("softmax", "chain", "losses"), range(6)):
        faulty, mended = conversation(graph_of(name), name, sample)
        assert faulty.fault and mended.fault is None
        assert faulty.candidate.plan == mended.candidate.plan and faulty.source != mended.source


def test_a_softmax_that_overflows_leaves_its_maximum_unused(candidate_of):
    for plan in PLANS:
        source = inserted("unstable_softmax", candidate_of("softmax", plan))[1]
        assert source is not None
        assert " - softmax_max" not in source
    assert inserted("unstable_softmax", candidate_of("log softmax", PLANS[0]))[1] is None


def test_a_softmax_that_overflows_is_right_for_small_values(candidate_of):
    honest = candidate_of("softmax", PLANS[0])

    def unstable(value):
        """What becomes of the softmax with one more value at its end."""
        emitted = honest.kernels[0]
        more = Assign(Name("y")["i"], "=", value)
        changed = replace(emitted, function=replace(emitted.function, body=(*emitted.function.body, more)))
        parts = tuple(changed.function if part == emitted.function else part for part in honest.parts)
        candidate = replace(honest, parts=parts, kernels=(changed, *honest.kernels[1:]))
        return inserted("unstable_softmax", candidate)[1]

    place = Name("x")[((Name("b") * "rows" + "row") * "cols") + "col"]
    nested = unstable(apply("expf", place - "softmax_max") / "softmax_sum")
    assert nested is not None and "expf(x[(b * rows + row) * cols + col]) / softmax_sum" in nested
    assert unstable(place - "softmax_max") is None
    assert unstable(apply("expf", Name("old_max") - "new_max")) is None


def test_fixtures_cover_what_the_compiler_can_do():
    assert len(FIXTURES) >= 50
