"""Legality of the symbols that a compiled candidate links against, which show what macros hide in its text."""

import re
import shutil
import subprocess
from collections.abc import Collection, Sequence
from functools import cache, partial
from pathlib import Path

from musadata.verifier.compilation.compile_errors import CompileError
from musadata.verifier.rules.native.native_code import is_way_out

# Functions that move device memory to the host uncounted; copies to arrays and symbols of a device do not.
_MOVES_TO_HOST = re.compile(
    r"cuda(Memcpy(?!\w*(To(Array|Symbol)|Peer))\w*|HostRegister|Graph(Add|Launch|Instantiate)\w*|StreamBeginCapture\w*"
    r"|MemPoolCreate|MallocFromPool\w*|Import\w+|IpcOpen\w+|GetDriverEntryPoint\w*|LibraryLoad\w*)|__cudaRegisterManagedVar"
    r"|cu(Memcpy\w*|Mem(Alloc(Managed|Host)|Host)\w*|Graph\w+|Launch\w+|(Module|Library)Load\w*|GetProcAddress\w*|Import\w+)"
)
# Python, files, threads, libraries that compute on the host, and the emulator's own functions.
_SYSTEM = re.compile(
    r"_?Py(Run|Import|Sys|Marshal|GC)_\w+|Py_Compile\w*|PyEval_(Eval|Call|GetGlobals|GetLocals|GetFrame|Set)\w*"
    r"|_ZNK?8emulator\w*|p?writev?|p?readv?|send(to|m?msg)?|recv(from|m?msg)?|dup[23]?|fdopen|pthread_create|_ZNSt6thread\w*_M_start_thread\w*"
    r"|_Z\w*(basic_[io]?fstream|basic_filebuf|__basic_file|St10filesystem)\w*"
    r"|(cblas_)?[sdcz](gem[mv]|dot|axpy)_?|_ZN2at6native(7cpublas|\w*stub)\w*|_ZN2at8internal15invoke_parallel\w*"
)
# What a result must not depend on: time, randomness, and state of the process that a snapshot of memory does not see.
_STATE = re.compile(
    r"time|clock(_gettime(64)?)?|gettimeofday|times|getrusage|timespec_get|ftime|_ZNSt6chrono\w*3nowEv"
    r"|s?rand(om)?(_r)?|[delmnj]rand48(_r)?|s(rand|eed)48(_r)?|getrandom|getentropy|arc4random\w*|_ZNSt13random_device\w*"
    r"|(un)?setenv|putenv|clearenv|feset(round|env)|feholdexcept|feupdateenv"
    r"|open_w?memstream|fmemopen|tmpfile(64)?|setv?buf(fer)?|setlinebuf"
)
# Called by compilers and standard headers themselves.
_CALLED_BY_HEADERS = frozenset({"abort", "raise", "signal", "atexit", "open", "kill", "getpid"})

RULES = Path(__file__).parent  # part of the key of compiled libraries: what is refused depends on these files


def refuse_hidden_calls(objects: Sequence[Path], compiler: str, counted: Collection[str]) -> None:
    """Check the undefined symbols of objects that `compiler` made; copies by functions in `counted` are counted.

    Raises:
        CompileError: one of them is a function that no candidate may call.
    """
    command = [_find_tool(compiler, "nm"), "-u", "-P", *map(str, objects)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    undefined = {words[0] for words in map(str.split, listed.splitlines()) if words[1:] == ["U"]}
    for name in sorted(undefined):
        other = _SYSTEM.fullmatch(name) or _STATE.fullmatch(name)
        if (is_way_out(name) or other) and name not in _CALLED_BY_HEADERS:
            raise CompileError(f"error: {name} is called: candidates must not call it, not even through a macro")
        if _MOVES_TO_HOST.fullmatch(name) and name not in counted:
            raise CompileError(f"error: {name} is called: copy with cudaMemcpyAsync, and leave the work to kernels")


_ROOT = 'extern "C" __attribute__((visibility("hidden"))) void musadata_root() {}\n'
_MODULE = "PyInit_candidate"  # by which Python enters a module that is compiled with PyTorch's own headers


def check_objects(objects: Sequence[Path], compiler: str, counted: Collection[str]) -> list[Path]:
    """The objects to be linked: these, or one without what nothing reaches if only that calls what no candidate may.

    The objects have a section for each function. What is not checked is not linked.

    Raises:
        CompileError: as `refuse_hidden_calls`.
    """
    try:
        refuse_hidden_calls(objects, compiler, counted)
        return list(objects)
    except CompileError:
        reachable, called = (objects[0].with_name(name) for name in ("reachable.o", "called.o"))
        if not _keep_reachable(objects, reachable, called, compiler):
            raise
    refuse_hidden_calls([called], compiler, counted)
    return [reachable]


def _keep_reachable(objects: Sequence[Path], reachable: Path, called: Path, compiler: str) -> bool:
    """Make one object of what static initialisers and the module's own entry reach, and the same with the names alone
    that it still refers to. Returns whether the tools could."""
    root = reachable.with_name("root.cpp")
    root.write_text(_ROOT, encoding="utf-8")  # the linker wants a root that it knows beside the initialisers
    roots = ["musadata_root", *([_MODULE] if any(_MODULE.encode() in one.read_bytes() for one in objects) else [])]
    flags = ["-r", "-nostdlib", "-fPIC", "-Wl,--gc-sections", *(f"-Wl,-u,{name}" for name in roots)]
    link = [compiler, *flags, "-x", "c++", str(root), "-x", "none", *map(str, objects), "-o", str(reachable)]
    strip = [_find_tool(compiler, "strip"), "--strip-unneeded", str(reachable), "-o", str(called)]
    run = partial(subprocess.run, capture_output=True, check=False, timeout=60)
    return all(run(command).returncode == 0 for command in (link, strip))


@cache
def _find_tool(compiler: str, name: str) -> str:
    """The path of one of binutils' programs, which every compiler that links comes with."""
    said = subprocess.run(
        [compiler, f"-print-prog-name={name}"], capture_output=True, text=True, check=False, timeout=60
    )
    return shutil.which(said.stdout.strip()) or name
