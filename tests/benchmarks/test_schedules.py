"""The table of schedules against eager."""

import ast

from benchmarks.schedules import Group, best_of, read_groups, summarise


def test_every_reference_is_a_complete_program_with_a_name_of_its_own() -> None:
    groups = read_groups()
    texts = [text for group in groups for text in group.texts.values()]
    for text in texts:
        defined = {node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
        assert defined == {"Model", "get_inputs", "get_init_inputs"}
        assert "$" not in text
    assert len({name for group in groups for name in group.texts}) == len(texts)


def test_the_fastest_accepted_candidate_counts() -> None:
    slow = {"outcome": "accepted", "speedup": 0.4}
    wrong = {"outcome": "rejected", "speedup": None}
    assert best_of([wrong, slow, {"outcome": "accepted", "speedup": 0.9}, {}]) == {
        "outcome": "accepted",
        "speedup": 0.9,
    }
    assert best_of([wrong, {}]) is None


def test_a_reference_without_a_measured_candidate_breaks_its_promise() -> None:
    promised = Group("products", {"one": "", "two": ""}, 0.5, False)
    measured = {"one": [{"outcome": "accepted", "speedup": 0.6}], "two": [{"outcome": "rejected"}]}
    rows = {what: (shown, kept) for what, _, shown, kept in summarise([promised], measured)}
    assert rows["products"] == ("one 0.60, two 0.00", False)
    assert rows["candidates rejected"] == ("1", False)


def test_a_promise_of_a_mean_is_kept_by_the_geometric_mean() -> None:
    group = Group("convolutions", {"one": "", "two": ""}, 0.4, True)
    measured = {
        "one": [{"outcome": "accepted", "speedup": 0.2}],
        "two": [{"outcome": "accepted", "speedup": 0.9}],
    }
    ((_, promise, shown, kept), *_) = summarise([group], measured)
    assert (promise, shown, kept) == (">= 0.4", "0.42 (one 0.20, two 0.90)", True)
