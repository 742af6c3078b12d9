"""Compiling candidates with nvcc: through the small headers first, through PyTorch's own where those do not do."""

import subprocess
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from musadata.errors import MusadataError
from musadata.verifier.backends.cuda import reduced_prelude
from musadata.verifier.backends.cuda.nvcc_errors import may_clash, may_need_full_headers
from musadata.verifier.backends.cuda.phases import HEADERS, SOURCE, Prelude, share_phases
from musadata.verifier.backends.cuda.reduced_prelude import APART
from musadata.verifier.backends.native.watched_calls import COUNTED_CALLS, NATIVE_FOLDER, Wrappers
from musadata.verifier.backends.torch_abi.bridge import build_support, include_folder, support_folders
from musadata.verifier.compilation.build_cache import cache_folder, hash_code, hash_of, keep_library
from musadata.verifier.compilation.compile_errors import CompileError
from musadata.verifier.compilation.contained_run import CompileLimits, run_compiler
from musadata.verifier.compilation.diagnostics import NO_MESSAGE, list_errors
from musadata.verifier.compilation.host_toolchain import Toolchain, find_program, find_toolchain
from musadata.verifier.compilation.includes import refuse_missing_includes
from musadata.verifier.compilation.sources import CandidateSources
from musadata.verifier.compilation.units import (
    STANDARD_HEADERS,
    asks_for_compiler,
    bind_functions,
    definitions,
    place,
    translation_units,
    write_headers,
)
from musadata.verifier.rules.native.linked_names import RULES, check_objects

_HERE = Path(__file__).parent
_WRAPPERS = Wrappers(
    "cuda-wrappers",
    _HERE / "launches.cpp",
    ("__cudaLaunchKernel", "cudaLaunchKernel", "cudaLaunchCooperativeKernel", "cudaLaunchKernelExC"),
)
_FULL_LIBRARIES = ("-ltorch", "-ltorch_python", "-ltorch_cuda", "-lc10_cuda")
_STANDARD = "-std=c++20"  # of our headers, whatever PyTorch's is
_PRELUDE = "#include <torch/extension.h>\n"
# Thrust and CUB tell a profiler what they do; for that NVTX calls dlopen, which no candidate may.
_FLAGS = ("--expt-extended-lambda", "-DNVTX_DISABLE")
# Candidates that nvcc compiles with PyTorch's own headers as they are: what the others share takes as long as four.
_WORTH_SHARING = 4


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
    packages = sorted(Path(sysconfig.get_paths()["purelib"]).glob("nvidia/cu*/bin/nvcc"), reverse=True)
    path = find_program("nvcc", ("CUDA_HOME", "CUDA_PATH"), [Path("/usr/local/cuda/bin/nvcc"), *packages])
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
    code = hash_code(*support_folders(), _HERE, NATIVE_FOLDER, RULES)
    key = hash_of(sources.digest(), toolchain.identity, nvcc.version, nvcc.architecture, code)
    return keep_library("artifacts-cuda", key, lambda work, _: _compile(sources, nvcc, toolchain, work, limits))


def _compile(sources: CandidateSources, nvcc: Nvcc, toolchain: Toolchain, work: Path, limits: CompileLimits) -> Path:
    refuse_missing_includes(sources)
    write_headers(sources.headers, work)
    errors = said = ""
    start, apart = definitions(sources), _units(sources)
    attempts = (
        [apart] if any(unit.for_host for unit in apart) else [[_Unit("".join(unit.text for unit in apart))], apart]
    )
    for way in _ways(sources, nvcc, toolchain):
        if way.full and not may_need_full_headers(said, sources.texts()):
            break
        for units in attempts:
            said = _build(units, start, way, nvcc, toolchain, work, limits)
            if not said:
                return work / "candidate.so"
            if len(apart) == 1 or not may_clash(said):
                break
        errors = list_errors(said) or errors
    raise CompileError(errors or NO_MESSAGE)


def _build(
    units: Sequence["_Unit"],
    start: str,
    way: "_Way",
    nvcc: Nvcc,
    toolchain: Toolchain,
    work: Path,
    limits: CompileLimits,
) -> str:
    """Compile and link the units, each after the prelude and `start`; what failed, or ""."""
    objects = []
    for index, unit in enumerate(units):
        prelude, command = (
            (_PRELUDE + STANDARD_HEADERS, way.compiling_host) if unit.for_host else (way.prelude, way.compiling)
        )
        (work / SOURCE).write_text(prelude + start + unit.text, encoding="utf-8", errors="replace")
        said = run_compiler(command, work, limits).failure
        if said:
            return said
        objects.append((work / "candidate.o").rename(work / f"candidate{index}.o"))
    objects = check_objects(objects, toolchain.compiler, COUNTED_CALLS)
    return run_compiler(_link_command(nvcc, toolchain, objects, way.linking), work, limits).failure


@dataclass(frozen=True)
class _Unit:
    """A unit's text, and whether the host's compiler compiles it, as PyTorch has it do with C++ sources.

    Where that makes no difference nvcc does, which has the headers ready and can compile all sources as one unit.
    """

    text: str
    for_host: bool = False


def _units(sources: CandidateSources) -> list[_Unit]:
    """The units that PyTorch would make of the sources, every line named as the candidate's own."""
    cpp, cuda = (
        ["".join(place(name, text) for name, text in unit.items()) for unit in translation_units(sources, kind)]
        for kind in ("cpp", "cuda")
    )
    bindings = bind_functions(sources.functions)
    if bindings:
        cpp = [*cpp[:-1], "".join([*cpp[-1:], bindings])]
    for_host = asks_for_compiler(sources)
    return [*(_Unit(text, for_host) for text in cpp if text), *(_Unit(text) for text in cuda if text)]


@dataclass(frozen=True)
class _Way:
    """What to begin the unit with, how to compile it by nvcc and by the host's compiler, what to link it with.

    `full`: with PyTorch's own headers.
    """

    prelude: str
    compiling: Sequence[str]
    compiling_host: Sequence[str]
    linking: Sequence[str]
    full: bool = False


def _ways(sources: CandidateSources, nvcc: Nvcc, toolchain: Toolchain) -> Iterator[_Way]:
    """Ways to compile a candidate, each for what the one before cannot: the small headers, then PyTorch's own.

    The small headers' support object defines functions that PyTorch's libraries have too (the current stream, the
    pool of streams), with other types behind the same names, so it goes with the small headers only.
    """
    defines = sources.default_defines()
    support = [str(build_support(tuple(nvcc.include_flags), nvcc.version))]
    whole = Prelude(_PRELUDE, include_folder())
    preludes = [(reduced_prelude.build_prelude(), reduced_prelude.FLAGS)] if reduced_prelude.suffices(sources) else []
    host = _host_command(nvcc, toolchain, [_STANDARD, f"-I{include_folder()}", f"-I{APART}"])
    for prelude, flags in (*preludes, (whole, _FLAGS)):
        command = _compile_command(nvcc, toolchain, [_STANDARD, *flags, *defines, f"-I{HEADERS}", f"-I{APART}"])
        script = share_phases(toolchain, nvcc.version, tuple(command), prelude)
        if script is not None:
            yield _Way("", ["/bin/sh", str(script)], host, support)
        elif prelude is whole:
            command = [word.replace(HEADERS, str(prelude.headers)) for word in command]
            yield _Way(prelude.text, command, host, support)
    yield _full_way(nvcc, toolchain, defines)


def _full_way(nvcc: Nvcc, toolchain: Toolchain, defines: Sequence[str]) -> _Way:
    """PyTorch's own headers in its own C++ standard, which take nvcc a minute; where many come, it goes through their
    part once."""
    includes = [flag.replace("-isystem", "-I") for flag in toolchain.include_flags]
    flags = [*_FLAGS, *defines, "-DTORCH_API_INCLUDE_EXTENSION_H", f"-std={toolchain.standard}"]
    libraries = [*toolchain.library_flags, *_FULL_LIBRARIES]
    host = _host_command(nvcc, toolchain, ["-DTORCH_API_INCLUDE_EXTENSION_H", f"-std={toolchain.standard}", *includes])
    prelude = Prelude(_PRELUDE, Path(includes[0].removeprefix("-I")), whole=False)
    sharing = tuple(_compile_command(nvcc, toolchain, [*flags, f"-I{HEADERS}", *includes]))
    if _count_asked(hash_of(toolchain.identity, nvcc.version, *sharing)) > _WORTH_SHARING:
        script = share_phases(toolchain, nvcc.version, sharing, prelude)
        if script is not None:
            return _Way("", ["/bin/sh", str(script)], host, libraries, full=True)
    return _Way(_PRELUDE, _compile_command(nvcc, toolchain, [*flags, *includes]), host, libraries, full=True)


def _count_asked(key: str) -> int:
    """How often this has been asked on this machine, now included. Processes add a byte each to the same file."""
    with (cache_folder() / f"full-headers-{key}.asked").open("ab") as file:
        file.write(b".")
        return file.tell()


def _compile_command(nvcc: Nvcc, toolchain: Toolchain, flags: Sequence[str]) -> list[str]:
    architecture = nvcc.architecture
    return [
        nvcc.path,
        f"-gencode=arch=compute_{architecture},code=sm_{architecture}",
        "-O1",  # of host code; device code is optimised in full whatever stands here
        *("--expt-relaxed-constexpr", "-ccbin", toolchain.compiler, "-w", "-I."),
        *("-Xcompiler", "-fPIC,-ffunction-sections"),  # the latter for `check_objects`
        *flags,
        *("-c", SOURCE, "-o", "candidate.o"),
    ]


def _host_command(nvcc: Nvcc, toolchain: Toolchain, flags: Sequence[str]) -> list[str]:
    language = ["-x", "c++", "-O1", "-fPIC", "-ffunction-sections", "-w", "-I."]
    return [toolchain.compiler, *language, *flags, *nvcc.include_flags, "-c", SOURCE, "-o", "candidate.o"]


def _link_command(nvcc: Nvcc, toolchain: Toolchain, objects: Sequence[Path], flags: Sequence[str]) -> list[str]:
    """By the host's linker: nvcc would first link device code, of which there is none left to link."""
    wrappers = _WRAPPERS.link_flags(toolchain, nvcc.version, nvcc.include_flags)
    libraries = [*flags, str(nvcc.runtime_library)]
    names = [path.name for path in objects]
    return [toolchain.compiler, "-shared", *names, *wrappers, *libraries, "-o", "candidate.so"]
