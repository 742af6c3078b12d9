"""A folder of this machine in which built things are kept by the hash of everything that went into them.

So nothing is ever invalidated, only superseded, and all processes of the machine share it.
"""

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from musadata.computed_once import ComputedOnce
from musadata.errors import MACHINE_ERRORS, MusadataError, Outage
from musadata.verifier.compilation.compile_errors import CompileError, Unsupported

_LIBRARY = "candidate.so"
_REFUSAL = "refused.json"
_PARTIAL = ".partial-"
_MAKE_ROOM = "make room there, or set MUSADATA_CACHE and TMPDIR to folders with more"
LEAST_ROOM = 64 << 20  # bytes: a candidate's library may have as many
_REFUSALS: Mapping[str, type[Exception]] = {"CompileError": CompileError, "Unsupported": Unsupported}


def cache_folder() -> Path:
    """Where built things are kept: MUSADATA_CACHE, or ~/.cache/musadata.

    Raises:
        MusadataError: it cannot be made.
    """
    folder = Path(os.environ.get("MUSADATA_CACHE") or Path.home() / ".cache" / "musadata")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MusadataError(
            f"cannot be made ({error.strerror})", where=str(folder), remedy="set MUSADATA_CACHE to a writable folder"
        ) from error
    return folder


def hash_of(*parts: str | Path) -> str:
    """Short hash of texts and of the contents of files and folders, independent of where the folders are."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            digest.update(part.encode() + b"\0")
            continue
        for file in sorted(part.rglob("*")) if part.is_dir() else [part]:
            if file.is_file() and "__pycache__" not in file.parts:
                name = str(file.relative_to(part)) if part.is_dir() else file.name
                digest.update(name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:20]


def require_room(folder: Path, least_bytes: int = LEAST_ROOM, remedy: str = _MAKE_ROOM) -> None:
    """Nothing if the filesystem of `folder` has so many bytes free: work that would end on a full disk is not begun.

    Raises:
        Outage: it has less.
    """
    if shutil.disk_usage(folder).free < least_bytes:
        raise Outage(f"less than {least_bytes >> 20} MB are free", where=str(folder), remedy=remedy)


def build_once(folder: Path, build: Callable[[Path], None], room: int = LEAST_ROOM) -> Path:
    """`folder`, filled by `build(temporary folder)` exactly once, however many processes ask at the same time.

    The folder appears whole or not at all: it is renamed into place under a lock.

    Args:
        folder: a folder in the cache.
        build: fills an empty folder.
        room: bytes that have to be free before it is called.

    Raises:
        Outage: less is free, or the machine fails under it in another way.
    """
    if folder.is_dir():
        return folder
    require_room(cache_folder(), room)  # by its name, so that all shards name one cause
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(folder.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder
        _remove_half_built(folder.parent.glob(f"{_PARTIAL}*"))
        partial = Path(tempfile.mkdtemp(prefix=f"{_PARTIAL}{os.getpid()}-", dir=folder.parent))
        descriptor = os.open(partial, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # shows that its builder lives
            build(partial)
            partial.chmod(0o755)
            partial.rename(folder)
        except OSError as error:
            if isinstance(error, shutil.Error) or error.errno in MACHINE_ERRORS:  # the former has no number
                why = error.strerror or "copying failed"
                raise Outage(f"cannot keep what was built ({why})", where="compiler", remedy=_MAKE_ROOM) from error
            raise
        finally:
            os.close(descriptor)
            shutil.rmtree(partial, ignore_errors=True)
    return folder


def remove_half_built() -> None:
    """Remove what killed processes have left half-built in the cache."""
    _remove_half_built(cache_folder().glob(f"{_PARTIAL}*"))  # beside libraries of ours
    _remove_half_built(cache_folder().glob(f"*/*/{_PARTIAL}*"))  # beside those of candidates


def _remove_half_built(partials: Iterable[Path]) -> None:
    for partial in partials:
        if not Path("/proc", partial.name.removeprefix(_PARTIAL).partition("-")[0]).exists() and _is_free(partial):
            shutil.rmtree(partial, ignore_errors=True)


def _is_free(partial: Path) -> bool:
    """Whether nobody builds in it, such as a process of another container that shares the cache."""
    try:
        descriptor = os.open(partial, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


@ComputedOnce
def hash_code(*parts: str | Path) -> str:
    """Hash of `parts` and of this package's code, which all decide what a library is; read once, not for each."""
    return hash_of(*parts, Path(__file__).parent)


def keep_library(kind: str, key: str, compile_into: Callable[[Path, Path], Path]) -> Path:
    """The library of a candidate, made now or at an earlier time; a refusal of its sources is kept as well.

    Args:
        kind: names the folder for libraries of this kind.
        key: hash of everything that decides what the library is.
        compile_into: takes an empty folder to work in, and the folder that is kept; returns the library's path.

    Raises:
        CompileError, Unsupported: `compile_into` raised it, now or then.
        Outage: no room for it, or a compiler was killed.
    """
    try:
        folder = build_once(cache_folder() / kind / key[:2] / key, lambda kept: _fill(kept, compile_into))
    except OSError as error:
        what = f"cannot keep a library ({error.strerror or error})"
        raise Outage(what, where="compiler", remedy=_MAKE_ROOM) from error
    if (folder / _REFUSAL).exists():
        refusal = json.loads((folder / _REFUSAL).read_text(encoding="utf-8"))
        raise _REFUSALS[refusal["kind"]](refusal["text"])
    return folder / _LIBRARY


def _fill(kept: Path, compile_into: Callable[[Path, Path], Path]) -> None:
    work = Path(tempfile.mkdtemp(prefix="musadata-compile-"))
    try:
        shutil.copyfile(compile_into(work, kept), kept / _LIBRARY)
        (kept / _LIBRARY).chmod(0o755)
    except tuple(_REFUSALS.values()) as error:
        refusal = {"kind": type(error).__name__, "text": str(error)}
        (kept / _REFUSAL).write_text(json.dumps(refusal), encoding="utf-8")
    finally:
        shutil.rmtree(work, ignore_errors=True)
