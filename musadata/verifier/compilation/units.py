"""Putting a candidate's sources together into translation units, as PyTorch does."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from musadata.verifier.compilation.compile_errors import CompileError
from musadata.verifier.compilation.sources import CandidateSources

# Headers that PyTorch's own include and the small ones do not. In a precompiled header they would make every
# compilation a tenth longer; this way they cost the few candidates that need them a second.
_STANDARD = """
any atomic bitset chrono complex condition_variable deque functional iomanip list map mutex numeric queue random
regex set shared_mutex stack unordered_map unordered_set variant
"""
STANDARD_HEADERS = "".join(f"#include <{name}>\n" for name in _STANDARD.split())
_OF_NVCC = re.compile(r"\b__(?:CUDACC|NVCC|CUDA_ARCH)__\b")


def source_names(base: str, texts: Sequence[str]) -> list[str]:
    """The names by which messages mention the sources of a kind."""
    return [base if len(texts) == 1 else f"{base}_{index}" for index in range(len(texts))]


def translation_units(sources: CandidateSources, kind: str) -> list[dict[str, str]]:
    """The sources of a kind ("cpp" or "cuda") by the names that messages use, as PyTorch puts them into units."""
    texts = {"cpp": sources.cpp, "cuda": sources.cuda}[kind]
    named = dict(zip(source_names(f"{kind}_source", texts), texts, strict=True))
    return [{name: text} for name, text in named.items()] if sources.separate else [named]


def asks_for_compiler(sources: CandidateSources) -> bool:
    """Whether C++ sources mean something else to nvcc, so that they are not to be compiled as CUDA's, or with them."""
    return bool(sources.cuda) and any(map(_OF_NVCC.search, [*sources.cpp, *(text for _, text in sources.headers)]))


def is_header_name(name: str) -> bool:
    """Whether it names a file beside the source and nothing else."""
    return re.fullmatch(r"[\w+-][\w.+-]*", name) is not None


def definitions(sources: CandidateSources) -> str:
    """The candidate's flags for the preprocessor as text, to be put after the headers."""
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


def place(name: str, text: str) -> str:
    """A source as part of a unit: the compiler calls its lines by `name` and by their own numbers."""
    return f'\n#line 1 "{name}"\n{text}\n'


def bind_functions(functions: Sequence[tuple[str, str]] | None) -> str:
    """The code that makes functions, each with its documentation, callable from Python.

    Raises:
        CompileError: one of them is not the name of a function.
    """
    if functions is None:
        return ""
    for name, _ in functions:
        if not re.fullmatch(r"[A-Za-z_]\w*(::[A-Za-z_]\w*)*", name):
            raise CompileError(f"functions: error: {name[:80]!r} is not the name of a function")
    calls = [f'm.def("{name}", torch::wrap_pybind_function({name}), {json.dumps(text)});' for name, text in functions]
    return place("bindings", "\n".join(["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {", *calls, "}"]))


def write_headers(headers: Iterable[tuple[str, str]], folder: Path) -> None:
    """Put the candidate's own headers where its sources are compiled."""
    for name, text in headers:
        if is_header_name(name):
            (folder / name).write_text(text, encoding="utf-8", errors="replace")
