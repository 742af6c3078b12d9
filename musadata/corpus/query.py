"""SQL over a corpus: every dataset is a DuckDB view with all of its columns, even if it has no rows yet."""

import duckdb
import pyarrow as pa
import pyarrow.dataset as pads

from musadata.corpus.datasets import DATASETS
from musadata.corpus.manifest import Corpus, open_corpus
from musadata.errors import MusadataError
from musadata.schema import arrow_schema
from musadata.storage import files


def connect(path: str) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection with a view per dataset over the committed shards of a corpus.

    Raises:
        MusadataError: not a corpus, or a shard is absent or truncated.
    """
    corpus = open_corpus(path)
    for error in corpus.damage():
        raise error
    connection = duckdb.connect()
    for dataset in DATASETS:
        connection.register(dataset, _scan(corpus, dataset))
    return connection


def _scan(corpus: Corpus, dataset: str) -> pads.Dataset:
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
    except (duckdb.Error, pa.ArrowException) as error:
        message = " ".join(str(error).split("\n\nLINE ")[0].split())  # without DuckDB's excerpt of the query
        raise MusadataError(message, where="SQL", remedy=f"the views are {', '.join(DATASETS)}") from error
