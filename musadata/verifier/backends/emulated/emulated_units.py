"""A candidate's translation units in plain C++, as the emulator's compiler takes them."""

import re
from dataclasses import dataclass, replace

from musadata.cpp import Code
from musadata.verifier.backends.emulated.rewrite import leave_out_foreign_headers, rewrite, rewrite_host
from musadata.verifier.compilation.compile_errors import CompileError, Unsupported
from musadata.verifier.compilation.sources import CandidateSources
from musadata.verifier.compilation.units import (
    STANDARD_HEADERS,
    asks_for_compiler,
    bind_functions,
    definitions,
    place,
    source_names,
)


@dataclass(frozen=True)
class Units:
    """What is given to the compiler.

    Attributes:
        first: everything as one unit, which compiles fastest, unless that changes what the sources mean.
        apart: the units that PyTorch would make of it, whose errors are the true ones.
        shown: the candidate's own text by the name under which messages mention it.
        headers: file name and rewritten text of the candidate's own headers.
        left_out: the headers that are not emulated, with the lines that include them.
    """

    first: tuple[str, ...]
    apart: tuple[str, ...]
    shown: dict[str, str]
    headers: tuple[tuple[str, str], ...]
    left_out: tuple[str, ...] = ()


# nvcc's macros, so that the same parts of a source are compiled. After the headers, which are for g++ here.
_AS_NVCC = """
#ifndef __CUDACC__
#define __NVCC__ 1
#define __CUDACC__ 1
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define __CUDA_ARCH__ 900
#endif
#ifndef __CUDACC_EXTENDED_LAMBDA__
#define __CUDACC_EXTENDED_LAMBDA__ 1
#endif
"""


def assemble(sources: CandidateSources) -> Units:
    """Translation units with every line mapped to the candidate's own.

    Raises:
        CompileError: a source includes a file that it may not read.
        Unsupported: a source needs something that is not emulated.
    """
    cpp_sources = dict(zip(source_names("cpp_source", sources.cpp), sources.cpp, strict=True))
    cuda_sources = dict(zip(source_names("cuda_source", sources.cuda), sources.cuda, strict=True))
    shown = cpp_sources | cuda_sources
    for name, text in shown.items():
        _check_includes(text, name)
    own = {name for name, _ in sources.headers}
    left_out: list[str] = []

    def without_foreign_headers(text: str) -> str:
        kept, foreign = leave_out_foreign_headers(text, own)
        left_out.extend(foreign)
        return kept

    cpp = [place(name, rewrite_host(without_foreign_headers(text))) for name, text in cpp_sources.items()]
    cuda = [_AS_NVCC + place(name, rewrite(without_foreign_headers(text))) for name, text in cuda_sources.items()]
    start = definitions(sources)
    bindings = bind_functions(sources.functions)
    apart = [*cpp, *cuda] if sources.separate else ["".join(cpp) + bindings, "".join(cuda)]
    apart = [start + unit for unit in apart if unit]
    together = [start + "".join(cpp) + bindings + "".join(cuda)]
    return Units(
        first=tuple(apart if asks_for_compiler(sources) else together),
        apart=tuple(apart),
        shown=shown,
        headers=tuple((name, rewrite(without_foreign_headers(text))) for name, text in sources.headers),
        left_out=tuple(left_out),
    )


def begin_with_standard_headers(units: Units) -> Units:
    """The same units with more of the C++ library before them."""
    first, apart = (tuple(STANDARD_HEADERS + unit for unit in some) for some in (units.first, units.apart))
    return replace(units, first=first, apart=apart)


_FORBIDDEN = r"\b(?P<assembly>asm|__asm__|__asm)\b|#\s*(?P<directive>include|include_next|import|embed)\b[^\S\n]*"
_HEADER = re.compile(r'<[^/>][^>]*>|"[^/"][^"]*"')


def _check_includes(text: str, name: str) -> None:
    """A source may include headers by name; it may not read files of this machine, nor let the assembler do so."""
    code = Code(text)
    for found in code.find(_FORBIDDEN):
        if found["assembly"] and name.startswith("cpp_source"):
            raise Unsupported(f"inline assembly in host code (line {code.line(found.start())})")
        target = text[found.end() :].split("\n", 1)[0].strip() if found["directive"] else ""
        if found["directive"] and (found["directive"] != "include" or not _HEADER.match(target) or ".." in target):
            line = code.line(found.start("directive"))
            raise CompileError(f"{name}:{line}: error: cannot include {target[:80]}")
