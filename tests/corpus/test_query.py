"""SQL over a corpus, and rows as a person reads them."""

import csv
import io
import json
from pathlib import Path

import duckdb
import pytest
from rich.console import Console

from musadata.commands.cli import main
from musadata.commands.row_rendering import draw_row
from musadata.commands.show import find_rows
from musadata.corpus.datasets import DATASETS
from musadata.corpus.manifest import create_corpus
from musadata.corpus.query import connect, query
from musadata.errors import MusadataError
from musadata.schema import arrow_schema


def test_every_dataset_is_a_view(whole_corpus):
    for name in DATASETS:
        counts = query(whole_corpus, f"SELECT count(*) AS n FROM {name}")
        assert counts is not None and counts["n"][0].as_py() > 0


def test_nested_columns_and_joins_work(whole_corpus):
    table = query(
        whole_corpus,
        """SELECT t.provenance.license AS license, count(*) AS n, avg(c.reward) AS reward
           FROM tasks t JOIN candidates c USING (task_id)
           WHERE c.accepted GROUP BY 1""",
    )
    assert table is not None and table.to_pylist() == [{"license": "BSD-3-Clause", "n": 42, "reward": 1.0}]


def test_datasets_without_rows_are_views_with_all_their_columns(tmp_path):
    create_corpus(str(tmp_path / "empty"))
    connection = connect(str(tmp_path / "empty"))
    for name, dataset in DATASETS.items():
        assert [column[0] for column in connection.sql(f"DESCRIBE {name}").fetchall()] == arrow_schema(
            dataset.kind
        ).names


def test_duckdb_reads_the_files_by_itself_as_well(whole_corpus):
    assert duckdb.sql(f"SELECT count(*) FROM read_parquet('{whole_corpus}/sft/*.parquet')").fetchall()[0][0] > 0


def test_a_corpus_in_a_folder_with_an_odd_name_can_be_read(whole_corpus, tmp_path):
    odd = tmp_path / "it's [1] *run* ü"
    odd.symlink_to(whole_corpus)
    assert query(str(odd), "SELECT count(*) FROM tasks") is not None


@pytest.mark.parametrize(
    "sql", ["SELEC 1", "SELECT nothing FROM tasks", "SELECT * FROM nowhere", "", "SELECT 1/'a'", "\x00"]
)
def test_wrong_sql_is_one_line_and_exit_code_2(whole_corpus, sql, capsys):
    code = main(["query", whole_corpus, sql])
    captured = capsys.readouterr()
    if sql == "":
        assert code == 0  # an empty statement is valid SQL
    else:
        assert code == 2
        assert captured.err.startswith("musadata: SQL: ") and captured.err.count("\n") == 1


def test_a_missing_column_is_answered_with_those_that_are_there(whole_corpus, capsys):
    main(["query", whole_corpus, "SELECT tsk_id FROM tasks"])
    assert "task_id" in capsys.readouterr().err


def test_csv_and_json_hold_the_same(whole_corpus, capsys):
    sql = "SELECT task_id, inputs, level FROM tasks ORDER BY task_id LIMIT 3"
    assert main(["query", whole_corpus, sql, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert main(["query", whole_corpus, sql, "--format", "csv"]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [{**line, "inputs": json.loads(line["inputs"]), "level": int(line["level"])} for line in lines] == rows


def test_parquet_goes_into_a_file(whole_corpus, tmp_path, capsys):
    assert main(["query", whole_corpus, "SELECT 1 AS x", "--format", "parquet"]) == 2
    assert "--output" in capsys.readouterr().err
    path = str(tmp_path / "out.parquet")
    assert main(["query", whole_corpus, "SELECT 1 AS x", "--format", "parquet", "--output", path]) == 0
    assert duckdb.sql(f"SELECT x FROM '{path}'").fetchall() == [(1,)]


def test_a_table_says_what_it_leaves_out(whole_corpus, capsys):
    assert main(["query", whole_corpus, "SELECT * FROM range(50)", "--rows", "10"]) == 0
    assert "40 more rows" in capsys.readouterr().out


def test_markup_in_data_is_shown_and_not_obeyed(whole_corpus, capsys):
    assert main(["query", whole_corpus, "SELECT '[bold]x[/nope]' AS \"[red]c\""]) == 0
    assert "[bold]x[/nope]" in capsys.readouterr().out


def test_a_truncated_shard_is_named(own_corpus, capsys):
    path = next((own_corpus / "tasks").glob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-9])
    assert main(["query", str(own_corpus), "SELECT 1"]) == 2
    assert path.name in capsys.readouterr().err


def test_a_shard_with_damage_inside_is_one_line(own_corpus, capsys):
    path = max((own_corpus / "tasks").glob("*.parquet"), key=lambda path: path.stat().st_size)
    data = bytearray(path.read_bytes())
    data[4:2000] = b"\x07" * 1996
    path.write_bytes(data)
    assert main(["query", str(own_corpus), "SELECT * FROM tasks"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_corpus_that_is_still_being_made_can_be_queried(own_corpus):
    (own_corpus / "manifest.json").unlink()
    for path in (own_corpus / "_commits/stage3").iterdir():
        path.unlink()
    table = query(str(own_corpus), "SELECT (SELECT count(*) FROM tasks) AS t, (SELECT count(*) FROM candidates) AS c")
    assert table is not None and table.to_pylist() == [{"t": 4, "c": 0}]


def test_queries_work_on_an_object_store(build):
    build("memory://query/corpus")
    table = query("memory://query/corpus", "SELECT count(*) AS n FROM tasks WHERE level = 2")
    assert table is not None and table["n"][0].as_py() == 14


@pytest.mark.parametrize("name", DATASETS)
def test_every_kind_of_row_can_be_shown(whole_corpus, name):
    (row,) = find_rows(whole_corpus, DATASETS[name])
    console = Console(file=io.StringIO(), width=100, record=True)
    console.print(draw_row(row))
    text = console.export_text()
    assert getattr(row, DATASETS[name].key) in text


@pytest.mark.parametrize("name", DATASETS)
def test_any_row_can_be_shown(name, sample_rows):
    console = Console(file=io.StringIO(), width=60)
    for row in sample_rows(DATASETS[name].kind, 8):
        console.print(draw_row(row))
    assert console.file.getvalue().strip()


def test_a_conversation_is_shown_with_its_feedback_and_outcomes(whole_corpus, capsys):
    assert main(["show", whole_corpus, "--where", "success AND len(candidates) = 2"]) == 0
    text = capsys.readouterr().out
    for word in ("correctness → accepted", "assistant · correctness", "assistant · accepted", "load_inline", "differs"):
        assert word in text


def test_a_row_is_found_by_the_start_of_its_id(whole_corpus, capsys):
    assert main(["show", whole_corpus, "--dataset", "tasks", "--id", "task-0003"]) == 0
    assert "Softmax3" in capsys.readouterr().out


def test_rows_as_json_are_whole(whole_corpus, capsys):
    assert main(["show", whole_corpus, "--dataset", "tasks", "--count", "2", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["name"] for row in rows] == ["Softmax0", "Softmax1"]


def test_the_same_seed_draws_the_same_rows(whole_corpus):
    def draw(seed: int) -> list[str]:
        return [row.task_id for row in find_rows(whole_corpus, DATASETS["tasks"], count=5, seed=seed)]

    assert draw(1) == draw(1) and len(set(draw(1))) == 5
    assert draw(1) != draw(2)


@pytest.mark.parametrize(
    "arguments", [["--id", "nope'; DROP TABLE tasks; --"], ["--where", "level = 99"], ["--where", "((("]]
)
def test_rows_that_are_not_there_are_one_line(whole_corpus, arguments, capsys):
    assert main(["show", whole_corpus, "--dataset", "tasks", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_folder_that_is_no_corpus_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "absent", Path(__file__)):
        with pytest.raises(MusadataError):
            query(str(path), "SELECT 1")
