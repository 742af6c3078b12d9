"""SQL over a corpus: every dataset is a DuckDB view, with all of its columns even where it has no rows yet."""

import argparse
import csv
import io
import json
import sys
from typing import IO, Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table
from rich.text import Text

from musadata.corpus.datasets import DATASETS
from musadata.corpus.manifest import Corpus, open_corpus
from musadata.errors import MusadataError
from musadata.schema import arrow_schema
from musadata.storage import files
from musadata.storage.commits import damage, run_again

FORMATS = ("table", "csv", "json", "parquet")
_CELL = 400  # characters of a cell that a table shows
_SQL_ERRORS = (duckdb.Error, pa.ArrowException)


def connect(path: str) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection with a view per dataset over the committed shards of a corpus.

    Raises:
        MusadataError: not a corpus, or a shard is absent or truncated.
    """
    corpus = open_corpus(path)
    for commit in corpus.commits:
        for file, trouble in damage(path, commit):
            raise MusadataError(trouble, where=file, remedy=f"delete it and {run_again(commit.stage, path)} again")
    connection = duckdb.connect()
    for dataset in DATASETS.values():
        connection.register(dataset.name, scan(corpus, dataset.name))
    return connection


def scan(corpus: Corpus, dataset: str) -> pads.Dataset:
    """The shards of a dataset for Arrow, read lazily; all columns even where there are no shards."""
    schema = arrow_schema(DATASETS[dataset].kind)
    paths = corpus.paths(dataset)
    if not paths:
        return pads.dataset(schema.empty_table())
    local = [files.local_name(path) for path in paths]
    if all(name is not None for name in local):
        return pads.dataset(local, schema=schema, format="parquet")
    import fsspec

    system, _ = fsspec.core.url_to_fs(paths[0])
    names = [fsspec.core.url_to_fs(path)[1] for path in paths]
    return pads.dataset(names, schema=schema, format="parquet", filesystem=system)


def query(path: str, sql: str) -> pa.Table | None:
    """The result of one query, None for a statement that has none.

    Raises:
        MusadataError: not a corpus, or SQL that DuckDB refuses.
    """
    connection = connect(path)
    try:
        relation = connection.sql(sql)
        return None if relation is None else relation.to_arrow_table()
    except _SQL_ERRORS as error:
        raise MusadataError(
            _first_lines(str(error)), where="SQL", remedy=f"the views are {', '.join(DATASETS)}"
        ) from error


def _first_lines(message: str) -> str:
    """DuckDB's message without the picture of where in the query it went wrong."""
    text = message.split("\n\nLINE ")[0]
    return " ".join(text.split())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("corpus", help="folder or URL of the corpus")
    parser.add_argument("sql", help="a query in DuckDB's SQL; views: " + ", ".join(DATASETS))
    parser.add_argument("--format", choices=FORMATS, default="table", help="how to print the result (default: table)")
    parser.add_argument("--output", metavar="FILE", help="write the result there instead of printing it")
    parser.add_argument("--rows", type=int, default=100, help="rows that a table shows at the most (default: 100)")


def run(arguments: argparse.Namespace) -> int:
    if arguments.format == "parquet" and not arguments.output:
        raise MusadataError("Parquet is not for the screen", where="--format parquet", remedy="add --output FILE")
    result = query(arguments.corpus, arguments.sql)
    if result is None:
        return 0
    if arguments.format == "parquet":
        with files.create(arguments.output) as file:
            pq.write_table(result, file, compression="zstd")
    elif arguments.output:
        with files.create(arguments.output) as file:
            file.write(render(result, arguments.format, arguments.rows).encode())
    elif arguments.format == "table":
        print_table(Console(), result, arguments.rows)
    else:
        sys.stdout.write(render(result, arguments.format, arguments.rows))
    return 0


def render(result: pa.Table, form: str, rows: int) -> str:
    """The result as text: `csv`, `json` (a list of objects) or `table`."""
    text = io.StringIO()
    if form == "csv":
        _write_csv(result, text)
    elif form == "json":
        json.dump(result.to_pylist(), text, indent=1, ensure_ascii=False, default=str)
        text.write("\n")
    else:
        print_table(Console(file=text, width=160), result, rows)
    return text.getvalue()


def _write_csv(result: pa.Table, file: IO[str]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(result.column_names)
    for batch in result.to_batches(max_chunksize=1024):
        for row in batch.to_pylist():
            writer.writerow([_flat(row[name]) for name in result.column_names])


def _flat(value: Any) -> Any:
    """Nested values as JSON, since CSV has none."""
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, (dict, list)) else value


def print_table(console: Console, result: pa.Table, most: int) -> None:
    """The first rows for the screen, and how many more there are."""
    console.print(_as_table(result, most))
    if len(result) > most:
        console.print(f"… {len(result) - most:,} more rows; --rows shows more")


def _as_table(result: pa.Table, most: int) -> Table:
    table = Table(show_lines=any(pa.types.is_nested(kind) for kind in result.schema.types))
    for field in result.schema:
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
        table.add_column(Text(field.name), justify="right" if number else "left", overflow="fold")
    for row in result.slice(0, most).to_pylist():
        table.add_row(*(_cell(value) for value in row.values()))
    return table


def _cell(value: Any) -> Text:
    if value is None:
        return Text("null", style="dim")
    text = f"{value:.6g}" if isinstance(value, float) else str(_flat(value))
    return Text(text if len(text) <= _CELL else text[:_CELL] + " …")
