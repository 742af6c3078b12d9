"""Faults are small edits that matter for the task's sizes."""

import difflib
import itertools
import re
from dataclasses import replace
from random import Random

import pytest

from musadata.compiler.candidate_set import CandidateSet
from musadata.compiler.emission.schedule_plan import PLANS
from musadata.compiler.faults import KINDS, FaultContext, derive
from musadata.compiler.faults.derivation import DERIVATIONS
from musadata.compiler.faults.kernel_changes import CHANGES, within_tanh
from musadata.compiler.ir.code import Assign, Choice, Name, Number, apply, every, replace_at, walk
from musadata.teacher.reasoning.explanation import explain_repair
from musadata.verifier.rules.python.legality import check_legality
from tests.compiler.references import FIXTURES

MOST_LINES = 16  # changed, counting removed and added ones
PLACES = (
    *("softmax", "linear", "convolution", "chain", "layer norm", "max pool", "gelu", "transpose", "group norm"),
    *("running results", "added to rows", "activations"),
)
RULES = {"legality.compute", "legality.module_call", "legality.fallback"}  # that PyTorch in the forward breaks


def inserted(kind, candidate, reference="", seed=1):
    faulty = KINDS[kind].insert(FaultContext(candidate, Random(seed), reference))
    return candidate.source, faulty and faulty.source


def test_there_are_at_least_a_dozen_kinds():
    assert len(KINDS) >= 12


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_finds_a_place_and_changes_little(kind, candidate_of):
    found = [inserted(kind, candidate_of(name, plan), FIXTURES[name].source) for name in PLACES for plan in PLANS]
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
        assert faulty.fault and faulty.why and mended.fault is None
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


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if kind.cheats])
def test_a_cheat_breaks_a_static_rule_and_nothing_else(kind, candidate_of):
    for name in ("softmax", "chain", "linear"):
        honest, cheat = inserted(kind, candidate_of(name, PLANS[0]), FIXTURES[name].source)
        assert check_legality(honest) == ()
        assert {finding.rule for finding in check_legality(cheat)} <= RULES
        assert check_legality(cheat)


def test_without_its_reference_no_candidate_can_cheat(candidate_of):
    for kind in ("computed_by_pytorch", "decoy_kernel", "pytorch_fallback"):
        assert inserted(kind, candidate_of("softmax", PLANS[0]))[1] is None


def test_fixtures_cover_what_the_compiler_can_do():
    assert len(FIXTURES) >= 50


def test_every_kind_has_a_derivation():
    assert DERIVATIONS.keys() == KINDS.keys()


def derived(kind, candidate, sizes=None, seed=1):
    """What is said of a fault of a kind in a candidate."""
    honest = replace(candidate, hints=(sizes,)) if sizes else candidate
    faulty = KINDS[kind].insert(FaultContext(honest, Random(seed)))
    assert faulty is not None
    return honest, faulty, derive(kind, honest, faulty)


def test_a_missing_check_is_told_by_the_first_thread_that_has_no_work(candidate_of):
    _, _, why = derived("missing_bounds_check", candidate_of("softmax", PLANS[1]), {"rows": 7, "cols": 64})
    assert "At rows = 7 and cols = 64, total is 7, and the launch has 1 block of 32 threads" in why.wrong
    assert "The first one with no work is thread 7 of block 0: its `row` is 7." in why.wrong
    assert "element 448, outside of the 448 elements of x" in why.wrong
    assert "`row` from 7 to 31 leave, and exactly 0 to 6 are computed" in why.right


def test_a_wrong_index_is_told_by_the_first_element_that_is_another(candidate_of):
    for seed in range(6):
        _, _, why = derived("wrong_stride", candidate_of("linear", PLANS[1]), {"rows": 9}, seed)
        said = re.search(
            r"with (.*), `(\w+)\[.*` (?:reads|writes) element (\d+), .*; it should be element (\d+)", why.wrong
        )
        assert said
        values = {name: int(value) for name, value in re.findall(r"(\w+) = (\d+)", said[1])}
        extents = {"x": ("row", 37, "k"), "l_weight": ("col", 37, "k"), "linear": ("row", 20, "col")}
        outer, extent, inner = extents[said[2]]
        assert int(said[4]) == values[outer] * extent + values[inner] != int(said[3])


def test_a_grid_that_is_too_small_is_told_by_the_elements_that_are_left(candidate_of):
    honest, faulty, why = derived("wrong_launch_geometry", candidate_of("linear", PLANS[1]), {"rows": 9})
    both = replace(honest, hints=({"rows": 9}, {"rows": 2}))
    refused = derive("wrong_launch_geometry", both, faulty)
    assert refused.wrong.startswith("At rows = 2, total is 40, and 40 / 128 is 0"), "what a report begins with"
    assert (
        "180 / 128 is 1 block. These have 128 threads" in why.wrong
        and "what threads 128 to 179 would compute" in why.wrong
    )
    assert "(180 + 128 - 1) / 128 is 2, so that 2 x 128 threads cover all 180" in why.right


def test_a_padding_that_is_not_checked_is_told_by_a_position_before_the_start(candidate_of):
    _, _, why = derived("missing_padding_check", candidate_of("max pool", PLANS[1]))
    assert re.search(r"comes to \w+ = -\d+: in the padding, before the first element", why.wrong)


def test_a_norm_that_divides_by_one_less_is_told_by_how_far_it_is_off(candidate_of):
    _, _, why = derived("wrong_correction", candidate_of("layer norm", PLANS[1]))
    assert "The variance is 1.0278 times what the norm takes" in why.wrong and "1.4 % too small" in why.wrong


def test_a_fault_that_nothing_shows_at_the_sizes_has_no_derivation(candidate_of):
    honest, faulty, why = derived("missing_bounds_check", candidate_of("softmax", PLANS[1]), {"rows": 7, "cols": 64})
    whole_blocks = replace(honest, hints=({"rows": 64, "cols": 64},))
    assert why and derive("missing_bounds_check", whole_blocks, faulty) is None


def test_sizes_are_those_that_the_verifier_tries_first(graph_of):
    sets = [{"x": (4, 37)}, {"x": (7, 64)}]
    for tried in (sets, sets[::-1]):
        known = CandidateSet(graph_of("softmax"), "key", tried=tried)
        faulty, honest = known.faulty(0, [known.candidate(0)])
        rows = [sizes["rows"] for sizes in faulty.candidate.hints]
        assert rows == [shapes["x"][0] for shapes in tried] and faulty.why and not honest.why


def test_a_repair_shows_the_change_and_why_it_is_right(candidate_of):
    honest, faulty, why = derived("wrong_identity", candidate_of("softmax", PLANS[1]))
    said = explain_repair("results are not right\n- It is 2 instead of 1.", why, faulty.source, honest.source)
    first, change, last = said.split("\n\n", 2)[0], said.partition("```diff")[2], said.rpartition("\n\n")[2]
    assert first.startswith("The kernels ran and gave wrong results: `It is 2 instead of 1`.") and why.wrong in first
    assert "-    float softmax_sum = 1.0f;\n+    float softmax_sum = 0.0f;" in change
    assert last == "0 is what adds nothing: the sum of no elements is 0."
