"""Finding the host compiler, and running it on sources of our own."""

import errno
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from musadata.errors import MACHINE_ERRORS, MusadataError, Outage
from musadata.verifier.compilation.contained_run import CompileLimits, run_contained

_LIMITS = CompileLimits(seconds=1200, memory_mb=32768, output_mb=4096)  # of tools on sources of ours


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
    def standard(self) -> str:
        """The C++ standard in which PyTorch compiles extensions: "c++17" up to some version, then "c++20"."""
        text = (self.torch_root / "utils/cpp_extension.py").read_text(encoding="utf-8")
        found = re.search(r"-std=(c\+\+\d+)", text)
        return found[1] if found else "c++20"

    @property
    def include_flags(self) -> list[str]:
        """Flags for the real PyTorch and Python headers."""
        folders = [self.torch_root / "include", self.torch_root / "include/torch/csrc/api/include"]
        return [f"-isystem{folder}" for folder in [*folders, sysconfig.get_paths()["include"]]]

    @property
    def library_flags(self) -> list[str]:
        """Flags to link against PyTorch.

        Some machines have only the static libstdc++. What is linked from an archive is not exported: cuDNN, which
        PyTorch loads later, would call these functions of another version, and crash.
        """
        return [f"-L{self.torch_root / 'lib'}", "-lc10", "-ltorch_cpu", "-Wl,--exclude-libs,ALL"]


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


def find_program(name: str, homes: Sequence[str], others: Sequence[Path]) -> Path | None:
    """A program from the folders that the variables `homes` name, from PATH, or one of `others`."""
    places = [Path(os.environ[home]) / "bin" / name for home in homes if os.environ.get(home)]
    on_path = shutil.which(name)
    places += [Path(on_path)] if on_path else []
    return next((place for place in (*places, *others) if place.is_file()), None)


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


def run_tool(command: Sequence[str | Path], what: str) -> None:
    """Run a compiler on sources of ours.

    Raises:
        Outage: the disk is full, or it was killed from outside three times.
        MusadataError: it fails otherwise: this machine's tools and PyTorch do not go together.
    """
    remedy = "free some, or set MUSADATA_CACHE and TMPDIR to folders with more"
    try:
        with tempfile.TemporaryDirectory(prefix="musadata-tool-") as folder:
            done = run_contained([str(part) for part in command], Path(folder), _LIMITS, ours=True)
    except OSError as error:
        if error.errno not in MACHINE_ERRORS:
            raise
        raise Outage(f"cannot be run ({error.strerror})", where="compiler", remedy=remedy) from error
    if done.code != 0:
        if os.strerror(errno.ENOSPC) in done.stderr:
            raise Outage("no space left", where="compiler", remedy=remedy)
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        raise MusadataError(
            f"cannot be built ({' '.join((errors or done.stderr.splitlines() or ['no message'])[:1])[:300]})",
            where=what,
            remedy="check that g++ is 11 or later and that PyTorch is 2.11 or later",
        )


def compile_objects(toolchain: Toolchain, sources: Sequence[Path], flags: Sequence[str], folder: Path) -> list[Path]:
    """Object files of `sources`, two compilers at a time."""

    def compile_one(source: Path) -> Path:
        target = folder / f"{source.parent.name}-{source.stem}.o"
        run_tool([toolchain.compiler, *flags, "-c", source, "-o", target], source.name)
        return target

    with ThreadPoolExecutor(max_workers=2) as pool:
        return list(pool.map(compile_one, sources))
