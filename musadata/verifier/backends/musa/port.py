"""CUDA C++ into MUSA C++: the same tokens under other names.

Comments stay as they are, of strings only the word CUDA in a message changes ("x must be a CUDA tensor"), every line
stays on its line, and what is ported already is not changed again.
Unlike a textual replacement, a name is only taken for CUDA's when it is a whole word and not the candidate's own.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache

from musadata.cpp import WORD, Code, Edit, Unbalanced
from musadata.verifier.backends.musa import names
from musadata.verifier.compilation.compile_errors import Unsupported
from musadata.verifier.compilation.sources import CandidateSources

_DEVICE_NAME = re.compile(r'\s*[({]\s*"cuda(:\d+)?"')
_IN_MESSAGE = re.compile(r"(?<![\w.:/-])CUDA(?= [a-z])")
_HEADER = r'#\s*include\s*(?P<header>"_+"|<[^>\n]*>)'
_QUALIFIER = re.compile(rf"({WORD})\s*::\Z")
_NESTED_NAMESPACE = re.compile(r"\s*::\s*(?:std\b|\w*CUDA)")
_DISPATCH_KEY = re.compile(r"\bTORCH_LIBRARY_IMPL\s*\(\s*[\w$]+\s*,\Z")
_TESTED = re.compile(r"\b(?:ifdef|ifndef|defined|elifdef|elifndef)\s*\(?\Z")
_THRESHOLD = re.compile(rf"\s*(?:>=|<(?!=))\s*({'|'.join(names.ARCHITECTURES)})(?![\w.])")
_MOST_REASONS = 4


class NoCounterpart(Unsupported):
    """The sources use something that MUSA does not have; the text names it with its lines."""


def port_sources(sources: CandidateSources) -> CandidateSources:
    """The sources of an extension for MUSA: `cuda` holds MUSA C++, headers are named as MUSA names them.

    Raises:
        NoCounterpart: something in them cannot be ported.
    """
    texts = [*sources.cpp, *sources.cuda, *(text for _, text in sources.headers)]
    own = frozenset(name for name, _ in sources.functions or ()).union(*map(own_names, texts))
    return replace(
        sources,
        cpp=tuple(port_source(text, own) for text in sources.cpp),
        cuda=tuple(port_source(text, own) for text in sources.cuda),
        headers=tuple((port_header(name), port_source(text, own)) for name, text in sources.headers),
        defines=tuple(flag[:2] + port_source(flag[2:], own) for flag in sources.defines),
    )


def port_source(source: str, own: Iterable[str] = ()) -> str:
    """The MUSA C++ of one CUDA source; `own` are names that other sources of the same program define.

    Raises:
        NoCounterpart: something in it cannot be ported.
    """
    code, kept = Code(source), own_names(source).union(own)
    reasons = _refusals(code, kept)
    if reasons:
        shown = "; ".join(f"{what} (line {line})" for line, what in reasons[:_MOST_REASONS])
        raise NoCounterpart(f"MUSA has no counterpart of {shown}")
    return str(code.edited(_rename(code, kept)))


def port_header(name: str) -> str:
    """The name of a header on MUSA; the candidate's own headers only change from .cuh to .muh."""
    ported = names.HEADERS.get(name)
    if ported is None:
        ported = next((form.sub(to, name) for form, to in names.HEADER_FORMS if form.fullmatch(name)), name)
    return re.sub(r"\.cuh$", ".muh", ported)


def port_name(name: str) -> str:
    """The name on MUSA of a name of CUDA, its libraries or PyTorch's CUDA parts."""
    if name in names.NAMES:
        return names.NAMES[name]
    return next((form.sub(to, name) for form, to in names.FORMS if form.fullmatch(name)), name)


def own_names(source: str) -> frozenset[str]:
    """Names that a source defines itself, whatever they look like: macros, types, namespaces, functions.

    `struct name {` defines a type, where `struct cudaDeviceProp p` uses it; and `name(...) {` a function, where a call
    would be followed by an operator or a semicolon.
    """
    code = Code(source)
    macros = code.find(rf"\b(?:define|undef)\s+({WORD})")
    types = code.find(rf"\b(?:struct|class|enum|union|namespace|using)\s+({WORD})\s*(?:[{{;=]|:(?!:))")
    functions = (call for call in code.find(rf"({WORD})\s*\(") if _looks_foreign(call[1]) and _has_body(code, call))
    return frozenset(found[1] for some in (macros, types, functions) for found in some if _looks_foreign(found[1]))


def _has_body(code: Code, call: re.Match[str]) -> bool:
    try:
        return re.compile(r"\s*\{").match(code.mask, code.closing(call.end() - 1) + 1) is not None
    except Unbalanced:
        return False


@cache
def _looks_foreign(name: str) -> bool:
    return port_name(name) != name or _refused(name) is not None


def _refused(name: str) -> str | None:
    return next((what for form, what in names.REFUSED if form.fullmatch(name)), None)


def _refusals(code: Code, own: frozenset[str]) -> list[tuple[int, str]]:
    """(line, what) of everything that has no counterpart, each kind once, in the order of the source."""
    found: dict[str, int] = {}
    for header in code.find(_HEADER):
        name = str(code[slice(*header.span("header"))])[1:-1]
        what = next((title for form, title in names.REFUSED_HEADERS if form.fullmatch(name)), None)
        if what:
            found.setdefault(what, code.line(header.start("header")))
    for word in code.find(WORD):
        if word[0] in own:
            continue
        what = _refused(word[0])
        if word[0] == "__CUDA_ARCH__" and not (code.before(word.start(), _TESTED) or _threshold(code, word)):
            thresholds = " and ".join(names.ARCHITECTURES)
            what = f"this comparison of __CUDA_ARCH__ (only `>=` and `<` with {thresholds} have one)"
        elif word[0] == "Device" and _DEVICE_NAME.match(code.text, word.end()):
            what = "a device named in a C++ string (use torch::kCUDA)"
        if what:
            line = code.line(word.start())
            found[what] = min(line, found.get(what, line))
    return sorted((line, what) for what, line in found.items())


def _threshold(code: Code, word: re.Match[str]) -> re.Match[str] | None:
    """The number that `__CUDA_ARCH__` is compared with, if it has an equal."""
    return None if code.before(word.start(), _TESTED) else _THRESHOLD.match(code.mask, word.end())


def _rename(code: Code, own: frozenset[str]) -> Iterator[Edit]:
    for found in code.find(rf'{_HEADER}|"_+"|{WORD}'):
        text = str(code[found.start() : found.end()])
        if found["header"]:
            start, end = found.span("header")
            name = str(code[start:end])
            yield start, end, name[0] + port_header(name[1:-1]) + name[-1]
        elif text.startswith('"'):
            yield *found.span(), _IN_MESSAGE.sub("MUSA", text)
        elif found[0][0] != '"' and text not in own:
            yield *found.span(), _renamed(code, found)
            threshold = _threshold(code, found) if text == "__CUDA_ARCH__" else None
            if threshold:
                yield *threshold.span(1), names.ARCHITECTURES[threshold[1]]


def _renamed(code: Code, word: re.Match[str]) -> str:
    qualifier = code.before(word.start(), _QUALIFIER) if word[0] in ("cuda", "CUDA") else None
    of = qualifier[1] if qualifier else ""
    # The latter is `cuda::getCurrentCUDAStream` after `using namespace at`, or `cuda::std`.
    if word[0] == "cuda" and (of in names.CUDA_NAMESPACE_OF or _NESTED_NAMESPACE.match(code.mask, word.end())):
        return "musa"
    if word[0] == "CUDA" and (of in names.CUDA_MEMBER_OF or code.before(word.start(), _DISPATCH_KEY)):
        return names.DEVICE_KEY
    return port_name(word[0])
