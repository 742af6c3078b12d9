"""torch_musa and MUSA's compiler: finding them, and compiling ported candidates as torch_musa's `load_inline` does.

`load_inline` itself would open the compiled library in this process, which is the trusted one.
"""

import importlib.util
import json
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from musadata.errors import MusadataError
from musadata.verifier.backends.musa.port import port_source
from musadata.verifier.backends.native.watched_calls import COUNTED_CALLS, NATIVE_FOLDER, Wrappers
from musadata.verifier.compilation.build_cache import hash_code, hash_of, keep_library
from musadata.verifier.compilation.compile_errors import CompileError
from musadata.verifier.compilation.contained_run import CompileLimits, run_compiler
from musadata.verifier.compilation.diagnostics import NO_MESSAGE, list_errors
from musadata.verifier.compilation.host_toolchain import Toolchain, find_program, find_toolchain
from musadata.verifier.compilation.sources import CandidateSources
from musadata.verifier.compilation.units import bind_functions, place, translation_units, write_headers
from musadata.verifier.rules.native.linked_names import RULES, refuse_hidden_calls

_HERE = Path(__file__).parent
_WHERE = "musa backend"
_WRAPPERS = Wrappers(
    "musa-wrappers", _HERE / "launches.cpp", ("musaLaunchKernel", "musaLaunchCooperativeKernel"), port_source
)
# What torch_musa puts before the sources that it is given (`torch_musa/utils/musa_extension.py`, load_inline).
_CPP_START = "#include <torch/extension.h>\n"
_MUSA_START = "#include <torch/types.h>\n#include <musa.h>\n#include <musa_runtime.h>\n"

# Run in a process of its own: this one imports no torch. The flags are torch_musa's own, private names included.
_QUESTION = """
import json, torch, torch_musa
from torch_musa.utils import musa_extension as extension
count = torch.musa.device_count()
print("\\n" + json.dumps({
    "device": torch.musa.get_device_name(0) if count else "",
    "architecture": "mp_%d%d" % tuple(torch.musa.get_device_capability(0)) if count else "",
    "version": "MUSA %s; torch_musa %s" % (torch.version.musa, torch_musa.__version__),
    "include": [*extension.include_paths(True)],
    "compile_flags": [*extension._get_pybind11_abi_build_flags(), *extension._get_glibcxx_abi_build_flags()],
    "link_flags": extension._prepare_ldflags([], True, False, False),
}))
"""


@dataclass(frozen=True)
class Musa:
    """A device and what compiles for it. `architecture`: mp_21 (S80, S3000), mp_22 (S4000), mp_31 (S5000)."""

    compiler: str
    device: str
    architecture: str
    version: str
    include: tuple[str, ...]
    compile_flags: tuple[str, ...]
    link_flags: tuple[str, ...]


@cache
def find_musa() -> Musa:
    """The first device and its toolchain; mcc is found where torch_musa looks for it.

    Raises:
        MusadataError: what is missing, and where it comes from.
    """
    compiler = find_program("mcc", ("MUSA_HOME", "MUSA_PATH"), [Path("/usr/local/musa/bin/mcc")])
    missing = ["MUSA toolkit (mcc)"] if compiler is None else []
    missing += ["torch_musa"] if importlib.util.find_spec("torch_musa") is None else []
    if missing or compiler is None:
        remedy = "install Moore Threads' MUSA SDK and torch_musa, or use emulated"
        raise MusadataError(f"no {' and no '.join(missing)}", where=_WHERE, remedy=remedy)
    found = _ask_torch_musa(str(compiler))
    if not found.device:
        raise MusadataError("no MUSA device", where=_WHERE, remedy="use emulated, or a machine with such a GPU")
    return found


def _ask_torch_musa(compiler: str) -> Musa:
    command = [sys.executable, "-c", _QUESTION]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    try:
        answer = json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, json.JSONDecodeError) as error:
        last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        remedy = "install the torch_musa that belongs to this PyTorch and this MUSA SDK"
        raise MusadataError(f"torch_musa does not load ({last[:200]})", where=_WHERE, remedy=remedy) from error
    values: Any = {name: tuple(value) if isinstance(value, list) else value for name, value in answer.items()}
    return Musa(compiler=compiler, **values)


def compile_ported(sources: CandidateSources, musa: Musa, limits: CompileLimits) -> Path:
    """The library of a candidate whose sources are MUSA's already, made now or taken from the cache.

    Raises:
        CompileError: the sources are wrong.
        MusadataError: the toolchain is.
    """
    toolchain = find_toolchain()
    key = hash_of(sources.digest(), toolchain.identity, repr(musa), hash_code(_HERE, NATIVE_FOLDER, RULES))
    return keep_library("artifacts-musa", key, lambda work, _: _compile(sources, musa, toolchain, work, limits))


def _compile(sources: CandidateSources, musa: Musa, toolchain: Toolchain, work: Path, limits: CompileLimits) -> Path:
    write_headers(sources.headers, work)
    objects = []
    for name, text in _units(sources).items():
        (work / name).write_text(text, encoding="utf-8", errors="replace")
        objects.append(f"{name}.o")
        _run([*_compiler_of(name, musa, toolchain), *sources.defines, "-c", name, "-o", objects[-1]], work, limits)
    refuse_hidden_calls([work / name for name in objects], toolchain.compiler, COUNTED_CALLS)
    wrappers = _WRAPPERS.link_flags(toolchain, musa.version, [f"-I{folder}" for folder in musa.include])
    link = [toolchain.compiler, "-shared", *objects, *wrappers]
    _run([*link, *musa.link_flags, "-o", "candidate.so"], work, limits)
    return work / "candidate.so"


def _run(command: Sequence[str], work: Path, limits: CompileLimits) -> None:
    said = run_compiler(command, work, limits).failure
    if said:
        raise CompileError(list_errors(said) or NO_MESSAGE)


def _units(sources: CandidateSources) -> dict[str, str]:
    """Translation units by file name. Messages call MUSA sources "cuda_source", as the candidate's author does."""
    cpp, musa = (
        ["".join(place(name, text) for name, text in unit.items()) for unit in translation_units(sources, kind)]
        for kind in ("cpp", "cuda")
    )
    bindings = bind_functions(sources.functions)
    cpp = [*cpp, bindings] if sources.separate else ["".join(cpp) + bindings]
    units = {f"cpp{index}.cpp": _CPP_START + text for index, text in enumerate(cpp) if text}
    return units | {f"musa{index}.mu": _MUSA_START + text for index, text in enumerate(musa) if text}


def _compiler_of(name: str, musa: Musa, toolchain: Toolchain) -> list[str]:
    folders = [*musa.include, sysconfig.get_paths()["include"]]
    flags = ["-DTORCH_EXTENSION_NAME=candidate", "-DTORCH_API_INCLUDE_EXTENSION_H", "-fPIC", "-std=c++17", "-w", "-I."]
    flags += [*musa.compile_flags, *(part for folder in folders for part in ("-isystem", folder))]
    if name.endswith(".mu"):
        return [musa.compiler, "-x", "musa", f"--offload-arch={musa.architecture}", "-O3", *flags]
    return [toolchain.compiler, "-O1", *flags]
