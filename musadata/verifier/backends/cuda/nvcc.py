"""Compiling candidates with nvcc: through the small headers first, through PyTorch's own where those do not do."""

import json
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from musadata.errors import MusadataError
from musadata.verifier.backends.cuda import lean
from musadata.verifier.backends.cuda.copies import COPIES, WATCHED_COPIES
from musadata.verifier.backends.cuda.nvcc_gaps import may_need_full_headers
from musadata.verifier.backends.cuda.phases import HEADERS, SOURCE, Prelude, share_phases
from musadata.verifier.backends.emulated.emulated_toolchain import DEFAULT_DEFINES
from musadata.verifier.backends.torch_abi.bridge import build_support, include_folder, support_folders
from musadata.verifier.backends.torch_abi.host_toolchain import (
    Toolchain,
    build_once,
    cache_folder,
    find_toolchain,
    hash_of,
    run_tool,
)
from musadata.verifier.compilation import includes
from musadata.verifier.compilation.compile_errors import CompileError
from musadata.verifier.compilation.contained_run import CompileLimits, run_contained
from musadata.verifier.compilation.includes import refuse_missing_includes
from musadata.verifier.compilation.sources import CandidateSources
from musadata.verifier.compilation.units import definitions, translation_units
from musadata.verifier.rules.native.linked_names import RULES, refuse_hidden_calls

_HERE = Path(__file__).parent
_LAUNCHES = ("__cudaLaunchKernel", "cudaLaunchKernel", "cudaLaunchCooperativeKernel", "cudaLaunchKernelExC")
_WATCHED = (_HERE / "launches.cpp", WATCHED_COPIES)
_RECORDS = _HERE / "launch_records.h"
_ERROR = re.compile(r"^(?P<file>[\w.]+)[(:](?P<line>\d+)\)?:(?:\d+:)? *(?P<text>(?:fatal )?error.*)$", re.MULTILINE)
_FULL_LIBRARIES = ("-ltorch", "-ltorch_python", "-ltorch_cuda", "-lc10_cuda")
_MOST_ERRORS = 8
_PRELUDE = Prelude("#include <torch/extension.h>\n", include_folder())
_FLAGS = ("--expt-extended-lambda",)


@dataclass(frozen=True)
class Nvcc:
    """CUDA's compiler and what it comes with. `architecture` is that of the device, "90"."""

    path: str
    version: str
    architecture: str
    root: Path

    @property
    def include_flags(self) -> list[str]:
        return [f"-I{self.root / 'include'}"]

    @property
    def runtime_library(self) -> Path:
        """libcudart, which packages from PyPI hold under its versioned name only.

        Raises:
            MusadataError: it is not there.
        """
        places = [self.root / name for name in ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")]
        found = [library for place in places for library in sorted(place.glob("libcudart.so*"))]
        if not found:
            remedy = "install the whole CUDA toolkit, or `pip install musadata[cuda]`"
            raise MusadataError("has no libcudart.so beside it", where=self.path, remedy=remedy)
        return found[0]


@cache
def find_nvcc(architecture: str) -> Nvcc:
    """nvcc from CUDA_HOME, PATH, /usr/local/cuda, or the packages of the extra `cuda`.

    Raises:
        MusadataError: there is none.
    """
    homes = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", "")]
    packages = sorted(Path(sysconfig.get_paths()["purelib"]).glob("nvidia/cu*"), reverse=True)
    places = [Path(home) / "bin" / "nvcc" for home in homes if home]
    places += [Path(found) for found in [shutil.which("nvcc")] if found]
    places += [Path("/usr/local/cuda/bin/nvcc"), *(package / "bin" / "nvcc" for package in packages)]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise MusadataError(
            "no nvcc", where="cuda backend", remedy="install a CUDA toolkit, or `pip install musadata[cuda]`"
        )
    shown = subprocess.run([str(path), "--version"], capture_output=True, text=True, check=False).stdout
    version = next((line.strip() for line in shown.splitlines() if "release" in line), "nvcc")
    return Nvcc(str(path), version, architecture, path.resolve().parents[1])


def compile_candidate(sources: CandidateSources, nvcc: Nvcc, limits: CompileLimits) -> Path:
    """The library of a candidate, made now or taken from the cache.

    Raises:
        CompileError: the sources are wrong.
        MusadataError: the toolchain is.
    """
    toolchain = find_toolchain()
    key = hash_of(
        sources.digest(),
        toolchain.identity,
        nvcc.version,
        nvcc.architecture,
        _own_sources(),
        *DEFAULT_DEFINES,
        *_FULL_LIBRARIES,
        "host code at -O1, linked by the host's linker, with the candidate's own definitions",
    )
    folder = cache_folder() / "artifacts-cuda" / key[:2] / key

    def build(partial: Path) -> None:
        try:
            library = _compile(sources, nvcc, toolchain, partial, limits)
            library.chmod(0o755)
        except CompileError as error:
            (partial / "refused.json").write_text(json.dumps(str(error)), encoding="utf-8")

    folder.parent.mkdir(parents=True, exist_ok=True)
    build_once(folder, build)
    refusal = folder / "refused.json"
    if refusal.exists():
        raise CompileError(json.loads(refusal.read_text(encoding="utf-8")))
    return folder / "candidate.so"


_DECIDING = (*sorted(Path(__file__).parent.glob("*.py")), Path(includes.__file__))


@cache
def _own_sources() -> str:
    """Of all that is compiled and linked with a candidate, and of what decides how; read once, not for each."""
    return hash_of(*support_folders(), *_WATCHED, _RECORDS, *_DECIDING, RULES)


def _compile(sources: CandidateSources, nvcc: Nvcc, toolchain: Toolchain, folder: Path, limits: CompileLimits) -> Path:
    refuse_missing_includes(sources)
    work = Path(tempfile.mkdtemp(prefix="musadata-nvcc-"))
    try:
        for name, text in sources.headers:
            if re.fullmatch(r"[\w.+-]+", name):
                (work / name).write_text(text, encoding="utf-8", errors="replace")
        errors = said = ""
        for way in _ways(sources, nvcc, toolchain):
            if way.full and not may_need_full_headers(said, sources.texts()):
                break
            (work / SOURCE).write_text(way.prelude + _unit(sources), encoding="utf-8", errors="replace")
            said = _run(way.compiling, work, limits)
            if not said:
                refuse_hidden_calls([work / "candidate.o"], toolchain.compiler)
                said = _run(_link_command(nvcc, toolchain, way.linking), work, limits)
            if not said:
                return Path(shutil.copyfile(work / "candidate.so", folder / "candidate.so"))
            errors = _errors(said) or errors
        raise CompileError(errors or "the compiler fails without a message about the sources")
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run(command: Sequence[str], work: Path, limits: CompileLimits) -> str:
    """What the command says if it fails."""
    done = run_contained(command, work, limits)
    if done.limit:
        raise CompileError(f"error: the compilation takes more {done.limit} than it may")
    return "" if done.code == 0 else done.stderr or f"exit code {done.code}"


def _unit(sources: CandidateSources) -> str:
    """What follows the prelude, as one translation unit, every line named as the candidate's own."""
    parts = [definitions(sources)]
    for unit in (*translation_units(sources, "cpp"), *translation_units(sources, "cuda")):
        parts += [f'\n#line 1 "{name}"\n{text}\n' for name, text in unit.items()]
    if sources.functions is not None:
        bindings = "".join(
            f"m.def({json.dumps(name)}, torch::wrap_pybind_function({name}), {json.dumps(text)});\n"
            for name, text in sources.functions
        )
        parts.append(f'\n#line 1 "bindings"\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{\n{bindings}}}\n')
    return "".join(parts)


@dataclass(frozen=True)
class _Way:
    """What to begin the unit with, how to compile it, what to link it with; `full`: with PyTorch's own headers."""

    prelude: str
    compiling: Sequence[str]
    linking: Sequence[str]
    full: bool = False


def _ways(sources: CandidateSources, nvcc: Nvcc, toolchain: Toolchain) -> Iterator[_Way]:
    """Ways to compile a candidate, each for what the one before cannot: the small headers, then PyTorch's own.

    The small headers' support object defines functions that PyTorch's libraries have too (the current stream, the
    pool of streams), with other types behind the same names, so it goes with the small headers only.
    """
    defines = sources.kept(DEFAULT_DEFINES)
    support = [str(build_support(nvcc.include_flags, nvcc.version))]
    preludes = [(lean.PRELUDE, lean.FLAGS)] if lean.is_lean(sources) else []
    for prelude, flags in (*preludes, (_PRELUDE, _FLAGS)):
        command = _compile_command(nvcc, toolchain, [*flags, *defines, f"-I{HEADERS}"])
        script = share_phases(toolchain, nvcc.version, tuple(command), prelude)
        if script is not None:
            yield _Way("", ["/bin/sh", str(script)], support)
        elif prelude is _PRELUDE:
            yield _Way(prelude.text, [word.replace(HEADERS, str(prelude.headers)) for word in command], support)
    includes = [flag.replace("-isystem", "-I") for flag in toolchain.include_flags]
    full = [*_FLAGS, *defines, "-DTORCH_API_INCLUDE_EXTENSION_H", *includes]
    libraries = [*toolchain.library_flags, *_FULL_LIBRARIES]
    yield _Way(_PRELUDE.text, _compile_command(nvcc, toolchain, full), libraries, full=True)


def _compile_command(nvcc: Nvcc, toolchain: Toolchain, flags: Sequence[str]) -> list[str]:
    architecture = nvcc.architecture
    return [
        nvcc.path,
        f"-gencode=arch=compute_{architecture},code=sm_{architecture}",
        "-O1",  # of host code; device code is optimised in full whatever stands here
        "-std=c++20",
        "--expt-relaxed-constexpr",
        "-ccbin",
        toolchain.compiler,
        "-Xcompiler",
        "-fPIC",
        "-w",
        "-I.",
        *flags,
        "-c",
        SOURCE,
        "-o",
        "candidate.o",
    ]


def _link_command(nvcc: Nvcc, toolchain: Toolchain, flags: Sequence[str]) -> list[str]:
    """By the host's linker: nvcc would first link device code, of which there is none left to link."""
    wraps = [f"-Wl,--wrap={name}" for name in (*_LAUNCHES, *COPIES)]
    objects = ["candidate.o", *map(str, _watching_objects(nvcc, toolchain))]
    libraries = [*flags, str(nvcc.runtime_library)]
    return [toolchain.compiler, "-shared", *wraps, *objects, *libraries, "-o", "candidate.so"]


def _watching_objects(nvcc: Nvcc, toolchain: Toolchain) -> list[Path]:
    def build(partial: Path) -> None:
        flags = ["-O1", "-std=c++20", "-fPIC", "-w", "-fvisibility=hidden", *nvcc.include_flags]
        for source in _WATCHED:
            run_tool([toolchain.compiler, *flags, "-c", source, "-o", partial / f"{source.stem}.o"], source.name)

    folder = build_once(
        cache_folder() / f"cuda-watching-{hash_of(toolchain.identity, nvcc.version, *_WATCHED, _RECORDS)}", build
    )
    return [folder / f"{source.stem}.o" for source in _WATCHED]


def _errors(stderr: str) -> str:
    """The first errors, in the candidate's own lines; no paths of this machine."""
    found = [f"{m['file']}:{m['line']}: {m['text']}" for m in _ERROR.finditer(stderr)]
    return "\n".join(dict.fromkeys(found[:_MOST_ERRORS]))
