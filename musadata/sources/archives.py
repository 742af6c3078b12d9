"""The files inside an archive, read in memory: nothing of it is ever written to disk or executed."""

import io
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from musadata.sources.protocol import UnreadableFile
from musadata.sources.trees import MAX_FILE_BYTES

MAX_MEMBERS = 100_000
MAX_TOTAL_BYTES = 1 << 29  # of everything unpacked; only text files of interest are kept
KEPT = (".py", ".cu", ".cuh", ".cpp", ".cc", ".h", ".hpp")
KEPT_NAMES = ("LICENSE", "LICENCE", "COPYING", "METADATA", "PKG-INFO", "UNLICENSE")


@dataclass(frozen=True)
class Member:
    """One regular file of an archive. `data` is None for what is not kept."""

    path: str
    data: bytes | None
    fault: UnreadableFile | None = None


class ArchiveTree:
    """The files of an archive by path. What it must not hold is listed too, and reading it raises the reason."""

    def __init__(self, data: bytes, name: str):
        """`data`: the archive; `name` tells its kind (".whl", ".zip", ".tar.gz", …) and stands for it if it is bad."""
        self._files: dict[str, bytes | UnreadableFile] = {}
        try:
            for member in _members(data, name):
                kept = member.fault or member.data
                if kept is not None:
                    self._files[member.path] = kept
        except UnreadableFile as error:
            self._files = {name: error}
        except (
            OSError,
            ValueError,
            EOFError,
            zipfile.BadZipFile,
            tarfile.TarError,
            RuntimeError,
            NotImplementedError,
        ) as e:
            self._files = {name: UnreadableFile("bad_archive", type(e).__name__)}

    @property
    def faults(self) -> list[str]:
        """Paths that cannot be read, so that somebody asks for them and reports why."""
        return sorted(path for path, data in self._files.items() if isinstance(data, UnreadableFile))

    def paths(self) -> list[str]:
        return sorted(self._files)

    def read(self, path: str) -> bytes:
        data = self._files.get(path, UnreadableFile("unreadable", "no such file"))
        if isinstance(data, UnreadableFile):
            raise data
        return data


def _members(data: bytes, name: str) -> Iterator[Member]:
    found = _zip_members(data) if name.endswith((".whl", ".zip", ".egg")) else _tar_members(data)
    total = 0
    for count, (path, size, stream) in enumerate(found):
        total += size
        if count >= MAX_MEMBERS or total > MAX_TOTAL_BYTES:
            raise UnreadableFile("archive_bomb", "it unpacks to too much")
        if _escapes(path):
            yield Member(path, None, UnreadableFile("escapes_archive", path[:200]))
        elif _is_kept(path):
            if size > MAX_FILE_BYTES:
                yield Member(path, None, UnreadableFile("file_too_large", f"more than {MAX_FILE_BYTES} bytes"))
            else:
                yield Member(path, stream())


def _escapes(path: str) -> bool:
    parts = PurePosixPath(path.replace("\\", "/")).parts
    return path.startswith(("/", "\\")) or ".." in parts or ":" in (parts[0] if parts else "")


def _is_kept(path: str) -> bool:
    return path.endswith(KEPT) or PurePosixPath(path).name.upper().startswith(KEPT_NAMES)


def _zip_members(data: bytes) -> Iterator[tuple[str, int, "Reader"]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            kind = info.external_attr >> 16 & 0o170000
            if not info.is_dir() and kind in (0, 0o100000):  # neither links nor devices
                yield info.filename, info.file_size, Reader(archive, info)


def _tar_members(data: bytes) -> Iterator[tuple[str, int, "Reader"]]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r|*") as archive:
        for info in archive:
            if info.isfile():
                yield info.name.removeprefix("./"), info.size, Reader(archive, info)


@dataclass(frozen=True)
class Reader:
    """Reads one member; a member that is larger than it said is not believed."""

    archive: zipfile.ZipFile | tarfile.TarFile
    info: zipfile.ZipInfo | tarfile.TarInfo

    def __call__(self) -> bytes:
        if isinstance(self.archive, zipfile.ZipFile) and isinstance(self.info, zipfile.ZipInfo):
            with self.archive.open(self.info) as file:
                data = file.read(MAX_FILE_BYTES + 1)
        else:
            assert isinstance(self.archive, tarfile.TarFile)
            assert isinstance(self.info, tarfile.TarInfo)
            stream = self.archive.extractfile(self.info)
            data = stream.read(MAX_FILE_BYTES + 1) if stream else b""
        if len(data) > MAX_FILE_BYTES:
            raise UnreadableFile("archive_bomb", "a file is larger than it says")
        return data
