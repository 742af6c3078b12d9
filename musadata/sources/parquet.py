"""Dumps of source files in Parquet, such as The Stack: one row a file, columns mapped by the config."""

import io
import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from musadata.config import SourceConfig
from musadata.errors import MusadataError
from musadata.records import Reject
from musadata.sources.code import CodeFiles
from musadata.sources.protocol import CodeFile, UnreadableFile, reject_draft
from musadata.sources.trees import MemoryTree

if TYPE_CHECKING:
    from musadata.sandbox import Caller

BROKEN = "unreadable_parquet"
ROLES = ("content", "path", "repository", "revision", "license")


class RowsTree(MemoryTree):
    """The rows of one repository in one row group. Of two rows of one path, the first is read."""

    def __init__(self) -> None:
        self._rows: dict[str, bytes | UnreadableFile] = {}
        super().__init__(self._rows)
        self.repeated: list[str] = []

    def add(self, path: str, content: Any) -> None:
        if path in self._rows:
            self.repeated.append(path)
        elif isinstance(content, str):
            self._rows[path] = content.encode("utf-8", "surrogatepass")
        else:
            self._rows[path] = content if isinstance(content, bytes) else UnreadableFile("unreadable", "no content")


@dataclass(frozen=True)
class Footer:
    """The footer of a Parquet file."""

    row_groups: int
    sha256: str


class ParquetFiles:
    """Units are row groups ("part-0.parquet#3"): one is read at a time, so memory stays flat.

    Raises:
        MusadataError: no Parquet file there, or a role that is unknown or missing.
    """

    def __init__(self, config: SourceConfig, seed: int):
        self._config, self.seed = config, seed
        self._columns = dict(config.columns)
        unknown = sorted(set(self._columns) - set(ROLES))
        where = f"source {config.path}: columns"
        if unknown:
            raise MusadataError(f"does not know {unknown[0]}", where=where, remedy=f"known are {', '.join(ROLES)}")
        if "content" not in self._columns:
            raise MusadataError("does not say which column holds the text", where=where, remedy="add content: NAME")
        self._files = _find_files(config.path)
        self.origin = f"parquet:{config.name or config.path.rstrip('/').rpartition('/')[2]}"

    def units(self) -> list[str]:
        """Row groups, sorted by file and number; of a file that cannot be read, its name, so that it is reported.

        Raises:
            MusadataError: no file can be read.
        """
        broken = [scanned for scanned in self._scanned.values() if isinstance(scanned, UnreadableFile)]
        if len(broken) == len(self._scanned):
            name = next(iter(self._scanned))
            raise MusadataError(broken[0].detail, where=name, remedy="fetch it again, or correct columns")
        found = []
        for name, scanned in self._scanned.items():
            if isinstance(scanned, Footer):
                found += [f"{name}#{number}" for number in range(scanned.row_groups)]
            else:
                found.append(name)
        return found

    @property
    def revision(self) -> str:
        """A hash of all footers, which hold position and statistics of every column."""
        footers = [
            [name, scanned.sha256 if isinstance(scanned, Footer) else scanned.reason]
            for name, scanned in self._scanned.items()
        ]
        return sha256(json.dumps(footers).encode()).hexdigest()[:16]

    @cached_property
    def _scanned(self) -> dict[str, "Footer | UnreadableFile"]:
        """Every file's footer, or why there is none, by name."""
        found: dict[str, Footer | UnreadableFile] = {}
        for name in sorted(self._files):
            try:
                with self._open(name) as file:
                    found[name] = Footer(file.num_row_groups, _hash(file.metadata))
            except UnreadableFile as error:
                found[name] = error
        return found

    def read(self, unit: str, sandbox: "Caller") -> Iterator[CodeFile | Reject]:
        """The files in one row group; those of one repository can import each other."""
        try:
            table = self._read(unit)
        except UnreadableFile as error:
            yield reject_draft(error.reason, error.detail, f"{self.origin}/{unit}")
            return
        for repository, repeated in self._repositories(table):
            for path in repository.units():
                yield from repository.read(path, sandbox)
            for path in repeated:
                yield reject_draft("repeated_path", "", f"{self.origin}/{path}")

    def _read(self, unit: str) -> pa.Table:
        """A row group, texts as the bytes that they are.

        Raises:
            UnreadableFile: it is broken, or its file was when it was listed.
        """
        name, _, number = unit.rpartition("#")
        if unit in self._files or not number.isdecimal():
            self._open(unit).close()
            raise UnreadableFile(BROKEN, "it was broken when the run began")
        with self._open(name) as file, _explained():
            return file.read_row_group(int(number), columns=sorted(set(self._columns.values())))

    def _repositories(self, table: pa.Table) -> Iterator[tuple[CodeFiles, list[str]]]:
        """Each repository, and the paths that it has more than once."""
        groups: dict[tuple[str, str, str], RowsTree] = defaultdict(RowsTree)
        for place, row in enumerate(_rows(table)):
            described = {role: row.get(column) for role, column in self._columns.items()}
            key = tuple(_plain(described.get(role)) for role in ("repository", "revision", "license"))
            path = _plain(described.get("path")) or f"row-{place}.py"
            path = path if path.endswith(".py") else f"{path}.py"
            groups[key[0], key[1], key[2]].add(path.lstrip("/"), described["content"])
        for (repository, revision, license), tree in sorted(groups.items(), key=lambda item: item[0]):
            files = CodeFiles(
                self.origin, tree, self._config, self.seed, repository=repository, revision=revision, license=license
            )
            yield files, tree.repeated

    def _open(self, name: str) -> pq.ParquetFile:
        if name not in self._opened:
            raise UnreadableFile(BROKEN, "there is no such file")
        with _explained():
            file = pq.ParquetFile(self._opened[name].open())
        missing = sorted(set(self._columns.values()) - set(file.schema_arrow.names))
        if missing:
            known = ", ".join(file.schema_arrow.names)
            raise UnreadableFile("missing_column", f"has no column {missing[0]}: it has {known}")
        return file

    @cached_property
    def _opened(self) -> dict[str, fsspec.core.OpenFile]:
        return {name: fsspec.open(path, "rb") for name, path in self._files.items()}


def _find_files(path: str) -> dict[str, str]:
    """Name (below the common folder) -> address of every Parquet file at a path, folder or glob."""
    system, root = fsspec.core.url_to_fs(path)
    if system.isdir(root):
        found = system.find(root)
        base = root.rstrip("/")
    else:
        found = system.glob(root) if "*" in root else [root] if system.exists(root) else []
        base = root.partition("*")[0].rpartition("/")[0]
    names = {item.removeprefix(base).lstrip("/"): system.unstrip_protocol(item) for item in found}
    names = {name: address for name, address in names.items() if name.endswith(".parquet")}
    if not names:
        raise MusadataError("holds no Parquet files", where=f"source {path}", remedy="name a file, folder or glob")
    return names


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException, ValueError) as error:
        detail = " ".join(str(getattr(error, "strerror", None) or error).split())[:150]
        raise UnreadableFile(BROKEN, f"cannot be read as Parquet ({detail})") from error


def _hash(metadata: pq.FileMetaData) -> str:
    footer = io.BytesIO()
    metadata.write_metadata_file(footer)
    return sha256(footer.getvalue()).hexdigest()


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    """The rows, with strings as bytes, so that invalid UTF-8 affects its own row only."""
    schema = pa.schema([(field.name, _as_bytes(field.type)) for field in table.schema])
    for batch in table.cast(schema).to_batches(max_chunksize=256):
        yield from batch.to_pylist()


def _as_bytes(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.large_binary()
    return pa.list_(_as_bytes(kind.value_type)) if pa.types.is_list(kind) else kind


def _plain(value: Any) -> str:
    """A cell as text; of a list of licences, all of them."""
    if isinstance(value, (list, tuple)):
        return " AND ".join(_plain(item) for item in value if item)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)
