"""`musadata query`: run SQL over a corpus and print or write the result."""

import argparse
import csv
import io
import json
import sys
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table
from rich.text import Text

from musadata.corpus.datasets import DATASETS
from musadata.corpus.query import QUESTIONS, query, read_question
from musadata.errors import MusadataError
from musadata.storage import files

_FORMATS = ("table", "csv", "json", "parquet")
_CELL = 400  # characters of a cell that a table shows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("corpus", help="folder or URL of the corpus")
    parser.add_argument(
        "sql",
        metavar="SQL",
        help="a query in DuckDB's SQL over the views "
        + ", ".join(DATASETS)
        + "; or the name of a question: ; ".join(
            f"{name} ({about.rstrip('.')})" for name, about in QUESTIONS.items()
        ).replace("%", "%%"),
    )
    parser.add_argument("--format", choices=_FORMATS, help="format of the result (default: by FILE's suffix, or table)")
    parser.add_argument("--show", action="store_true", help="print the SQL of a question instead of its answer")
    parser.add_argument("--output", metavar="FILE", help="write the result to this file instead of printing it")
    parser.add_argument("--rows", type=int, default=100, help="the most rows that a table shows (default: 100)")


def run(arguments: argparse.Namespace) -> int:
    sql = read_question(arguments.sql) if arguments.sql in QUESTIONS else arguments.sql
    if arguments.show:
        print(sql)
        return 0
    suffix = (arguments.output or "").rpartition(".")[2]
    arguments.format = arguments.format or (suffix if suffix in _FORMATS else "table")
    if arguments.format == "parquet" and not arguments.output:
        raise MusadataError("Parquet cannot be printed", where="--format parquet", remedy="add --output FILE")
    result = query(arguments.corpus, sql)
    if result is None:
        return 0
    if not arguments.output:
        _write_text(result, arguments.format, arguments.rows, sys.stdout)
        return 0
    with files.create(arguments.output) as file:
        if arguments.format == "parquet":
            pq.write_table(result, file, compression="zstd")
        else:
            text = io.StringIO()
            _write_text(result, arguments.format, arguments.rows, text)
            file.write(text.getvalue().encode())
    return 0


def _write_text(result: pa.Table, form: str, most: int, file: IO[str]) -> None:
    if form == "csv":
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(result.column_names)
        for batch in result.to_batches(max_chunksize=1024):
            writer.writerows([_flat(value) for value in row.values()] for row in batch.to_pylist())
    elif form == "json":
        json.dump(result.to_pylist(), file, indent=1, ensure_ascii=False, default=str)
        file.write("\n")
    else:
        console = Console(file=file, width=None if file is sys.stdout else 160)
        console.print(_as_table(result, most))
        if len(result) > most:
            console.print(f"… {len(result) - most:,} more rows; --rows shows more")


def _flat(value: Any) -> Any:
    """Nested values as JSON, since CSV and tables have none."""
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, (dict, list)) else value


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
