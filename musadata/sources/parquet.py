"""Dumps of source files in Parquet, such as The Stack: one row a file, columns mapped by the config."""

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from musadata.config import SourceConfig
from musadata.errors import MusadataError
from musadata.records import SCHEMA_VERSION, Draft, KernelDraft, Reject
from musadata.sources.code import CodeFiles
from musadata.sources.protocol import STEP, UnreadableFile
from musadata.sources.trees import check_size

if TYPE_CHECKING:
    from musadata.sandbox import Caller

ROLES = ("content", "path", "repository", "revision", "license")


class RowsTree:
    """The rows of one repository in one row group. Of two rows of one path, the first is read."""

    def __init__(self) -> None:
        self._rows: dict[str, Any] = {}
        self.repeated: list[str] = []

    def add(self, path: str, content: Any) -> None:
        if path in self._rows:
            self.repeated.append(path)
        else:
            self._rows[path] = content

    def paths(self) -> list[str]:
        return sorted(self._rows)

    def read(self, path: str) -> bytes:
        content = self._rows.get(path)
        if isinstance(content, str):
            return check_size(content.encode("utf-8", "surrogatepass"))
        if isinstance(content, bytes):
            return check_size(content)
        raise UnreadableFile("unreadable", "no content")


class ParquetFiles:
    """Units are row groups ("part-0.parquet#3"): one is read at a time, so memory stays flat."""

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
        """Row groups, sorted by file and number."""
        found = []
        for name in sorted(self._files):
            with self._open(name) as file:
                found += [f"{name}#{number}" for number in range(file.num_row_groups)]
        return found

    def drafts(self, unit: str, sandbox: "Caller") -> Iterator[Draft | KernelDraft | Reject]:
        """The modules in one row group; files of one repository can import each other."""
        for repository, repeated in self._repositories(unit):
            for path in repository.units():
                yield from repository.drafts(path, sandbox)
            for path in repeated:
                yield Reject(SCHEMA_VERSION, "tasks", STEP, "repeated_path", "", f"{self.origin}/{path}")

    def _repositories(self, unit: str) -> Iterator[tuple[CodeFiles, list[str]]]:
        """Each repository, and the paths that it has more than once."""
        name, _, number = unit.rpartition("#")
        with self._open(name) as file:
            table = file.read_row_group(int(number), columns=sorted(set(self._columns.values())))
        groups: dict[tuple[str, str, str], RowsTree] = defaultdict(RowsTree)
        for place, row in enumerate(_rows(table)):
            described = {role: row.get(column) for role, column in self._columns.items()}
            key = tuple(_plain(described.get(role)) for role in ("repository", "revision", "license"))
            path = _plain(described.get("path")) or f"row-{place}.py"
            path = path if path.endswith(".py") else f"{path}.py"
            groups[key[0], key[1], key[2]].add(path.lstrip("/"), described["content"])
        for (repository, revision, license), tree in sorted(groups.items(), key=lambda item: item[0]):
            files = CodeFiles(
                self.origin,
                tree,
                seed=self.seed,
                repository=repository,
                revision=revision,
                include=self._config.include,
                exclude=self._config.exclude,
                license=license or self._config.license,
            )
            yield files, tree.repeated

    def _open(self, name: str) -> pq.ParquetFile:
        try:
            file = pq.ParquetFile(self._opened[name].open())
        except (OSError, pa.ArrowException) as error:
            raise MusadataError("cannot be read as Parquet", where=name, remedy="fetch it again") from error
        missing = sorted(set(self._columns.values()) - set(file.schema_arrow.names))
        if missing:
            known = ", ".join(file.schema_arrow.names)
            raise MusadataError(f"has no column {missing[0]}", where=name, remedy=f"it has {known}")
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


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in table.to_batches(max_chunksize=256):
        yield from batch.to_pylist()


def _plain(value: Any) -> str:
    """A cell as text; of a list of licences, all of them."""
    if isinstance(value, (list, tuple)):
        return " AND ".join(str(item) for item in value if item)
    return "" if value is None else str(value)


def open_parquet(config: SourceConfig, seed: int) -> ParquetFiles:
    """A dump.

    Raises:
        MusadataError: no Parquet file there, or a mapped column is missing.
    """
    return ParquetFiles(config, seed)
