"""Faults are small edits that matter for the task's sizes."""

import difflib
import itertools
import re
from dataclasses import replace
from random import Random

import pytest

from musadata.compiler.candidate_set import CandidateSet
from musadata.compiler.emission.candidate import build_candidate
from musadata.compiler.emission.schedule_plan import DRAFT, PLANS
from musadata.compiler.faults import KINDS, FaultContext
from musadata.compiler.faults.catalogue import FaultKind
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
        kind
        for name in (*PLACES, "row maxima", "residual block", "losses")
        for sample in range(3, 6)
        for kind in conversation(graph_of(name), name, sample)[0].faults
    ]
    assert len({kind.name for kind in drawn}) >= 20
    assert sum(kind.weight >= 2 for kind in drawn) >= 0.5 * len(drawn)


def conversation(graph, key, sample):
    known = CandidateSet(graph, key)
    candidates = {id(one): one for one in map(known.candidate, range(len(PLANS)))}
    return known.faulty(sample, list(candidates.values()))


def test_conversations_with_faults_go_in_several_ways(graph_of):
    asked = itertools.product(("softmax", "chain", "losses"), range(20))
    found = [conversation(graph_of(name), name, sample) for name, sample in asked]
    assert all(attempts[-1].faults == () and all(one.faults for one in attempts[:-1]) for attempts in found)
    turns = [pair for attempts in found for pair in itertools.pairwise(attempts)]
    rewritten = sum(one.candidate.plan != other.candidate.plan for one, other in turns)
    assert 0.5 < rewritten / len(turns) < 1
    lengths = [len(attempts) for attempts in found]
    assert lengths.count(2) and lengths.count(3) and max(lengths) > 4
    for attempts in found:
        seeded = [kind.name for attempt in attempts for kind in attempt.faults[:1]]
        assert len(set(seeded)) == len(seeded)  # no fault is said to be mended and comes back


def test_a_first_draft_has_a_kernel_for_each_operator(graph_of):
    fused, draft = (build_candidate(graph_of("chain"), plan) for plan in (PLANS[0], DRAFT))
    assert len(draft.kernels) > len(fused.kernels)


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


@pytest.mark.parametrize("kind", ["wrong_signature", "undeclared_name"])
def test_a_fault_has_no_single_word_that_gives_it_away(kind, candidate_of):
    honest, faulty = candidate_of("chain", PLANS[0]).source, set()
    for seed in range(30):
        _, changed = inserted(kind, candidate_of("chain", PLANS[0]), seed=seed)
        faulty.add(changed)
    words = [set(re.findall(r"\w+", text)) - set(re.findall(r"\w+", honest)) for text in faulty if text]
    assert len(words) > 1 and not set.intersection(*words)


def test_fixtures_cover_what_the_compiler_can_do():
    assert len(FIXTURES) >= 50


def test_a_repair_names_the_lines_that_it_changes(candidate_of):
    whole = candidate_of("softmax", PLANS[0])

    def said(before, after):
        fault = FaultKind("constant", lambda context: None, "a constant was wrong", "the constant is right")
        return explain_repair("", fault, *(replace(whole, parts=(text,)) for text in (before, after)))

    before = "int i = 0;\ny[i] = a * x[i] + b;\nreturn y;\n"
    changed = said(before.replace("+ b", "- b"), before)
    assert changed.endswith("Now the constant is right: `y[i] = a * x[i] + b;` instead of `y[i] = a * x[i] - b;`.")
    assert said(before.replace("return y;\n", ""), before).endswith("`return y;` comes in.")
    assert said("another program\n" * 40, before * 9).endswith("the constant is right.")


def test_a_fault_that_compiles_is_no_cause_of_an_error_of_the_compiler(candidate_of):
    kind, honest = KINDS["wrong_identity"], candidate_of("softmax", PLANS[0])
    said = explain_repair("The answer does not compile.\n- error: redefinition", kind, honest, honest)
    assert kind.cause[1:] not in said and "I cannot place that" in said


def test_a_repair_of_a_constant_names_it_and_what_it_is_computed_from(candidate_of):
    kind, honest = KINDS["hard_coded_size"], candidate_of("softmax", PLANS[0])
    faulty = kind.insert(FaultContext(honest, Random(1)))
    [(name, size)] = re.findall(r"const int (\w+) = (\w+\.size\(\d+\));", "\n".join(_gone(honest, faulty)))
    [(_, constant)] = re.findall(r"const int (\w+) = (\d+);", "\n".join(_gone(faulty, honest)))
    said = explain_repair("", kind, faulty, honest)
    assert f"`{name}` the constant {constant}, but it is `{size}`, which is not {constant} for all shapes." in said
    assert kind.cause[1:] in explain_repair("", kind, honest, honest)


def _gone(one, other):
    return [line for line in one.source.splitlines() if line not in other.source.splitlines()]
