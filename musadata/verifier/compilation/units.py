"""Putting a candidate's sources together into translation units."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from musadata.verifier.backends.emulated.rewrite import rewrite
from musadata.verifier.compilation.compile_errors import CompileError, Unsupported
from musadata.verifier.compilation.lexer import Kind, Token, join, skip_space, skip_space_back, split
from musadata.verifier.compilation.sources import CandidateSources


@dataclass(frozen=True)
class Units:
    """What is given to the compiler.

    Attributes:
        together: everything as one unit, which compiles fastest.
        apart: the units that PyTorch would make of it, whose errors are the true ones.
        shown: the candidate's own text by the name under which messages mention it.
        headers: rewritten headers by file name.
    """

    together: str
    apart: tuple[str, ...]
    shown: dict[str, str]
    headers: dict[str, str]


# What nvcc defines, so that nothing but a device's program is looked at. Behind the headers, which are for g++ here.
_AS_NVCC = """
#ifndef __CUDACC__
#define __NVCC__ 1
#define __CUDACC__ 1
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define __CUDA_ARCH__ 900
#endif
"""


def assemble(sources: CandidateSources) -> Units:
    """Translation units with every line mapped to the candidate's own.

    Raises:
        CompileError: a source includes a file that it may not read.
        Unsupported: a source needs something that is not emulated.
    """
    cpp_names = source_names("cpp_source", sources.cpp)
    cuda_names = source_names("cuda_source", sources.cuda)
    for name, text in (*zip(cpp_names, sources.cpp, strict=True), *zip(cuda_names, sources.cuda, strict=True)):
        _check_includes(text, name)
    cpp = [_placed(name, text) for name, text in zip(cpp_names, sources.cpp, strict=True)]
    cuda = [_AS_NVCC + _placed(name, rewrite(text)) for name, text in zip(cuda_names, sources.cuda, strict=True)]
    start = definitions(sources)
    bindings = _bindings(sources)
    apart = [*cpp, *cuda] if sources.separate else ["".join(cpp) + bindings, "".join(cuda)]
    return Units(
        together=start + "".join(cpp) + bindings + "".join(cuda),
        apart=tuple(start + unit for unit in apart if unit),
        shown=dict(zip([*cpp_names, *cuda_names], [*sources.cpp, *sources.cuda], strict=True)),
        headers={name: rewrite(text) for name, text in sources.headers if is_header_name(name)},
    )


# Those that PyTorch's headers bring along, but for what the small ones do. In the precompiled header they would take
# every candidate a tenth longer; so they take the few that rely on them a second.
_STANDARD_HEADERS = """
any atomic bitset chrono complex condition_variable deque functional iomanip list map mutex numeric queue random
regex set shared_mutex stack unordered_map unordered_set variant
"""


def begin_with_standard_headers(units: Units) -> Units:
    """The same units with more of the C++ library before them."""
    start = "".join(f"#include <{name}>\n" for name in _STANDARD_HEADERS.split())
    return replace(units, together=start + units.together, apart=tuple(start + unit for unit in units.apart))


def source_names(base: str, texts: Sequence[str]) -> list[str]:
    """Under which names messages mention the sources of a kind."""
    return [base if len(texts) == 1 else f"{base}_{index}" for index in range(len(texts))]


def translation_units(sources: CandidateSources, kind: str) -> list[dict[str, str]]:
    """The sources of a kind ("cpp" or "cuda") by the names that messages use, as PyTorch puts them into units."""
    texts = {"cpp": sources.cpp, "cuda": sources.cuda}[kind]
    named = dict(zip(source_names(f"{kind}_source", texts), texts, strict=True))
    return [{name: text} for name, text in named.items()] if sources.separate else [named]


def is_header_name(name: str) -> bool:
    """Whether it names a file beside the source and nothing else."""
    return re.fullmatch(r"[\w.+-]+", name) is not None


def _placed(name: str, text: str) -> str:
    return f'\n#line 1 "{name}"\n{text}\n'


def definitions(sources: CandidateSources) -> str:
    """The candidate's flags for the preprocessor as text, to stand behind the headers."""
    lines = ["#define TORCH_EXTENSION_NAME candidate"]
    for flag in sources.defines:
        name, _, value = flag[2:].partition("=")
        if not re.fullmatch(r"[A-Za-z_]\w*(\([\w, .]*\))?", name) or "\n" in value or "\\" in value:
            continue
        if flag.startswith("-U"):
            lines.append(f"#undef {name}")
        else:
            lines.append(f"#undef {name.partition('(')[0]}\n#define {name} {value if '=' in flag else '1'}")
    return "\n".join(lines) + "\n"


def _bindings(sources: CandidateSources) -> str:
    if sources.functions is None:
        return ""
    calls = [
        f'm.def("{name}", torch::wrap_pybind_function({name}), {json.dumps(documentation)});'
        for name, documentation in sources.functions
    ]
    for name, _ in sources.functions:
        if not re.fullmatch(r"[A-Za-z_]\w*(::[A-Za-z_]\w*)*", name):
            raise CompileError(f"functions: error: {name[:80]!r} is not the name of a function")
    return '\n#line 1 "bindings"\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {\n' + "\n".join(calls) + "\n}\n"


def _check_includes(text: str, name: str) -> None:
    """A source may include headers by name; it may not read files of this machine, nor let the assembler do so."""
    tokens = split(text)
    for index, token in enumerate(tokens):
        if token.is_word("asm", "__asm__", "__asm") and name.startswith("cpp_source"):
            raise Unsupported(f"inline assembly in host code (line {token.line})")
        if not (token.kind is Kind.WORD and token.text in ("include", "include_next", "import", "embed")):
            continue
        before = skip_space_back(tokens, index - 1)
        if before < 0 or not tokens[before].is_sign("#"):
            continue
        target = _rest_of_line(tokens, skip_space(tokens, index + 1))
        if token.text != "include" or not re.match(r'^(<[^/>][^>]*>|"[^/"][^"]*")', target) or ".." in target:
            raise CompileError(f"{name}:{token.line}: error: cannot include {target[:80]}")


def _rest_of_line(tokens: Sequence[Token], index: int) -> str:
    return join(tokens[index : index + 40]).split("\n", 1)[0].strip()
