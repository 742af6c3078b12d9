"""torch_musa and MUSA's compiler: finding them, and compiling ported candidates as torch_musa's `load_inline` does.

Not its `load_inline` itself, which would open what it compiled in this, the trusted process.
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from musadata.errors import MusadataError
from musadata.verifier.backends.cuda.copies import COPIES, WATCHED_COPIES
from musadata.verifier.backends.musa.port import port_name, port_source
from musadata.verifier.backends.torch_abi.host_toolchain import (
    Toolchain,
    build_once,
    cache_folder,
    find_toolchain,
    hash_of,
    run_tool,
)
from musadata.verifier.compilation.compile_errors import CompileError
from musadata.verifier.compilation.contained_run import CompileLimits, run_contained
from musadata.verifier.compilation.sources import CandidateSources
from musadata.verifier.rules.native.linked_names import RULES, refuse_hidden_calls

_HERE = Path(__file__).parent
_WHERE = "musa backend"
_LAUNCHES = ("musaLaunchKernel", "musaLaunchCooperativeKernel")
_ERROR = re.compile(r"^(?P<file>[\w.]+):(?P<line>\d+):(?:\d+:)? *(?P<text>(?:fatal )?error.*)$", re.MULTILINE)
_MOST_ERRORS = 8
# What torch_musa puts before the sources that it is given (`torch_musa/utils/musa_extension.py`, load_inline).
_CPP_START = "#include <torch/extension.h>\n"
_MUSA_START = "#include <torch/types.h>\n#include <musa.h>\n#include <musa_runtime.h>\n"

# Asked in a process of its own: this one imports no torch. The flags are torch_musa's own, private names included.
_QUESTION = """
import json, torch, torch_musa
from torch_musa.utils import musa_extension as extension
count = torch.musa.device_count()
print("\\n" + json.dumps({
    "device": torch.musa.get_device_name(0) if count else "",
    "architecture": "mp_%d%d" % tuple(torch.musa.get_device_capability(0)) if count else "",
    "version": "MUSA %s; torch_musa %s" % (torch.version.musa, torch_musa.__version__),
    "include": [*extension.include_paths(True)],
    "compile": [*extension._get_pybind11_abi_build_flags(), *extension._get_glibcxx_abi_build_flags()],
    "link": extension._prepare_ldflags([], True, False, False),
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


def find_compiler() -> Path | None:
    """mcc, where torch_musa looks for it: MUSA_HOME or MUSA_PATH, PATH, /usr/local/musa."""
    homes = [os.environ.get("MUSA_HOME", ""), os.environ.get("MUSA_PATH", "")]
    places = [Path(home) / "bin" / "mcc" for home in homes if home]
    places += [Path(found) for found in [shutil.which("mcc")] if found]
    places.append(Path("/usr/local/musa/bin/mcc"))
    return next((place for place in places if place.is_file()), None)


@cache
def find_musa() -> Musa:
    """The first device and its toolchain.

    Raises:
        MusadataError: what is missing, and where it comes from.
    """
    compiler = find_compiler()
    missing = ["MUSA toolkit (mcc)"] if compiler is None else []
    missing += ["torch_musa"] if importlib.util.find_spec("torch_musa") is None else []
    if missing or compiler is None:
        remedy = "install Moore Threads' MUSA SDK and torch_musa, or use emulated"
        raise MusadataError(f"no {' and no '.join(missing)}", where=_WHERE, remedy=remedy)
    found = _ask_torch_musa()
    if not found["device"]:
        raise MusadataError("no MUSA device", where=_WHERE, remedy="use emulated, or a machine with such a GPU")
    return Musa(
        compiler=str(compiler),
        device=found["device"],
        architecture=found["architecture"],
        version=found["version"],
        include=tuple(found["include"]),
        compile_flags=tuple(found["compile"]),
        link_flags=tuple(found["link"]),
    )


def _ask_torch_musa() -> dict[str, Any]:
    command = [sys.executable, "-c", _QUESTION]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    try:
        answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, json.JSONDecodeError) as error:
        last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        remedy = "install the torch_musa that belongs to this PyTorch and this MUSA SDK"
        raise MusadataError(f"torch_musa does not load ({last[:200]})", where=_WHERE, remedy=remedy) from error
    return answer


def compile_ported(sources: CandidateSources, musa: Musa, limits: CompileLimits) -> Path:
    """The library of a candidate whose sources are MUSA's already, made now or taken from the cache.

    Raises:
        CompileError: the sources are wrong.
        MusadataError: the toolchain is.
    """
    toolchain = find_toolchain()
    key = hash_of(
        sources.digest(),
        toolchain.identity,
        repr(musa),
        _HERE / "launches.cpp",
        WATCHED_COPIES,
        _HERE / "toolchain.py",
        RULES,
    )
    folder = cache_folder() / "artifacts-musa" / key[:2] / key

    def build(partial: Path) -> None:
        try:
            _compile(sources, musa, toolchain, partial, limits)
        except CompileError as error:
            (partial / "refused.json").write_text(json.dumps(str(error)), encoding="utf-8")

    build_once(folder, build)
    refusal = folder / "refused.json"
    if refusal.exists():
        raise CompileError(json.loads(refusal.read_text(encoding="utf-8")))
    return folder / "candidate.so"


def _compile(sources: CandidateSources, musa: Musa, toolchain: Toolchain, folder: Path, limits: CompileLimits) -> None:
    work = Path(tempfile.mkdtemp(prefix="musadata-mcc-"))
    try:
        for name, text in sources.headers:
            if re.fullmatch(r"[\w.+-]+", name):
                (work / name).write_text(text, encoding="utf-8", errors="replace")
        objects = []
        for name, text in _units(sources).items():
            (work / name).write_text(text, encoding="utf-8", errors="replace")
            objects.append(f"{name}.o")
            _run([*_compiler_of(name, musa, toolchain), *sources.defines, "-c", name, "-o", objects[-1]], work, limits)
        refuse_hidden_calls([work / name for name in objects], toolchain.compiler)
        wraps = [f"-Wl,--wrap={name}" for name in (*_LAUNCHES, *map(port_name, COPIES))]
        link = [toolchain.compiler, "-shared", *objects, *map(str, _watching_objects(musa, toolchain)), *wraps]
        _run([*link, *musa.link_flags, "-o", "candidate.so"], work, limits)
        shutil.copyfile(work / "candidate.so", folder / "candidate.so")
        (folder / "candidate.so").chmod(0o755)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run(command: list[str], work: Path, limits: CompileLimits) -> None:
    done = run_contained(command, work, limits)
    if done.limit:
        raise CompileError(f"error: the compilation takes more {done.limit} than it may")
    if done.code != 0:
        found = [f"{m['file']}:{m['line']}: {m['text']}" for m in _ERROR.finditer(done.stderr)]
        shown = "\n".join(dict.fromkeys(found[:_MOST_ERRORS]))
        raise CompileError(shown or "the compiler fails without a message about the sources")


def _units(sources: CandidateSources) -> dict[str, str]:
    """Translation units by file name, every line named as the candidate's own."""
    cpp = _placed("cpp_source", sources.cpp)
    musa = _placed("cuda_source", sources.cuda)  # the candidate knows it by this name
    if sources.functions is not None:
        cpp.append(_bindings(sources.functions))
    if not sources.separate:
        cpp, musa = ["".join(cpp)], ["".join(musa)] if musa else []
    units = {f"cpp{index}.cpp": _CPP_START + text for index, text in enumerate(cpp) if text}
    return units | {f"musa{index}.mu": _MUSA_START + text for index, text in enumerate(musa)}


def _placed(base: str, texts: tuple[str, ...]) -> list[str]:
    names = [base if len(texts) == 1 else f"{base}_{index}" for index in range(len(texts))]
    return [f'\n#line 1 "{name}"\n{text}\n' for name, text in zip(names, texts, strict=True)]


def _bindings(functions: tuple[tuple[str, str], ...]) -> str:
    for name, _ in functions:
        if not re.fullmatch(r"[A-Za-z_]\w*(::[A-Za-z_]\w*)*", name):
            raise CompileError(f"functions: error: {name[:80]!r} is not the name of a function")
    calls = "".join(
        f"m.def({json.dumps(name)}, torch::wrap_pybind_function({name}), {json.dumps(text)});\n"
        for name, text in functions
    )
    return f'\n#line 1 "bindings"\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{\n{calls}}}\n'


def _compiler_of(name: str, musa: Musa, toolchain: Toolchain) -> list[str]:
    folders = [*musa.include, sysconfig.get_paths()["include"]]
    flags = ["-DTORCH_EXTENSION_NAME=candidate", "-DTORCH_API_INCLUDE_EXTENSION_H", "-fPIC", "-std=c++17", "-w", "-I."]
    flags += [*musa.compile_flags, *(part for folder in folders for part in ("-isystem", folder))]
    if name.endswith(".mu"):
        return [musa.compiler, "-x", "musa", f"--offload-arch={musa.architecture}", "-O3", *flags]
    return [toolchain.compiler, "-O1", *flags]


def _watching_objects(musa: Musa, toolchain: Toolchain) -> list[Path]:
    launches, copies = _HERE / "launches.cpp", port_source(WATCHED_COPIES.read_text(encoding="utf-8"))
    records = WATCHED_COPIES.with_name("launch_records.h")
    folders = [*musa.include, str(records.parent)]

    def build(partial: Path) -> None:
        (partial / "copies.cpp").write_text(copies, encoding="utf-8")
        flags = ["-O1", "-std=c++17", "-fPIC", "-w", "-fvisibility=hidden", *(f"-I{path}" for path in folders)]
        for source in (launches, partial / "copies.cpp"):
            run_tool([toolchain.compiler, *flags, "-c", source, "-o", partial / f"{source.stem}.o"], source.name)

    key = hash_of(toolchain.identity, musa.version, launches, records, copies)
    folder = build_once(cache_folder() / f"musa-watching-{key}", build)
    return [folder / "launches.o", folder / "copies.o"]
