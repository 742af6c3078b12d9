"""The one door to files: local paths, `gs://`, `hdfs://` and whatever else fsspec opens, as strings.

A file appears whole or not at all. Where a rename is atomic (local disks, HDFS) it is written under a hidden temporary
name, synced and renamed; object stores show a file only when its upload is complete, so there it is spooled to a local
temporary file and put in one go. What the file system refuses is a `MusadataError` that names the path.
"""

import hashlib
import posixpath
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any, BinaryIO

import fsspec
from fsspec.implementations.local import LocalFileSystem

from musadata.errors import MACHINE_ERRORS, MusadataError, Outage
from musadata.storage.attempts import Attempt, LocalRename, RemoteRename, Upload
from musadata.storage.survey import Survey

_RENAMES_ATOMICALLY = {"hdfs", "webhdfs", "viewfs", "sftp", "ssh"}
_LOCAL = LocalFileSystem()
_survey: ContextVar[Survey | None] = ContextVar("survey", default=None)


class HashingFile:
    """A binary file that counts and hashes (SHA-256) what is written to it, front to back."""

    def __init__(self, file: IO[bytes], path: str):
        self._file, self._path, self._hash = file, path, hashlib.sha256()
        self.bytes = 0
        self.closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._hash.update(view)
        with explain(self._path, "cannot be written"):
            self._file.write(view)
        self.bytes += len(view)
        return len(view)

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        """Nothing: whoever made the file below closes it."""

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


def join(folder: str, *names: str) -> str:
    """A path below `folder`, which may be a URL."""
    return posixpath.join(folder, *names)


def absolute(path: str) -> str:
    """A local path from the root, so that workers elsewhere mean the same file; a URL as it is."""
    return local_name(path) or path


@contextmanager
def create(path: str) -> Iterator[HashingFile]:
    """Write a file that appears under `path` when the block ends well, and not at all when it raises.

    Raises:
        MusadataError: the file system refuses (read-only, no space, a file where a folder should be, no access).
    """
    with explain(path, "cannot be written"):
        attempt = _begin(path)
    try:
        yield (file := HashingFile(attempt.file, path))
        with explain(path, "cannot be written"):
            attempt.finish()
    except BaseException:
        attempt.abandon()
        raise
    if (known := _known(path)) is not None:
        known.wrote(path, file.bytes)


def _begin(path: str) -> Attempt:
    system, name = _resolve(path)
    if isinstance(system, LocalFileSystem):
        return LocalRename(Path(name))
    if _RENAMES_ATOMICALLY.isdisjoint(_protocols(system)):
        return Upload(system, name)
    return RemoteRename(system, name)


def write_atomic(path: str, data: bytes) -> None:
    """Write a whole small file; see `create`."""
    with create(path) as file:
        file.write(data)


def write_if_changed(path: str, data: bytes) -> None:
    """Write a whole small file unless it holds these bytes already: what is complete may lie on a read-only mount."""
    if size(path) != len(data) or read_bytes(path) != data:
        write_atomic(path, data)


def create_if_absent(path: str, data: bytes) -> bool:
    """Write a small file on a remote store under the condition that there is none; whether it was written."""
    with explain(path, "cannot be written"):
        system, name = _resolve(path)
        try:
            system.pipe_file(name, data, mode="create")
        except FileExistsError:
            return False
        except TypeError:  # a store that knows no conditions: a look first is the best that there is
            if system.exists(name):
                return False
            system.pipe_file(name, data)
    return True


def read_bytes(path: str) -> bytes:
    """The whole file. Raises MusadataError where it is absent or cannot be read."""
    known = _known(path)
    if known is not None and (data := known.contents.get(path)) is not None:
        return data
    with explain(path, "cannot be read"):
        system, name = _resolve(path)
        data = bytes(system.cat_file(name))
    if known is not None:
        known.contents[path] = data
    return data


@contextmanager
def open_for_reading(path: str) -> Iterator[BinaryIO]:
    """Open for reading, seekable, as Parquet needs it. Raises MusadataError where that is not possible."""
    with explain(path, "cannot be read"):
        system, name = _resolve(path)
        file: BinaryIO = system.open(name, "rb")
    with file:
        yield file


def sha256(path: str) -> str:
    """SHA-256 of a file, in hex, a block at a time."""
    digest = hashlib.sha256()
    with open_for_reading(path) as file, explain(path, "cannot be read"):
        while block := file.read(8 << 20):
            digest.update(block)
    return digest.hexdigest()


def size(path: str) -> int | None:
    """Bytes of a file, None where there is no such file."""
    if (known := _known(path)) is not None:
        return known.sizes.get(path)
    with explain(path, "cannot be looked at"), suppress(FileNotFoundError, NotADirectoryError):
        system, name = _resolve(path)
        system.invalidate_cache(posixpath.dirname(name))  # other workers write as well
        info = system.info(name)
        return int(info["size"]) if info["type"] == "file" else None
    return None


def exists(path: str) -> bool:
    """Whether there is a file of that name (a folder is not one)."""
    return size(path) is not None


def is_folder(path: str) -> bool:
    """Whether there is a folder of that name; on an object store: whether anything lies below it."""
    if (known := _known(path)) is not None:
        return known.has_folder(path)
    with explain(path, "cannot be looked at"):
        system, name = _resolve(path)
        return bool(system.isdir(name))


def list_names(folder: str) -> list[str]:
    """Names of the files and folders right below a folder, sorted, hidden ones too; none where there is no folder."""
    if (known := _known(folder)) is not None:
        return known.names(folder)
    with explain(folder, "cannot be listed"):
        system, name = _resolve(folder)
        system.invalidate_cache()
        try:
            entries = system.ls(name, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        below = {entry.rstrip("/") for entry in entries} - {name.rstrip("/")}  # listing a file gives itself
        return sorted({posixpath.basename(entry) for entry in below} - {""})


def remove(path: str) -> None:
    """Delete a file; nothing happens where there is none."""
    if (known := _known(path)) is not None:
        known.removed(path)
    with explain(path, "cannot be deleted"), suppress(FileNotFoundError):
        system, name = _resolve(path)
        system.rm_file(name)


@contextmanager
def survey(folder: str, wanted: Callable[[str], bool]) -> Iterator[None]:
    """Look at a folder once: in this block its names, sizes and small files are those that were there at its begin, and
    what this thread writes. To be used only while nobody else changes the folder.

    `wanted` says of a relative path whether its content will be asked for, so that a store gives many at once.
    """
    token = _survey.set(_look(folder, wanted))
    try:
        yield
    finally:
        _survey.reset(token)


def _known(path: str) -> Survey | None:
    found = _survey.get()
    return found if found is not None and found.covers(path) else None


def _look(folder: str, wanted: Callable[[str], bool]) -> Survey:
    with explain(folder, "cannot be listed"):
        system, root = _resolve(folder)
        system.invalidate_cache()
        found = system.find(root, detail=True)  # empty where there is nothing
        names = {name: str(name)[len(root) :].strip("/") for name in found}
        survey = Survey(folder, {names[name]: int(about["size"]) for name, about in found.items()})
        if asked := [name for name in found if wanted(names[name])]:
            contents = system.cat(asked, on_error="omit")
            survey.contents.update({join(folder, names[name]): data for name, data in contents.items()})
        return survey


def local_name(path: str) -> str | None:
    """The name of a file on this machine for libraries that open it themselves, None for a URL."""
    is_local = "://" not in path or path.startswith("file://")
    return str(LocalFileSystem._strip_protocol(path)) if is_local else None


def _resolve(path: str) -> tuple[Any, str]:
    """The file system of a path, and its name there."""
    if (local := local_name(path)) is not None:
        return _LOCAL, local
    try:
        system, name = fsspec.core.url_to_fs(path)
    except (ImportError, ValueError) as error:
        raise MusadataError(
            f"cannot be opened ({error})", where=path, remedy="check the protocol, or install its fsspec package"
        ) from error
    return system, name


def _protocols(system: Any) -> set[str]:
    return {system.protocol} if isinstance(system.protocol, str) else set(system.protocol)


@contextmanager
def explain(path: str, what: str) -> Iterator[None]:
    """Turn what a file system says into an error that a user can mend, an `Outage` where the machine is short of
    something."""
    try:
        yield
    except FileNotFoundError as error:
        raise MusadataError(f"{what}: there is no such file", where=path, remedy="check the path") from error
    except (NotADirectoryError, FileExistsError) as error:
        raise MusadataError(
            f"{what}: a file stands where a folder should be", where=path, remedy="name another folder"
        ) from error
    except IsADirectoryError as error:
        raise MusadataError(
            f"{what}: a folder stands where a file should be", where=path, remedy="move it away"
        ) from error
    except PermissionError as error:
        raise MusadataError(f"{what}: permission denied", where=path, remedy="check who may write there") from error
    except OSError as error:
        kind = Outage if error.errno in MACHINE_ERRORS else MusadataError
        text = f"{what} ({error.strerror or error})"
        raise kind(text, where=path, remedy="mend it and run the same command again") from error
