"""Trees of files: a folder on disk, and files already in memory."""

import io
import os
import tokenize
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from musadata.sources.protocol import UnreadableFile

MAX_FILE_BYTES = 2_000_000  # larger ones are generated or data; hand-written Python files stay far below
SKIPPED_FOLDERS = frozenset({".git", "__pycache__", "node_modules", ".venv", "venv", ".tox", ".eggs", "build"})


class FolderTree:
    """The regular files below `root`; only those below `inside` are listed, and symbolic links are not followed."""

    def __init__(self, root: Path, inside: str = ""):
        self.root, self.inside = root, inside

    @cached_property
    def _paths(self) -> list[str]:
        found = []
        for folder, folders, files in os.walk(self.root / self.inside, followlinks=False):
            folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
            base = Path(folder)
            plain = [base / name for name in files if (base / name).is_file() and not (base / name).is_symlink()]
            found += [path.relative_to(self.root).as_posix() for path in plain]
        return sorted(found)

    def paths(self) -> list[str]:
        return self._paths

    def read(self, path: str) -> bytes:
        try:
            with (self.root / path).open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise UnreadableFile("unreadable", error.strerror or "") from error
        return check_size(data)


class MemoryTree:
    """Files held in memory, or for each that cannot be used the reason."""

    def __init__(self, files: Mapping[str, bytes | UnreadableFile]):
        self.files = files

    def paths(self) -> list[str]:
        return sorted(self.files)

    def read(self, path: str) -> bytes:
        data = self.files.get(path, UnreadableFile("unreadable", "no such file"))
        if isinstance(data, UnreadableFile):
            raise data
        return check_size(data)


def check_size(data: bytes) -> bytes:
    """The data, if it is no larger than a hand-written file.

    Raises:
        UnreadableFile: it is larger than `MAX_FILE_BYTES`.
    """
    if len(data) > MAX_FILE_BYTES:
        raise UnreadableFile("file_too_large", f"more than {MAX_FILE_BYTES} bytes")
    return data


def decode_source(data: bytes) -> str:
    """Python source as text, by its byte-order mark or coding line, UTF-8 otherwise.

    Raises:
        UnreadableFile: the encoding is unknown or does not fit, or the text holds a null byte.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise UnreadableFile("odd_encoding", type(error).__name__) from error
    if "\x00" in text:
        raise UnreadableFile("odd_encoding", "null byte")
    return text.replace("\r\n", "\n").replace("\r", "\n")
