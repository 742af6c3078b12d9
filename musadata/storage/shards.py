"""Shards: the Parquet files of a corpus, and nothing else is called that.

One explicit Arrow schema per dataset, zstd, row groups of bounded size, and the same rows give the same bytes. Rows are
streamed in both directions, so that memory does not grow with the shard.
"""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from musadata.errors import MusadataError
from musadata.records import SCHEMA_VERSION
from musadata.rows import hints_of, plain, restore
from musadata.schema import arrow_schema, arrow_type
from musadata.storage import files

Row = TypeVar("Row")

GROUP_ROWS = 4096
GROUP_BYTES = 32 << 20  # in Arrow's memory; rows with long conversations fill a group sooner
_BATCH_ROWS = 256
SPLITS = ("train", "validation", "test")
_NAME = re.compile(r"(?P<name>.+)-(?P<index>\d{5,})-of-(?P<count>\d{5,})\.parquet")


@dataclass(frozen=True, order=True)
class Shard:
    """One of the `count` parts that a dataset is dealt into; `index` counts from 0."""

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index:05d}-of-{self.count:05d}"


@dataclass(frozen=True)
class Output:
    """A shard as it was written. `path` is relative to the corpus, `sha256` that of the whole file."""

    dataset: str
    path: str
    rows: int
    bytes: int
    sha256: str


def deal(count: int) -> tuple[Shard, ...]:
    """All shards of a dataset."""
    return tuple(Shard(index, count) for index in range(count))


def shard_of(name: str, count: int) -> Shard:
    """The shard of a piece of work, by its name alone: it stays there whatever other work is added or lost."""
    return Shard(int(sha256(name.encode(errors="surrogatepass")).hexdigest()[:12], 16) % count, count)


def shard_path(dataset: str, shard: Shard, name: str = "") -> str:
    """Path of a shard, relative to the corpus: `kernels/train-00003-of-00016.parquet`.

    `name` replaces the dataset's in the file name where several stages write to one dataset (`rejects`).
    """
    return f"{dataset}/{name or dataset.lstrip('_')}-{shard}.parquet"


def is_split(dataset: str, kind: type) -> bool:
    """Whether a shard of a dataset is a file per split, for loaders, which map files to splits; see `SplitWriter`."""
    return "split" in kind.__annotations__ and not dataset.startswith("_")


def parse_shard_name(file_name: str) -> tuple[str, Shard] | None:
    """Name and shard of a Parquet file, None where it is not named like one of ours."""
    match = _NAME.fullmatch(file_name)
    return (match["name"], Shard(int(match["index"]), int(match["count"]))) if match else None


class ShardWriter:
    """Writes one shard; the file appears when the block ends well, and not at all when it raises.

    Rows come in the order in which they are to be kept: sorting them is the caller's.
    `output` (and `outputs`, which holds only it) is known after the block.
    """

    output: Output

    @property
    def outputs(self) -> tuple[Output, ...]:
        return (self.output,)

    def __init__(self, corpus: str, dataset: str, shard: Shard, kind: type, *, name: str = ""):
        self._dataset, self._path = dataset, shard_path(dataset, shard, name)
        self._schema = _file_schema(dataset, kind)
        self._group_rows = _BATCH_ROWS if dataset.startswith("_") else GROUP_ROWS
        self._creation: AbstractContextManager[files.HashingFile] = files.create(files.join(corpus, self._path))
        self._rows: list[dict[str, Any]] = []  # rows that wait for a batch
        self._batches: list[pa.RecordBatch] = []  # batches that wait for a row group
        self._written = 0

    def __enter__(self) -> ShardWriter:
        self._file = self._creation.__enter__()
        self._parquet = pq.ParquetWriter(self._file, self._schema, compression="zstd", compression_level=6)
        return self

    def write(self, row: Any) -> None:
        """Add a row of the shard's kind."""
        self._rows.append(plain(row))
        if len(self._rows) == _BATCH_ROWS:
            self._flush_batch()

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows that are in Arrow's form already, with the columns of the shard's kind."""
        if self._rows:
            self._flush_batch()
        self._add(batch.cast(self._schema))

    def _flush_batch(self) -> None:
        try:
            batch = pa.RecordBatch.from_pylist(self._rows, self._schema)
        except UnicodeEncodeError:  # a model may answer with half a surrogate pair, which no UTF-8 file can hold
            batch = pa.RecordBatch.from_pylist([_encodable(row) for row in self._rows], self._schema)
        self._rows = []
        self._add(batch)

    def _add(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        if (
            sum(len(b) for b in self._batches) >= self._group_rows
            or sum(b.nbytes for b in self._batches) >= GROUP_BYTES
        ):
            self._flush_group()

    def _flush_group(self) -> None:
        table = pa.Table.from_batches(self._batches, self._schema)
        self._parquet.write_table(table, row_group_size=max(len(table), 1))
        self._written += len(table)
        self._batches = []

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None:
            self._abandon(error)
            return
        try:
            self._finish()
        except BaseException as own:
            self._abandon(own)
            raise
        self._creation.__exit__(None, None, None)

    def _abandon(self, error: BaseException) -> None:
        with suppress(Exception):  # it writes its footer into a file that is about to be deleted
            self._parquet.close()
        with suppress(BaseException):  # the caller raises the error itself
            self._creation.__exit__(type(error), error, error.__traceback__)

    def _finish(self) -> None:
        if self._rows:
            self._flush_batch()
        if self._batches:
            self._flush_group()
        self._parquet.close()
        self.output = Output(self._dataset, self._path, self._written, self._file.bytes, self._file.sha256)


class SplitWriter:
    """Writes one shard of a dataset whose rows have a split: a file per split, `sft/train-00003-of-00016.parquet`.

    The file of `train` is always there; others are when a row asks for them. `outputs` is known after the block.
    `part` tells the files of several stages that write to one dataset from each other:
    `sft/train-profiling-00003-of-00016.parquet`.
    """

    outputs: tuple[Output, ...]

    def __init__(self, corpus: str, dataset: str, shard: Shard, kind: type, part: str = ""):
        self._open = ExitStack()
        end = f"-{part}" if part else ""
        self._make = lambda split: ShardWriter(corpus, dataset, shard, kind, name=split + end)
        self._path = lambda split: files.join(corpus, shard_path(dataset, shard, split + end))
        self._writers: dict[str, ShardWriter] = {}

    def __enter__(self) -> SplitWriter:
        self._writer("train")
        return self

    def write(self, row: Any) -> None:
        """Add a row to the file of its split."""
        self._writer(row.split).write(row)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows in Arrow's form to the files of their splits."""
        for split in batch.column("split").unique().to_pylist():
            self._writer(split).write_batch(batch.filter(pa.compute.equal(batch.column("split"), split)))

    def _writer(self, split: str) -> ShardWriter:
        if split not in self._writers:
            self._writers[split] = self._open.enter_context(self._make(split))
        return self._writers[split]

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)
        if error[0] is None:
            self.outputs = tuple(self._writers[split].output for split in sorted(self._writers))
            for split in set(SPLITS) - set(self._writers):  # of an earlier attempt
                files.remove(self._path(split))


def read_shard(corpus: str, dataset: str, shard: Shard, kind: type[Row], *, name: str = "") -> Iterator[Row]:
    """The rows of a shard, in order, a batch at a time; of a dataset with splits those of all its files.

    Raises:
        MusadataError: the file is absent, truncated, corrupt, or holds other columns.
    """
    names = SPLITS if is_split(dataset, kind) and not name else (name,)
    for one in names:
        path = files.join(corpus, shard_path(dataset, shard, one))
        if one in ("train", name) or files.exists(path):
            yield from read_rows(path, kind)


def read_rows(path: str, kind: type[Row]) -> Iterator[Row]:
    """The rows of one Parquet file of ours; see `read_shard`."""
    with _reading(path) as parquet:
        _check_schema(path, parquet.schema_arrow, kind)
        for batch in parquet.iter_batches(batch_size=_BATCH_ROWS):
            for row in batch.to_pylist():
                yield restore(kind, row)


def read_batches(
    corpus: str, dataset: str, shard: Shard, kind: type, rows: npt.NDArray[Any]
) -> Iterator[pa.RecordBatch]:
    """Some rows of a shard, by their ascending numbers; only the row groups that hold any of them are read."""
    path = files.join(corpus, shard_path(dataset, shard))
    with _reading(path) as parquet:
        _check_schema(path, parquet.schema_arrow, kind)
        names, start = arrow_schema(kind).names, 0
        for group in range(parquet.num_row_groups):
            end = start + parquet.metadata.row_group(group).num_rows
            chosen = rows[np.searchsorted(rows, start) : np.searchsorted(rows, end)] - start
            if len(chosen):
                yield from parquet.read_row_group(group, columns=names).take(pa.array(chosen)).to_batches()
            start = end


def read_columns(corpus: str, dataset: str, shard: Shard, columns: Sequence[str]) -> pa.Table:
    """Some columns of a shard, whole; see `read_shard`."""
    with _reading(files.join(corpus, shard_path(dataset, shard))) as parquet:
        return parquet.read(list(columns))


def read_file_columns(path: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The rows of a Parquet file of ours, of each only these columns; see `read_shard`."""
    with _reading(path) as parquet:
        table = parquet.read(list(columns))
    return zip(*(table.column(name).to_pylist() for name in columns), strict=True)


@contextmanager
def _reading(path: str) -> Iterator[pq.ParquetFile]:
    with files.open_for_reading(path) as file:
        try:
            yield pq.ParquetFile(file)
        except (pa.ArrowException, OSError, ValueError) as error:
            detail = " ".join(str(error).split())[:200]
            raise MusadataError(
                f"is truncated or corrupt ({detail})", where=path, remedy=f"delete it and {_run_again(path)}"
            ) from error


# To say which command to run again, for what stage 3 does not make.
_MAKERS = {"tasks": "stage1", "kernels": "stage1", "probed": "stage1", "annotations": "stage2", "rejects": "all"}


def run_again(stage: str, corpus: str) -> str:
    """The command that makes a stage; "stage1.probe" is a step of stage 1."""
    return f"run `python -m pipelines.{stage.partition('.')[0]} --config CONFIG --corpus {corpus}`"


def _run_again(path: str) -> str:
    corpus, _, dataset = path.rpartition("/")[0].rpartition("/")
    return f"{run_again(_MAKERS.get(dataset.lstrip('_'), 'stage3'), corpus or '.')} again"


def _file_schema(dataset: str, kind: type) -> pa.Schema:
    return arrow_schema(kind).with_metadata(
        {"musadata.dataset": dataset, "musadata.schema_version": str(SCHEMA_VERSION)}
    )


def _encodable(value: Any) -> Any:
    """The same with a question mark for every character that is none."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    return {name: _encodable(item) for name, item in value.items()} if isinstance(value, dict) else value


def _with_defaults(kind: type) -> frozenset[str]:
    return frozenset(one.name for one in dataclasses.fields(kind) if one.default is not dataclasses.MISSING)


def _is_older(found: pa.DataType, hint: Any) -> bool:
    """Whether a column is of the type that rows have now, but for parts of structs that have defaults."""
    if pa.types.is_list(found) and typing.get_origin(hint) is tuple:
        return _is_older(found.value_type, typing.get_args(hint)[0])
    if pa.types.is_struct(found) and dataclasses.is_dataclass(hint):
        kind = typing.cast(type, hint)
        there, optional = {part.name: part.type for part in found.fields}, _with_defaults(kind)
        return all(
            _is_older(there[name], part) if name in there else name in optional for name, part in hints_of(kind).items()
        )
    return bool(found.equals(arrow_type(hint)))


def _check_schema(path: str, found: pa.Schema, kind: type) -> None:
    """Columns that we do not know are ignored, and those that an older corpus lacks take their defaults.

    Raises:
        MusadataError: one without a default is missing, or one is of another type.
    """
    known, optional = hints_of(kind), _with_defaults(kind)
    for field in arrow_schema(kind):
        position = found.get_field_index(field.name)
        if position < 0 and field.name in optional:
            continue
        if position < 0:
            wrong = f"has no column {field.name!r}, so it is not a shard of {kind.__name__} rows"
        elif not _is_older(found.field(position).type, known[field.name]):
            wrong = f"column {field.name!r} is {found.field(position).type}, not {field.type}"
        else:
            continue
        raise MusadataError(wrong, where=path, remedy=f"move it away and {_run_again(path)}")
