"""Corpora that are changed as a whole: a repository is forgotten, several become one; two compared, a row traced."""

import json

import pytest

from musadata.commands.cli import main
from musadata.corpus.datasets import DATASETS
from musadata.corpus.lineage import trace_row
from musadata.corpus.manifest import open_corpus, read_manifest
from musadata.corpus.query import QUESTIONS, query, read_question
from musadata.corpus.rewriting import forget, merge
from musadata.errors import MusadataError

RARE = "https://github.com/someone/layers"


def texts(corpus: str) -> str:
    return "\n".join(json.dumps(query(corpus, f"SELECT * FROM {name}").to_pylist()) for name in DATASETS)


def test_a_repository_is_forgotten_with_all_that_was_made_from_it(own_corpus):
    corpus = str(own_corpus)
    before = {path: path.stat().st_mtime_ns for path in own_corpus.glob("*/*.parquet")}
    assert RARE in texts(corpus) and "task-0002" in texts(corpus)
    done = forget(corpus, RARE + ".git")
    assert done.rows["tasks"] == 1 and done.rows["candidates"] > 0 and done.rows["rl"] == 1
    after = texts(corpus)
    assert RARE not in after and "task-0002" not in after and "task-0001" in after
    changed = {path for path, time in before.items() if path.stat().st_mtime_ns != time}
    assert len(changed) == done.rewritten < done.shards
    opened = open_corpus(corpus)
    assert list(opened.damage(verify=True)) == [] and opened.stages == ["stage1", "stage2", "stage3"]
    assert read_manifest(corpus)["datasets"]["tasks"]["rows"] == 3
    assert RARE not in (own_corpus / "README.md").read_text()


def test_what_is_not_there_cannot_be_forgotten(own_corpus):
    before = {path: path.read_bytes() for path in own_corpus.rglob("*") if path.is_file()}
    with pytest.raises(MusadataError, match="has nothing of https://example"):
        forget(str(own_corpus), "https://example.org/other")
    assert {path: path.read_bytes() for path in own_corpus.rglob("*") if path.is_file() and path in before} == before


def test_merged_corpora_have_each_task_once(own_corpus, whole_corpus, tmp_path):
    target = str(tmp_path / "merged")
    rows = merge([str(own_corpus), whole_corpus], target)
    alone = {name: found["rows"] for name, found in read_manifest(whole_corpus)["datasets"].items()}
    assert {**rows, "rejects": 0} == {**alone, "rejects": 0}  # the tasks of the one are among those of the other
    assert list(open_corpus(target).damage(verify=True)) == []
    with pytest.raises(MusadataError, match="is there already"):
        merge([str(own_corpus)], target)


def test_corpora_are_compared_row_by_row(own_corpus, whole_corpus, capsys):
    assert main(["diff", whole_corpus, whole_corpus]) == 0
    assert main(["diff", whole_corpus, str(own_corpus)]) == 1
    assert "rows there" in capsys.readouterr().out


def test_a_row_is_traced_to_its_lines_and_its_verdict(whole_corpus):
    pair = query(whole_corpus, "SELECT * FROM preferences LIMIT 1").to_pylist()[0]
    steps = trace_row(whole_corpus, pair["preference_id"])
    found = {step.dataset: step for step in steps}
    assert steps[0].id == pair["preference_id"]
    assert {step.id for step in steps if step.dataset == "candidates"} == {pair["chosen_id"], pair["rejected_id"]}
    assert found["tasks"].row["provenance"]["lines"] and found["annotations"].row["task_id"] == pair["task_id"]
    for start in ("preference", "nothing"):
        with pytest.raises(MusadataError, match="give more of the id"):
            trace_row(whole_corpus, start)


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_ready_made_question_has_an_answer(question, whole_corpus, tmp_path, capsys):
    target = tmp_path / "answer.csv"
    assert main(["query", whole_corpus, question, "--output", str(target)]) == 0
    assert target.read_text().count("\n") >= (question != "speed")
    assert main(["query", whole_corpus, question, "--show"]) == 0
    assert capsys.readouterr().out.strip() == read_question(question)


def test_the_question_of_pass_rates_agrees_with_the_manifest(whole_corpus):
    rows = query(whole_corpus, read_question("pass_rates")).to_pylist()
    known = read_manifest(whole_corpus)["pass_rates"]["teacher"]
    for row in rows:
        if row["operator_family"] is None and str(row["k"]) in known[row["teacher"]]["pass_at_k"]:
            assert row["pass_at_k"] == pytest.approx(known[row["teacher"]]["pass_at_k"][str(row["k"])], abs=1e-4)
