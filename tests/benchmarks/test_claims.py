"""The table of claims says what the result files say."""

import json

import pytest

from benchmarks.claims import PAGE, RESULTS, render_claims, render_page
from benchmarks.measuring import describe_revision, report


def test_the_table_of_claims_agrees_with_the_results():
    page = PAGE.read_text()
    assert render_page(page, render_claims()) == page, "run `python -m benchmarks.claims`"


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_every_result_says_whether_each_promise_was_kept(path):
    for row in json.loads(path.read_text())["rows"]:
        assert set(row) == {"what", "promise", "measured", "kept"}
        assert isinstance(row["kept"], bool) == bool(row["promise"])


def test_a_result_names_its_revision_and_machine(tmp_path):
    rows = [("speed", ">= 2x", "3x", True), ("memory", "<= 1 GB", "2 GB", False), ("rows", "", "7", True)]
    report("example", rows, {"extra": 1}, tmp_path / "example.json")
    result = json.loads((tmp_path / "example.json").read_text())
    assert result["revision"] == describe_revision() and result["extra"] == 1
    assert {"cores", "python", "system", "torch", "device"} <= set(result["machine"])
    assert [row["kept"] for row in result["rows"]] == [True, False, None]
    text = render_claims(tmp_path)
    assert "| memory | <= 1 GB | 2 GB | **no** |" in text and "| rows |  | 7 |  |" in text


def test_what_an_old_result_lacks_is_said(tmp_path):
    old = {"benchmark": "old", "machine": {"cores": "2"}, "rows": []}
    (tmp_path / "old.json").write_text(json.dumps(old))
    assert "revision not recorded, 2 cores, device not recorded, torch not recorded" in render_claims(tmp_path)
