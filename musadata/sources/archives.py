"""The files inside an archive, read in memory; nothing is written to disk or executed."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import PurePosixPath
from typing import IO, BinaryIO, cast

from musadata.sources.licenses import is_license_file
from musadata.sources.protocol import UnreadableFile
from musadata.sources.trees import MAX_FILE_BYTES, MemoryTree

MAX_MEMBERS = 100_000
MAX_TOTAL_BYTES = 1 << 29  # of everything unpacked; only text files of interest are kept
MAX_HEADER_BYTES = 1 << 20  # of a long name or an extended header, which is read whole
KEPT = (".py", ".cu", ".cuh", ".cpp", ".cc", ".cxx", ".h", ".hpp")
KEPT_NAMES = ("METADATA", "PKG-INFO")
_READING = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)
DAMAGE = (*_READING, OSError, EOFError, ValueError, RuntimeError)  # RuntimeError: encrypted, or of an unknown method
_HEADERS = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
_CENTRAL_ENTRY = b"PK\x01\x02"
_TOO_MUCH = "it unpacks to too much"
Open = Callable[[], IO[bytes] | None]  # opens one member


class ArchiveTree(MemoryTree):
    """The files of an archive by path. What it must not hold is listed too, and reading it raises the reason."""

    def __init__(self, data: bytes, name: str):
        """`data`: the archive; `name` tells its kind (".whl", ".zip", ".tar.gz", …) and stands for it if it is bad."""
        files: dict[str, bytes | UnreadableFile] = {}
        try:
            files.update(_members(data, name))
        except UnreadableFile as error:
            files = {name: error}
        except DAMAGE as error:
            files = {name: UnreadableFile("bad_archive", type(error).__name__)}
        super().__init__(_without_top(files))

    @property
    def faults(self) -> list[str]:
        """Paths that cannot be read; a source lists them as units, so that each is reported."""
        return sorted(path for path, data in self.files.items() if isinstance(data, UnreadableFile))


def _without_top(files: dict[str, bytes | UnreadableFile]) -> dict[str, bytes | UnreadableFile]:
    """The files as they lie in the one folder "demo-1.0" that a source distribution has at its top."""
    read = [path for path, data in files.items() if isinstance(data, bytes)]
    top = read[0].partition("/")[0] if read else ""
    if top.isidentifier() or not all(path.startswith(f"{top}/") for path in read):
        return files
    return {path.removeprefix(f"{top}/"): data for path, data in files.items()}


def _members(data: bytes, name: str) -> Iterator[tuple[str, bytes | UnreadableFile]]:
    found = _zip_members(data) if name.endswith((".whl", ".zip", ".egg")) else _tar_members(data)
    total = 0
    for path, size, open_member in found:
        total += size
        if total > MAX_TOTAL_BYTES:
            raise UnreadableFile("archive_bomb", _TOO_MUCH)
        if _escapes(path):
            yield path, UnreadableFile("escapes_archive", path[:200])
        elif is_kept(path):
            if size > MAX_FILE_BYTES:
                yield path, UnreadableFile("file_too_large", f"more than {MAX_FILE_BYTES} bytes")
            else:
                yield path, _read(open_member)


def _escapes(path: str) -> bool:
    parts = PurePosixPath(path.replace("\\", "/")).parts
    return path.startswith(("/", "\\")) or ".." in parts or ":" in (parts[0] if parts else "")


def is_kept(path: str) -> bool:
    """Whether mining may read a file of that name."""
    return path.endswith(KEPT) or PurePosixPath(path).name.upper().startswith(KEPT_NAMES) or is_license_file(path)


def _zip_members(data: bytes) -> Iterator[tuple[str, int, Open]]:
    if data.count(_CENTRAL_ENTRY) > MAX_MEMBERS:  # before zipfile makes an object of each
        raise UnreadableFile("archive_bomb", _TOO_MUCH)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            kind = info.external_attr >> 16 & 0o170000
            if not info.is_dir() and kind in (0, 0o100000):  # neither links nor devices
                yield info.filename, info.file_size, partial(archive.open, info)


def _tar_members(data: bytes) -> Iterator[tuple[str, int, Open]]:
    with tarfile.open(fileobj=_decompressed(data), mode="r|", tarinfo=BoundedHeader) as archive:
        for count, info in enumerate(archive):
            if count >= MAX_MEMBERS:
                raise UnreadableFile("archive_bomb", _TOO_MUCH)
            if info.isfile():
                yield info.name.removeprefix("./"), info.size, partial(archive.extractfile, info)


def _decompressed(data: bytes) -> BinaryIO:
    """The bytes of a tar file. tarfile's own decompression takes quadratic time where a few bytes stand for many."""
    for magic, unpack in ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\0", lzma.open)):
        if data.startswith(magic):
            return cast(BinaryIO, unpack(io.BytesIO(data)))
    return io.BytesIO(data)


class BoundedHeader(tarfile.TarInfo):
    """A tar header. Long names and extended headers are read into memory, so they are believed up to a size only."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:  # the method that tarfile has for subclasses
        if self.type in _HEADERS and self.size > MAX_HEADER_BYTES:
            raise UnreadableFile("archive_bomb", "a header is larger than any name")
        return super()._proc_member(archive)  # type: ignore[misc,no-any-return]


def _read(open_member: Open) -> bytes:
    """The bytes of one member, at most `MAX_FILE_BYTES`, whatever size its header states."""
    with cast(IO[bytes], open_member()) as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise UnreadableFile("archive_bomb", "a file is larger than it says")
    return data
