"""CUDA C++ into MUSA C++: the same tokens under other names.

Comments stay as they are, of strings only the word CUDA in a message changes ("x must be a CUDA tensor"), every line
stays on its line, and what is ported already is not changed again.
Unlike a textual replacement, a name is only taken for CUDA's when it is a whole word and not the candidate's own.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

from musadata.verifier.backends.musa import names
from musadata.verifier.compilation.compile_errors import Unsupported
from musadata.verifier.compilation.lexer import (
    Kind,
    Token,
    Unbalanced,
    closing_index,
    join,
    skip_space,
    skip_space_back,
    split,
)
from musadata.verifier.compilation.sources import CandidateSources

_DEVICE_NAME = re.compile(r'"cuda(:\d+)?"')
_IN_MESSAGE = re.compile(r"(?<![\w.:/-])CUDA(?= [a-z])")
_DEFINING = ("struct", "class", "enum", "union", "namespace", "using")
_MOST_REASONS = 4


class NoCounterpart(Unsupported):
    """The sources use something that MUSA does not have; the text names it with its lines."""


def port_sources(sources: CandidateSources) -> CandidateSources:
    """The sources of an extension for MUSA: `cuda` holds MUSA C++, headers are named as MUSA names them.

    Raises:
        NoCounterpart: something in them cannot be ported.
    """
    texts = [*sources.cpp, *sources.cuda, *(text for _, text in sources.headers)]
    own = frozenset(name for name, _ in sources.functions or ()).union(*(own_names(split(text)) for text in texts))
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
    tokens = split(source)
    kept = own_names(tokens).union(own)
    reasons = _refusals(tokens, kept)
    if reasons:
        shown = "; ".join(f"{what} (line {line})" for line, what in reasons[:_MOST_REASONS])
        raise NoCounterpart(f"MUSA has no counterpart of {shown}")
    return join(_rename(tokens, kept))


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


def own_names(tokens: Sequence[Token]) -> frozenset[str]:
    """Names that a source defines itself, whatever they look like: macros, types, namespaces, functions."""
    found = set()
    for index, token in enumerate(tokens):
        if token.kind is not Kind.WORD or not _looks_foreign(token.text):
            continue
        if _is_type_definition(tokens, index) or _is_function_definition(tokens, index):
            found.add(token.text)
    return frozenset(found)


def _is_type_definition(tokens: Sequence[Token], index: int) -> bool:
    """A macro, or `struct name {`, which defines the type where `struct cudaDeviceProp p` uses it."""
    before = skip_space_back(tokens, index - 1)
    if before < 0 or tokens[before].is_word("define", "undef"):
        return before >= 0
    after = skip_space(tokens, index + 1)
    defines = after < len(tokens) and tokens[after].kind is Kind.SIGN and tokens[after].text in "{:;="
    return defines and tokens[before].is_word(*_DEFINING)


def _is_function_definition(tokens: Sequence[Token], index: int) -> bool:
    """`name(...) {`, where a call would be followed by an operator or a semicolon."""
    opening = skip_space(tokens, index + 1)
    if opening >= len(tokens) or not tokens[opening].is_sign("("):
        return False
    try:
        after = skip_space(tokens, closing_index(tokens, opening) + 1)
    except Unbalanced:
        return False
    return after < len(tokens) and tokens[after].is_sign("{")


@cache
def _looks_foreign(name: str) -> bool:
    return port_name(name) != name or _refused(name) is not None


def _refused(name: str) -> str | None:
    return next((what for form, what in names.REFUSED if form.fullmatch(name)), None)


def _refusals(tokens: Sequence[Token], own: frozenset[str]) -> list[tuple[int, str]]:
    """(line, what) of everything that has no counterpart, each kind once, in the order of the source."""
    found: dict[str, int] = {}
    for index, token in enumerate(tokens):
        what = None
        header = _header_at(tokens, index)
        if header:
            what = next((title for form, title in names.REFUSED_HEADERS if form.fullmatch(header[0])), None)
        elif token.kind is Kind.WORD and token.text not in own:
            what = _refused(token.text)
            if token.text == "__CUDA_ARCH__" and _architecture_at(tokens, index) is None:
                thresholds = " and ".join(names.ARCHITECTURES)
                what = f"this comparison of __CUDA_ARCH__ (only `>=` and `<` with {thresholds} have one)"
            elif token.is_word("Device") and _names_cuda(tokens, index):
                what = "a device named in a C++ string (use torch::kCUDA)"
        if what:
            found.setdefault(what, token.line)
    return sorted((line, what) for what, line in found.items())


def _names_cuda(tokens: Sequence[Token], index: int) -> bool:
    """`Device("cuda")`: a string, but one that says where to compute."""
    bracket = skip_space(tokens, index + 1)
    text = skip_space(tokens, bracket + 1)
    return text < len(tokens) and tokens[bracket].text in "({" and bool(_DEVICE_NAME.fullmatch(tokens[text].text))


def _rename(tokens: Sequence[Token], own: frozenset[str]) -> list[Token]:
    result = list(tokens)
    for index, token in enumerate(tokens):
        header = _header_at(tokens, index)
        if header:
            name, start, end = header
            opening, closing = tokens[start].text[0], tokens[end - 1].text[-1]
            result[start] = tokens[start]._replace(text=opening + port_header(name) + closing)
            result[start + 1 : end] = [passed._replace(text="") for passed in tokens[start + 1 : end]]
        elif token.kind is Kind.STRING and result[index].text.startswith('"'):
            result[index] = token._replace(text=_IN_MESSAGE.sub("MUSA", result[index].text))
        elif result[index].text and token.kind is Kind.WORD and token.text not in own:
            result[index] = token._replace(text=_renamed(tokens, index))
            threshold = _architecture_at(tokens, index) if token.text == "__CUDA_ARCH__" else None
            if threshold is not None and threshold >= 0:
                number = tokens[threshold]
                result[threshold] = number._replace(text=names.ARCHITECTURES[number.text])
    return result


def _renamed(tokens: Sequence[Token], index: int) -> str:
    text = tokens[index].text
    if text == "cuda" and _qualifier(tokens, index) in names.CUDA_NAMESPACE_OF:
        return "musa"
    if text == "cuda" and _is_nested_namespace(tokens, index):
        return "musa"
    if text == "CUDA" and (_qualifier(tokens, index) in names.CUDA_MEMBER_OF or _is_dispatch_key(tokens, index)):
        return names.DEVICE_KEY
    return port_name(text)


def _is_nested_namespace(tokens: Sequence[Token], index: int) -> bool:
    """`cuda::getCurrentCUDAStream` after `using namespace at`, or `cuda::std`."""
    after = skip_space(tokens, index + 1)
    following = skip_space(tokens, after + 1)
    if following >= len(tokens) or not tokens[after].is_sign("::"):
        return False
    return tokens[following].is_word("std") or "CUDA" in tokens[following].text


def _qualifier(tokens: Sequence[Token], index: int) -> str:
    """The word before `::` before the token, or nothing."""
    mark = skip_space_back(tokens, index - 1)
    if mark < 0 or not tokens[mark].is_sign("::"):
        return ""
    word = skip_space_back(tokens, mark - 1)
    return tokens[word].text if word >= 0 else ""


def _is_dispatch_key(tokens: Sequence[Token], index: int) -> bool:
    """`TORCH_LIBRARY_IMPL(library, CUDA, m)`."""
    back = index
    for expected in (",", None, "(", "TORCH_LIBRARY_IMPL"):
        back = skip_space_back(tokens, back - 1)
        if back < 0 or (expected is not None and tokens[back].text != expected):
            return False
    return True


def _header_at(tokens: Sequence[Token], index: int) -> tuple[str, int, int] | None:
    """Name and tokens (first, one past the last) of the header, if an `#include` is at `index`."""
    before = skip_space_back(tokens, index - 1)
    if not tokens[index].is_word("include") or before < 0 or not tokens[before].is_sign("#"):
        return None
    start = skip_space(tokens, index + 1)
    if start >= len(tokens):
        return None
    if tokens[start].kind is Kind.STRING and len(tokens[start].text) > 2:
        return tokens[start].text[1:-1], start, start + 1
    if not tokens[start].is_sign("<"):
        return None
    end = start + 1
    while end < len(tokens) and not tokens[end].is_sign(">") and "\n" not in tokens[end].text:
        end += 1
    if end >= len(tokens) or not tokens[end].is_sign(">"):
        return None
    return join(tokens[start + 1 : end]), start, end + 1


def _architecture_at(tokens: Sequence[Token], index: int) -> int | None:
    """Where the number is that `__CUDA_ARCH__` is compared with; -1 for no comparison; None for one without equal."""
    if _is_tested_for_definition(tokens, index):
        return -1
    after = skip_space(tokens, index + 1)
    sign = join(tokens[after : after + 2])
    if sign == ">=":
        number = skip_space(tokens, after + 2)
    elif sign.startswith("<") and sign != "<=":
        number = skip_space(tokens, after + 1)
    else:
        return None
    return number if number < len(tokens) and tokens[number].text in names.ARCHITECTURES else None


def _is_tested_for_definition(tokens: Sequence[Token], index: int) -> bool:
    """`#ifdef __CUDA_ARCH__`, `defined(__CUDA_ARCH__)`."""
    before = skip_space_back(tokens, index - 1)
    if before >= 0 and tokens[before].is_sign("("):
        before = skip_space_back(tokens, before - 1)
    return before >= 0 and tokens[before].is_word("ifdef", "ifndef", "defined", "elifdef", "elifndef")
