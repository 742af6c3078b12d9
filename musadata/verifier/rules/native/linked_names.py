"""Legality of the symbols that a compiled candidate links against, which show what macros hide in its text."""

import re
import shutil
import subprocess
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path

from musadata.verifier.compilation.compile_errors import CompileError
from musadata.verifier.rules.native.native_code import is_way_out

# Functions that move device memory to the host uncounted; copies to arrays and symbols of a device do not.
_MOVES_TO_HOST = re.compile(
    r"cuda(Memcpy(?!\w*(To(Array|Symbol)|Peer))\w*|HostRegister|Graph(Add|Launch|Instantiate)\w*|StreamBeginCapture\w*"
    r"|MemPoolCreate|MallocFromPool\w*|Import\w+|IpcOpen\w+|GetDriverEntryPoint\w*|LibraryLoad\w*)|__cudaRegisterManagedVar"
    r"|cu(Memcpy\w*|Mem(Alloc(Managed|Host)|Host)\w*|Graph\w+|Launch\w+|(Module|Library)Load\w*|GetProcAddress\w*|Import\w+)"
)
# Python, open files, threads, libraries that compute on the host, and the emulator's own functions.
_SYSTEM = re.compile(
    r"_?Py(Run|Import|Sys|Marshal|GC)_\w+|Py_Compile\w*|PyEval_(Eval|Call|GetGlobals|GetLocals|GetFrame|Set)\w*"
    r"|_ZNK?8emulator\w*|p?writev?|p?readv?|send(to|m?msg)?|recv(from|m?msg)?|dup[23]?|fdopen|pthread_create|_ZNSt6thread\w*_M_start_thread\w*"
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
    command = [_name_lister(compiler), "-u", "-P", *map(str, objects)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    undefined = {words[0] for words in map(str.split, listed.splitlines()) if words[1:] == ["U"]}
    for name in sorted(undefined):
        other = _SYSTEM.fullmatch(name) or _STATE.fullmatch(name)
        if (is_way_out(name) or other) and name not in _CALLED_BY_HEADERS:
            raise CompileError(f"error: {name} is called: candidates must not call it, not even through a macro")
        if _MOVES_TO_HOST.fullmatch(name) and name not in counted:
            raise CompileError(f"error: {name} is called: copy with cudaMemcpyAsync, and leave the work to kernels")


@cache
def _name_lister(compiler: str) -> str:
    """The path of binutils' nm, which every compiler that links comes with."""
    said = subprocess.run([compiler, "-print-prog-name=nm"], capture_output=True, text=True, check=False, timeout=60)
    return shutil.which(said.stdout.strip()) or "nm"
