"""mixing.json: what was measured, and what loaders make of it."""

import json
from collections import Counter
from pathlib import Path

import duckdb
import pytest
from datasets import interleave_datasets, load_dataset

from musadata.corpus.mixture import _MEASURED, draw, parts_of, read_mixture, weights_of
from musadata.corpus.query import connect
from musadata.errors import MusadataError


@pytest.mark.parametrize("dataset", ["sft", "rl"])
def test_loaders_draw_by_the_weights(whole_corpus, dataset):
    mixture = read_mixture(whole_corpus, dataset)
    shards = sorted(map(str, (Path(whole_corpus) / dataset).glob("train-*.parquet")))
    rows = load_dataset("parquet", data_files=shards, split="train")
    weights = weights_of(rows, mixture)
    assert sum(weights) == pytest.approx(len(rows), rel=1e-3)
    parts, probabilities = parts_of(rows, mixture)
    assert sum(map(len, parts)) == len(rows) and sum(probabilities) == pytest.approx(1.0)
    assert [len(part) * weights_of(part, mixture)[0] / len(rows) for part in parts] == pytest.approx(
        probabilities, rel=1e-3
    )
    if len(parts) > 1:
        mixed = interleave_datasets(parts, probabilities=probabilities, seed=1, stopping_strategy="all_exhausted")
        assert len(mixed) >= len(rows)


def test_the_manifest_says_what_was_measured_and_achieved(whole_corpus):
    manifest = json.loads((Path(whole_corpus) / "manifest.json").read_text())["mixing"]
    sql = """SELECT t.operator_family, count(*) FROM candidates JOIN tasks t USING (task_id)
        WHERE turn = 1 AND fault = '' AND teacher <> 'human' AND error_class IS DISTINCT FROM 'infra' GROUP BY 1"""
    assert {one["operator_family"]: one["judged"] for one in manifest["measured"]} == dict(
        connect(whole_corpus).sql(sql).fetchall()
    )
    for achieved in manifest["achieved"].values():
        for axis in achieved.values():
            assert sum(one["achieved"] for one in axis) == pytest.approx(1.0, abs=0.01)


def test_only_first_answers_that_were_judged_are_measured():
    connection = duckdb.connect()
    connection.sql("CREATE TABLE tasks AS SELECT 't' AS task_id, 'softmax' AS operator_family")
    connection.sql("""CREATE TABLE candidates AS SELECT 't' AS task_id, * FROM (VALUES
        (1, true, NULL, '', 'model'), (1, false, 'compile', '', 'model'),
        (1, false, 'infra', '', 'model'), (2, true, NULL, '', 'model'), (1, false, 'runtime', 'off by one', 'compiler'),
        (1, true, NULL, '', 'human')) AS answers(turn, accepted, error_class, fault, teacher)""")
    assert connection.sql(_MEASURED).fetchall() == [("softmax", 2, 1)]


def test_a_draw_takes_no_row_twice_and_heavy_rows_first():
    weights = [1.0] * 50 + [4.0] * 50
    drawn = [draw(weights, 30, seed) for seed in range(40)]
    assert all(len(set(one)) == 30 and one == sorted(one) for one in drawn)
    heavy = Counter(index >= 50 for one in drawn for index in one)
    assert heavy[True] > 2 * heavy[False]
    assert draw(weights, 30, 1) == draw(weights, 30, 1) and draw([], 3, 1) == []


def test_a_corpus_without_a_mixture_says_so(tmp_path):
    with pytest.raises(MusadataError, match="run stage 3 to its end"):
        read_mixture(str(tmp_path), "sft")
