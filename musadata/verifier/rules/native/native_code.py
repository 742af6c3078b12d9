"""Static legality of C++ and CUDA sources: compute of libraries or ATen, and access to the system or to Python.

Works on tokens, so that comments and strings neither trigger a rule nor hide anything. What tokens cannot decide, such
as the type of a receiver, is left to the run-time checks, which see every operator that is dispatched.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from musadata.cpp import Unbalanced
from musadata.records import Finding
from musadata.verifier.rules import catalogue as rules
from musadata.verifier.rules.aten_operators import compute_operators
from musadata.verifier.rules.name_lists import read_name_lists
from musadata.verifier.rules.native.called_functions import unreached_lines
from musadata.verifier.rules.native.included_headers import (
    INCLUDE,
    check_includes,
    joined_pieces,
    library_of,
    library_rule,
    unused_macro_lines,
)
from musadata.verifier.rules.native.tokens import Token, closing_index, read_tokens

_NAMES = read_name_lists(Path(__file__).with_name("names.txt"))  # see the comments there
_LIBRARY_CALL = re.compile(r"^(cublas|cudnn|cusparse|cusolver|cufft|cutensor|nvrtc|mublas|mudnn)([A-Z_]\w*)?$")
_LIBRARY_NAMESPACES = {"cub": "CUB", "thrust": "Thrust", "cutlass": "CUTLASS", "cute": "CuTe", "blas": "at::cuda::blas"}
_SYSTEM_CALLS = frozenset(_NAMES["system_calls"])
# Python's C API, except the functions that define a module or raise an exception.
_PYTHON_CALLS = re.compile(r"^_?Py(?!Init_|Module_Create|ModuleDef_|Exc_|Err_(?:SetString|Format)$)[A-Z][A-Za-z]*_\w+$")
_PYBIND = frozenset({"py", "pybind11", "module_", "module"})
_PYBIND_CALLS = frozenset({"exec", "eval", "import", "globals", "object_api"})
_DISPATCH_GUARDS = frozenset(_NAMES["dispatch_guards"])
_TO_HOST = frozenset(_NAMES["to_host"])
_TENSOR_FUNCTIONS = frozenset(_NAMES["tensor_functions"])
_PLAIN_METHODS = frozenset(_NAMES["plain_methods"])
_REGISTRATIONS = {"TORCH_LIBRARY_IMPL", "TORCH_LIBRARY_FRAGMENT"}
_GRAPHS = re.compile(r"^(cudaGraph(?!(?:Exec)?Destroy$)\w*|cudaStreamBeginCapture\w*|cudaStreamEndCapture\w*)$")
# The verifier's own names, and attributes that hide code from its checks.
_VERIFIER = re.compile(
    r"^(musadata_\w+|EMULATOR_\w+|__(t|ub)san_\w+|\w*no_sanitize\w*|__(real|wrap)_\w+"
    r"|__SANITIZE_\w+|\w*thread_sanitizer\w*)$"
)
_RECORDS = re.compile(r"musadata_(take|set_(?!error)|configure|reset|device|begin|end|kept|keep)\w*|__(real|wrap)_\w+")
_STD_LINKED = {"ofstream", "ifstream", "fstream", "filesystem", "thread", "jthread", "async"}
_ATEN = {"at", "torch", "aten"}
# Of code that nothing reaches these are no findings. What of it the linker keeps is checked there, and when it runs.
_IF_REACHED = {
    rule.id
    for rule in (
        *(rules.LEGALITY_ATEN, rules.LEGALITY_LIBRARY, rules.LEGALITY_DEVICE_TEMPLATE, rules.LEGALITY_HOST),
        rules.LEGALITY_GRAPH,
    )
}
_NOT_OPERATORS = frozenset(_NAMES["not_operators"])


def check_native_code(sources: Sequence[str], called: frozenset[str] | None = None) -> tuple[Finding, ...]:
    """Findings about all sources of one extension; each line counts in its own source.

    What a function computes with PyTorch or a library, and the threads, files and graphs that it opens, are no findings
    if no name in `called` leads to it, nor is what a macro would compute that is never used.
    """
    return _check(tuple(sources), called)


@lru_cache(maxsize=32)  # speculative compilation checks the same sources ahead
def _check(sources: tuple[str, ...], called: frozenset[str] | None) -> tuple[Finding, ...]:
    findings: list[Finding] = []
    kernels = False
    unreached = [frozenset[int]() for _ in sources] if called is None else unreached_lines(sources, called)
    unreached = [one | more for one, more in zip(unreached, unused_macro_lines(sources), strict=True)]
    plain = [read_tokens(INCLUDE.sub("", source)) for source in sources]
    pieces = joined_pieces(sources, plain)
    for source, words, lines in zip(sources, plain, unreached, strict=True):
        findings += check_includes(source, words, lines, pieces)
        stream = read_tokens(INCLUDE.sub(lambda line: "" if library_of(line[2]) else line[0], source))
        kernels = kernels or any(token.text == "__global__" for token in stream)
        found = _check_tokens(stream, lines)
        findings += [one for one in found if not (one.rule in _IF_REACHED and one.line in lines)]
    if not kernels:
        findings.append(rules.LEGALITY_NO_KERNEL.finding("__global__ kernel"))
    return tuple(findings)


def _check_tokens(stream: list[Token], unreached: Collection[int]) -> Iterator[Finding]:
    opened = _opened_names(stream)
    enums = _own_enums(stream)
    for index, token in enumerate(stream):
        if token.kind == "string" and ".incbin" in token.text:
            yield rules.LEGALITY_SYSTEM.worded(".incbin reads a file of the host.", token.line)
        if token.kind != "word":
            continue
        before = stream[index - 1].text if index else ""
        qualifier = stream[index - 2].text if before == "::" and index > 1 else ""
        after = stream[index + 1].text if index + 1 < len(stream) else ""
        if token.text == "attr" and before in (".", "->") and not _defines_attribute(stream[index + 1 : index + 5]):
            yield rules.LEGALITY_PYTHON_ESCAPE.finding("attr()", line=token.line)
        if token.text in _REGISTRATIONS and [t.text for t in stream[index + 1 : index + 3]] == ["(", "aten"]:
            text = f"{token.text}(aten, ...) replaces PyTorch's own operators."
            yield rules.LEGALITY_PATCH.worded(text, token.line)
        system = _system_finding(token, qualifier, before, after)
        if qualifier == "std" and token.text in _STD_LINKED and token.line not in unreached:
            text = f"std::{token.text}: no threads or files of its own."
            system = system or rules.LEGALITY_SYSTEM.worded(text, token.line)
        if system:
            yield system
        elif not (token.text == "native" and _names_enum(stream, index, enums)):
            member = stream[index + 2].text if index + 2 < len(stream) else ""
            compute = _compute_finding(token, qualifier, before, after, member) or _host_finding(token)
            if compute:
                yield compute
            elif token.text in opened and after == "(" and before not in (".", "->", "::"):
                yield _aten(f"{token.text}()", token)


def _defines_attribute(following: list[Token]) -> bool:
    """Whether `attr` is followed by `("name") =`, which defines an attribute of the candidate's own module."""
    return len(following) == 4 and following[1].kind == "string" and [t.text for t in following[2:]] == [")", "="]


def _own_enums(stream: list[Token]) -> frozenset[str]:
    """Enumerations that a source defines in its own blocks of a namespace `native`, under names that no function of
    PyTorch has: theirs begin in lower case."""
    texts = [token.text for token in stream]
    found = set[str]()
    for index, text in enumerate(texts):
        if text == "native" and texts[index - 1 : index] in (["namespace"], ["::"]):
            words = [word for word in _block_after(stream, index) if word not in ("class", "struct")]
            found |= {name for before, name in pairwise(words) if before == "enum" and name[0].isupper()}
    return frozenset(found)


def _block_after(stream: list[Token], index: int) -> list[str]:
    """The block in braces that the name at `index` opens; empty if it opens none."""
    start = next((at for at in range(index, len(stream)) if stream[at].text in ("{", ";", "(", "=")), index)
    if stream[start].text != "{":
        return []
    try:
        return [token.text for token in stream[start : closing_index(stream, start)]]
    except Unbalanced:
        return []


def _names_enum(stream: list[Token], index: int, enums: frozenset[str]) -> bool:
    """Whether the qualified name that goes through `stream[index]` is that of one of these, or of its values."""
    words = []
    while index + 2 < len(stream) and stream[index + 1].text == "::":
        index += 2
        words.append(stream[index].text)
    after = stream[index + 1].text if index + 1 < len(stream) else ""
    return bool(enums.intersection(words[-2:])) and after not in ("(", "<")


def _opened_names(stream: list[Token]) -> frozenset[str]:
    """Operators that a source can call by their bare names after `using namespace torch`, less those it defines."""
    texts = [token.text for token in stream]
    triples = zip(texts, texts[1:], texts[2:], strict=False)
    if not any(first == "using" and second == "namespace" and third in _ATEN for first, second, third in triples):
        return frozenset()
    own = {
        name
        for kind, name, mark in zip((t.kind for t in stream), texts[1:], texts[2:], strict=False)
        if kind == "word" and mark == "("
    }
    called = {name for before, name in pairwise(texts) if before in ("return", "else")}
    return (_PLAIN_METHODS | _TENSOR_FUNCTIONS) - (own - called)


def is_way_out(name: str) -> bool:
    """Whether a function of this name accesses the system, or the verifier's own records."""
    return name in _SYSTEM_CALLS or _RECORDS.fullmatch(name) is not None


def _system_finding(token: Token, qualifier: str, before: str, after: str) -> Finding | None:
    name, called = token.text, after == "("
    free = before not in (".", "->") and not (before == "::" and qualifier)
    if name in _SYSTEM_CALLS and called and (free or qualifier == "std") and not _declares(before):
        return rules.LEGALITY_SYSTEM.worded(f"{name}() is a way out of the kernel's job.", token.line)
    if _VERIFIER.match(name) or (name == "emulator" and after == "::"):
        return rules.LEGALITY_SYSTEM.worded(f"{name} reaches for the verifier itself.", token.line)
    if _PYTHON_CALLS.match(name):
        return rules.LEGALITY_PYTHON_ESCAPE.finding(f"{name}()", line=token.line)
    if qualifier in _PYBIND and name in _PYBIND_CALLS:
        return rules.LEGALITY_PYTHON_ESCAPE.finding(f"{qualifier}::{name}", line=token.line)
    if _GRAPHS.match(name) and called:
        return rules.LEGALITY_GRAPH.finding(name, line=token.line)
    return None


def _host_finding(token: Token) -> Finding | None:
    """A way to the host that no run-time check counts, where code other than a kernel could compute with data."""
    if token.text.removesuffix("_v2") in _TO_HOST:
        return rules.LEGALITY_HOST.finding(token.text, line=token.line)
    return None


def _declares(before: str) -> bool:
    """Whether the token before a name says that the candidate declares a function of this name."""
    return before in ("void", "int", "float", "auto", "Tensor", "bool", "double", "static", "inline", "*", "&")


def _compute_finding(token: Token, qualifier: str, before: str, after: str, member: str) -> Finding | None:
    name = token.text
    if _LIBRARY_CALL.match(name):
        return rules.LEGALITY_LIBRARY.finding(name, "a library", line=token.line)
    if name in _DISPATCH_GUARDS:
        return rules.LEGALITY_ATEN.worded(f"{name} hides what PyTorch computes.", token.line)
    if name in ("callBoxed", "findSchemaOrThrow", "redispatchBoxed"):
        return rules.LEGALITY_ATEN.worded(f"{name}() asks PyTorch's dispatcher to compute.", token.line)
    if name in _LIBRARY_NAMESPACES and after == "::":
        title = _LIBRARY_NAMESPACES[name]
        return library_rule(title, [member]).finding(f"{name}::{member}", title, line=token.line)
    if name in ("nn", "native", "_ops") and qualifier in _ATEN and after == "::":
        return _aten(f"{qualifier}::{name}", token, f"{qualifier}::{name}")
    if qualifier in _ATEN and after in ("(", "<", ";", ")") and name in compute_operators() - _NOT_OPERATORS:
        return _aten(f"{qualifier}::{name}", token)
    if before in (".", "->") and after == "(" and name in _PLAIN_METHODS:
        return _aten(f".{name}()", token)
    return None


def _aten(what: str, token: Token, operator: str = "") -> Finding:
    return rules.LEGALITY_ATEN.finding(what, line=token.line, operator=operator or f"aten.{token.text}")
