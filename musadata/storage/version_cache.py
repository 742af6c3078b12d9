"""Hashes of code that were worked out before on this machine, by the bytes of all files that they may depend on.

Reading the package's files takes milliseconds, parsing them seconds. What cannot be read, written or trusted is worked
out anew. A file for each place of a package keeps the hashes of what lies there now.
"""

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from musadata.errors import MusadataError
from musadata.storage import files

_HASH = re.compile("[0-9a-f]{64}")


def remember(root: Path, producers: tuple[str, ...], hash_code: Callable[[Path, tuple[str, ...]], str]) -> str:
    """`hash_code(root, producers)`, which depends on the files below `root` and on Python's version alone."""
    contents, name = _contents_at_first(root), " ".join(producers)
    found = _read(root, contents).get(name)
    if isinstance(found, str) and _HASH.fullmatch(found):
        return found
    found = hash_code(root, producers)
    if hash_contents(root) == contents:  # else a file was edited meanwhile
        with suppress(MusadataError, OSError, RuntimeError):
            known = {"contents": contents, "hashes": {**_read(root, contents), name: found}}
            files.write_atomic(str(_path(root)), json.dumps(known, indent=1).encode())
    return found


def hash_contents(root: Path) -> str:
    """Hash of all files below a folder but those that Python compiled, and of Python's version."""
    digest = hashlib.sha256(f"{sys.version}\0".encode())
    for folder, inner, names in os.walk(root, followlinks=True):
        inner[:] = sorted(set(inner) - {"__pycache__"})
        for name in sorted(names):
            path = os.path.join(folder, name)  # noqa: PTH118 (a third of the time)
            digest.update(os.fsencode(os.path.relpath(path, root)) + b"\0")
            with suppress(OSError), open(path, "rb") as file:  # noqa: PTH123
                digest.update(hashlib.sha256(file.read()).digest())
    return digest.hexdigest()


_contents_at_first = cache(hash_contents)


def _path(root: Path) -> Path:
    folder = Path(os.environ.get("MUSADATA_CACHE") or Path.home() / ".cache" / "musadata")
    return folder / "code_versions" / f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:16]}.json"


def _read(root: Path, contents: str) -> dict[str, Any]:
    """The hashes that are known of these contents."""
    with suppress(OSError, ValueError, RuntimeError):
        known = json.loads(_path(root).read_bytes())
        if isinstance(known, dict) and known.get("contents") == contents and isinstance(known.get("hashes"), dict):
            return dict(known["hashes"])
    return {}
