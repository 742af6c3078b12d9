"""Finding the host compiler, and building shared parts once for all processes of a machine.

What is built is kept by the hash of everything that went into it, so nothing is ever invalidated, only superseded.
"""

import errno
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from musadata.errors import MusadataError


@dataclass(frozen=True)
class Toolchain:
    """A host compiler and the PyTorch that its output will be loaded beside.

    Attributes:
        compiler: path of g++.
        version: its first line of --version.
        torch_root: PyTorch's package folder.
        torch_version: with the local part, as CUDA and CPU builds differ.
        python_abi: suffix of extension modules.
        linker_flags: choose a linker that takes a third of the usual one's time, where there is one.
    """

    compiler: str
    version: str
    torch_root: Path
    torch_version: str
    python_abi: str
    linker_flags: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """Everything that must be equal for one machine's output to serve another."""
        return "\n".join((self.version, self.torch_version, self.python_abi, *self.linker_flags))

    @property
    def include_flags(self) -> list[str]:
        """Flags for the real PyTorch and Python headers."""
        folders = [self.torch_root / "include", self.torch_root / "include/torch/csrc/api/include"]
        return [f"-isystem{folder}" for folder in [*folders, sysconfig.get_paths()["include"]]]

    @property
    def library_flags(self) -> list[str]:
        """Flags to link against PyTorch."""
        return [f"-L{self.torch_root / 'lib'}", "-lc10", "-ltorch_cpu"]


@cache
def find_toolchain() -> Toolchain:
    """The compiler named by CXX, or g++.

    Raises:
        MusadataError: there is none.
    """
    name = (os.environ.get("CXX", "").split() or ["g++"])[0]
    path = shutil.which(name)
    if path is None:
        raise MusadataError("no C++ compiler", where=name, remedy="install g++ 11 or later, or name one in CXX")
    torch_root = _torch_root()
    shown = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=60)
    version = (shown.stdout.splitlines() or ["unknown"])[0]
    return Toolchain(
        compiler=path,
        version=version,
        torch_root=torch_root,
        torch_version=_torch_version(torch_root),
        python_abi=str(sysconfig.get_config_var("EXT_SUFFIX")),
        linker_flags=_fast_linker(path),
    )


def _fast_linker(compiler: str) -> tuple[str, ...]:
    """The first that links an empty library: some do not find the compiler's own libraries."""
    with tempfile.TemporaryDirectory() as folder:
        trial = [compiler, "-shared", "-fPIC", "-x", "c++", os.devnull, "-o", f"{folder}/trial.so"]
        for name in ("mold", "lld", "gold"):
            flag = f"-fuse-ld={name}"
            if shutil.which(f"ld.{name}") and _succeeds([*trial, flag]):
                return (flag,)
    return ()


def takes_flag(compiler: str, flag: str) -> bool:
    """Whether a compiler knows a flag that not all versions have."""
    return _succeeds([compiler, flag, "-fsyntax-only", "-x", "c++", os.devnull])


def _succeeds(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0


def _torch_root() -> Path:
    """PyTorch's package folder, without importing it: the process that compiles has no other use for it."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise MusadataError("PyTorch is not installed", where="torch", remedy="pip install torch")
    return Path(spec.origin).parent


def _torch_version(root: Path) -> str:
    """`torch.__version__` with its local part ("+cu132"), which the installed metadata may lack."""
    found = re.search(r"^__version__ = '([^']+)'", (root / "version.py").read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else importlib.metadata.version("torch")


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


def build_once(folder: Path, build: Callable[[Path], None]) -> Path:
    """`folder`, filled by `build(temporary folder)` exactly once, however many processes ask at the same time.

    The folder appears whole or not at all: it is renamed into place under a lock.
    """
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(folder.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder
        partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=folder.parent))
        try:
            build(partial)
            partial.chmod(0o755)
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return folder


def run_tool(command: Sequence[str | Path], what: str) -> None:
    """Run a compiler on sources of ours.

    Raises:
        MusadataError: it fails, for want of space, or because this machine's tools and PyTorch do not go together.
    """
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode != 0:
        if os.strerror(errno.ENOSPC) in done.stderr:
            raise no_space()
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        raise MusadataError(
            f"cannot be built ({' '.join((errors or done.stderr.splitlines() or ['no message'])[:1])[:300]})",
            where=what,
            remedy="check that g++ is 11 or later and that PyTorch is 2.11 or later",
        )


def no_space() -> MusadataError:
    """What to tell whoever has filled the disk."""
    remedy = "free some, or set MUSADATA_CACHE and TMPDIR to folders with more"
    return MusadataError("no space left", where="compiler", remedy=remedy)


def compile_objects(toolchain: Toolchain, sources: Sequence[Path], flags: Sequence[str], folder: Path) -> list[Path]:
    """Object files of `sources`, two compilers at a time."""

    def compile_one(source: Path) -> Path:
        target = folder / f"{source.parent.name}-{source.stem}.o"
        run_tool([toolchain.compiler, *flags, "-c", source, "-o", target], source.name)
        return target

    with ThreadPoolExecutor(max_workers=2) as pool:
        return list(pool.map(compile_one, sources))
