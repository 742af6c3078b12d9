"""The emulator's own libraries and precompiled headers: built once, shared by every candidate and process."""

from dataclasses import dataclass
from pathlib import Path

from musadata.computed_once import ComputedOnce
from musadata.verifier.backends.torch_abi.bridge import build_bridge, build_support, include_folder
from musadata.verifier.compilation.build_cache import build_once, cache_folder, hash_of
from musadata.verifier.compilation.header_folder import build_header_folder
from musadata.verifier.compilation.host_toolchain import (
    Toolchain,
    compile_objects,
    find_toolchain,
    run_tool,
    takes_flag,
)
from musadata.verifier.compilation.precompile import PLUGIN, precompile

_HERE = Path(__file__).parent
_CSRC = _HERE / "csrc"
_INCLUDE = _HERE / "include"

# No contraction and no undefined overflow or aliasing: a candidate's result must not depend on this optimiser.
CANDIDATE_FLAGS = (
    *("-O1", "-std=gnu++20", "-fPIC", "-w", "-fno-strict-aliasing", "-fwrapv", "-ffp-contract=off"),
    *("-fvisibility=hidden", "-fno-gnu-unique", "-ffunction-sections"),  # the last for `check_objects`
    "-fstack-protector-strong",  # a local array that is overrun; see emulator/launch.h
    "-fsanitize=alignment",  # see csrc/runtime/alignment.cpp
)
# An uninitialised variable holds a pattern that spoils every result, if the compiler is g++ 12 or later.
_FILL_LOCALS = "-ftrivial-auto-var-init=pattern"
# Every access calls the checker first, which mostly returns at once. This costs 5 % of the compilation. With PyTorch's
# own headers it takes four times as long, so there it is done for `sanitize` only.
INSTRUMENT_FLAGS = (
    "-fsanitize=thread",
    "--param=tsan-instrument-func-entry-exit=0",
    "--param=tsan-distinguish-volatile=0",
)

_SMALL_PRELUDE = "torch/extension.h", "cuda_runtime.h", "cuda_fp16.h", "cuda_bf16.h", "emulator/ptx.h"
_FULL_PRELUDE = (*_SMALL_PRELUDE, "emulator/full_torch.h")
_SMALL_ROOM, _FULL_ROOM = 128 << 20, 1152 << 20  # bytes for them: precompiled they take 76 MB and 1,046 MB


# Without this, pybind11 counts references in a variable of the candidate's library, which then changes in every call.
_WITHOUT_COUNTERS = "#define NDEBUG 1\n{}#undef NDEBUG\n#include <assert.h>\n"


@dataclass(frozen=True)
class Libraries:
    """Paths of the shared libraries, in the order in which they are loaded."""

    runtime: Path
    device: Path
    checker: Path
    counter: Path
    bridge: Path
    support: Path


@dataclass(frozen=True)
class Headers:
    """Flags and first include of a candidate's compilation. `include`: further folders, which the flags name too."""

    flags: tuple[str, ...]
    prelude: str
    full: bool = False
    include: tuple[Path, ...] = ()


def cuda_headers() -> Path:
    """The folder with `cuda_runtime.h` and its relatives, built if this machine does not have it yet."""
    return build_header_folder("emulator_headers", _INCLUDE)


@ComputedOnce
def build_libraries() -> Libraries:
    """The emulator's libraries, built if this machine does not have them yet.

    Raises:
        MusadataError: no compiler, or it cannot build them.
    """
    toolchain = find_toolchain()
    key = hash_of(toolchain.identity, _CSRC, _INCLUDE / "emulator" / "runtime.h")
    folder = build_once(cache_folder() / f"emulation-{key}", lambda partial: _build(toolchain, partial))
    return Libraries(
        runtime=folder / "libmusadata_runtime.so",
        device=folder / "libmusadata_device.so",
        checker=folder / "libmusadata_checker.so",
        counter=folder / "libmusadata_counter.so",
        bridge=build_bridge(toolchain),
        support=build_support((f"-I{cuda_headers()}",), cuda_headers(), toolchain),
    )


def _build(toolchain: Toolchain, folder: Path) -> None:
    # The slowest first, so that two compilers at a time end together.
    heavy = _sources("device")
    light = _sources("runtime") + _sources("checker") + _sources("counter")
    flags = ["-std=c++20", "-fPIC", "-w", f"-I{cuda_headers()}"]
    objects = compile_objects(toolchain, heavy, ["-O1", *flags, *toolchain.include_flags], folder)
    objects += compile_objects(toolchain, light, ["-O2", *flags], folder)
    for part in ("runtime", "device", "checker", "counter"):
        target = folder / f"libmusadata_{part}.so"
        own = [file for file in objects if file.name.startswith(f"{part}-")]
        needed = toolchain.library_flags if part == "device" else []
        after_runtime = [] if part == "runtime" else [f"-L{folder}", "-lmusadata_runtime"]
        soname = f"-Wl,-soname,{target.name}"
        run_tool([toolchain.compiler, "-shared", *own, "-o", target, soname, *after_runtime, *needed], target.name)
    for file in objects:
        file.unlink()


def _sources(part: str) -> list[Path]:
    return sorted((_CSRC / part).glob("*.cpp"), key=lambda path: -path.stat().st_size)


@ComputedOnce
def build_headers(
    defines: tuple[str, ...],
    lines: bool = False,
    full: bool = False,
    include: tuple[Path, ...] = (),
) -> Headers:
    """Flags for a candidate and the precompiled header that it begins with.

    Raises:
        MusadataError: no compiler, or it cannot build the header.
    """
    toolchain = find_toolchain()
    instrument = INSTRUMENT_FLAGS if lines or not full else ()
    fill = (_FILL_LOCALS,) if takes_flag(toolchain.compiler, _FILL_LOCALS) else ()
    flags = (*CANDIDATE_FLAGS, *fill, *instrument, *(("-g1",) if lines else ()), *defines)
    cuda, torch = cuda_headers(), include_folder()
    search = (f"-I{cuda}", *([f"-I{cuda}/full", *toolchain.include_flags] if full else [f"-I{torch}"]))
    prelude = "".join(f"#include <{header}>\n" for header in (_FULL_PRELUDE if full else _SMALL_PRELUDE))
    prelude = _WITHOUT_COUNTERS.format(prelude) if full else prelude
    key = hash_of(toolchain.identity, *flags, *search, prelude, cuda, torch, PLUGIN)
    folder = build_once(
        cache_folder() / f"prelude-{key}",
        lambda partial: precompile(toolchain, prelude, [*flags, *search], partial),
        _FULL_ROOM if full else _SMALL_ROOM,
    )
    own = tuple(f"-I{path}" for path in include)
    return Headers((*flags, *search, *own), str(folder / "prelude.h"), full, include)
