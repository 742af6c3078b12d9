"""Execution spaces: which of a candidate's functions and variables exist on the device, and which on the host.

g++, which replaces nvcc here, ignores `__device__`: a kernel that calls a function of the host compiles. So sources
that may do that are also read by Clang's front end, as CUDA and without a CUDA toolkit. Only its errors about execution
spaces count; g++ decides about everything else.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from musadata.errors import MusadataError
from musadata.verifier.backends.emulated.execution_spaces.name_check import DEVICE_LIBRARY, HOST_LIBRARY, may_mix_spaces
from musadata.verifier.compilation.contained_run import CompileLimits, run_contained
from musadata.verifier.compilation.diagnostics import Diagnostic
from musadata.verifier.compilation.host_toolchain import find_toolchain
from musadata.verifier.compilation.sources import CandidateSources
from musadata.verifier.compilation.units import definitions, is_header_name, translation_units

__all__ = ["find_misplaced", "may_mix_spaces"]

_FRONT_END = Path(__file__).with_name("front_end.py")
_PRELUDE = Path(__file__).with_name("prelude.h")
_UNIT = "unit.cu"
_FLAGS = (
    "-xcuda", "--cuda-device-only", "--cuda-gpu-arch=sm_80", "-nocudainc", "-nocudalib", "-std=c++20",
    "-ferror-limit=0", "-Wno-everything", "-nostdinc", "-nostdinc++", "-Xclang", "-fcuda-allow-variadic-functions",
)  # fmt: skip


def find_misplaced(
    sources: CandidateSources, include: Sequence[Path], work: Path, limits: CompileLimits
) -> tuple[Diagnostic, ...]:
    """What stands in the wrong execution space. Runs Clang's front end in a folder in `work`, on hostile text.

    `include` are the folders of CUDA's and PyTorch's headers.
    """
    if not may_mix_spaces([*sources.cuda, *(text for _, text in sources.headers)]):
        return ()
    units = translation_units(sources, "cuda")
    search = [*(f"-I{folder}" for folder in include), *_library_flags()]
    found = [one for unit in units for one in _read_unit(sources, unit, search, work, limits)]
    return tuple(dict.fromkeys(found))


def _read_unit(
    sources: CandidateSources, texts: dict[str, str], search: Sequence[str], work: Path, limits: CompileLimits
) -> list[Diagnostic]:
    folder = Path(tempfile.mkdtemp(prefix="spaces-", dir=work))
    beside = {name: text for name, text in sources.headers if is_header_name(name)}
    start = definitions(sources) + "".join(f'#include "{name}"\n' for name in texts)
    for name, text in {**beside, **texts, _UNIT: start}.items():
        (folder / name).write_text(text, encoding="utf-8", errors="replace")
    flags = [*_FLAGS, *sources.default_defines(), *search, f"-include{_PRELUDE}"]
    libraries = {"host_library": sorted(HOST_LIBRARY), "device_library": sorted(DEVICE_LIBRARY)}
    job = {"file": _UNIT, "flags": flags, "texts": {**beside, **texts}, **libraries}
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    done = run_contained([sys.executable, "-I", "-c", _program()], folder, limits)
    if "ModuleNotFoundError" in done.stderr or "LibclangError" in done.stderr:
        raise MusadataError("does not run", where="Clang's front end", remedy="pip install libclang")
    try:
        found = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # the front end gave up, which says nothing of the candidate
        return []
    return [Diagnostic(file, line, message) for file, line, message in found]


@cache
def _program() -> str:
    """The front end with libclang from wherever this process has it: its own process knows no PYTHONPATH."""
    found = importlib.util.find_spec("clang")
    folders = [] if found is None else [str(Path(place).parent) for place in found.submodule_search_locations or ()]
    return f"import runpy, sys; sys.path += {folders!r}; runpy.run_path({str(_FRONT_END)!r}, run_name='__main__')"


@cache
def _library_flags() -> tuple[str, ...]:
    """Where g++ has its library's headers: Clang's own come with a toolkit that is not needed here."""
    command = [find_toolchain().compiler, "-xc++", "-E", "-v", os.devnull]
    said = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    listed = said.stderr.partition("#include <...> search starts here:")[2].partition("End of search list")[0]
    return tuple(f"-isystem{folder.strip()}" for folder in listed.splitlines() if folder.strip())
