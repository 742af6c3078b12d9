"""SQL over a corpus: every dataset is a DuckDB view with all of its columns, even if it has no rows yet."""

from pathlib import Path

import duckdb
import fsspec
import pyarrow as pa
import pyarrow.dataset as pads

from musadata.corpus.datasets import DATASETS
from musadata.corpus.manifest import Corpus, open_corpus
from musadata.errors import MusadataError
from musadata.schema import reading_schema
from musadata.storage import files

_FOLDER = Path(__file__).with_name("queries")
# Ready-made questions: name -> what it asks, from the first line of its SQL.
QUESTIONS = {
    path.stem: path.read_text(encoding="utf-8").splitlines()[0].lstrip("- ") for path in sorted(_FOLDER.glob("*.sql"))
}


def read_question(name: str) -> str:
    """The SQL of a ready-made question."""
    return _FOLDER.joinpath(f"{name}.sql").read_text(encoding="utf-8").strip()


def connect(path: str, *, native: bool = False) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection with a view per dataset over the committed shards of a corpus.

    Args:
        native: let DuckDB read local shards itself, which searches texts five times as fast, but has no columns that an
            older corpus lacks.

    Raises:
        MusadataError: not a corpus, or a shard is absent or truncated.
    """
    corpus = open_corpus(path)
    for error in corpus.damage():
        raise error
    connection = duckdb.connect()
    for dataset in DATASETS:
        local = [files.local_name(path) for path in corpus.paths(dataset)]
        if native and local and all(local):
            connection.read_parquet(local, union_by_name=True).create_view(dataset)  # type: ignore[arg-type]
        else:
            connection.register(dataset, _scan(corpus, dataset))
    return connection


def _scan(corpus: Corpus, dataset: str) -> pads.Dataset:
    """The shards of a dataset for Arrow, read lazily; all columns even where there are no shards."""
    schema = reading_schema(DATASETS[dataset].kind)
    paths = corpus.paths(dataset)
    if not paths:
        return pads.dataset(schema.empty_table())
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
    except (duckdb.Error, pa.ArrowException) as error:
        message = " ".join(str(error).split("\n\nLINE ")[0].split())  # without DuckDB's excerpt of the query
        raise MusadataError(message, where="SQL", remedy=f"the views are {', '.join(DATASETS)}") from error
