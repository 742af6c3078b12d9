"""Findings about headers: an include alone is none; a name that is used of it, or that macros can join, is."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import yaml

from musadata.cpp import Unbalanced
from musadata.records import Finding
from musadata.verifier.rules import catalogue as rules
from musadata.verifier.rules.name_lists import read_name_lists
from musadata.verifier.rules.native.tokens import Token, closing_index

INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*([<\"])([^>\"\n]+)[>\"]", re.MULTILINE)
_OTHER_INCLUDE = re.compile(r"^[ \t]*#[ \t]*(include(?:_next)?|embed)[ \t]+(?![<\"])", re.MULTILINE)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\(?)((?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
_WORD = re.compile(r"\w+")
# Macros of PyTorch's and others' headers that join names.
_JOINS = re.compile(r"\w*(CONCAT|PASTE|JOIN|_CAT)\w*")

# A macro's own name for a library: others may stand for what a header uses.
_OF_LIBRARY = re.compile(r"(?!AT_|TORCH_|C10_)\w*(CUBLAS|CUDNN|CUSPARSE|CUSOLVER|CUFFT|CUTENSOR|CURAND|NVRTC)\w*")

_LIBRARIES: dict[str, list[str]] = yaml.safe_load(
    Path(__file__).with_name("libraries.yaml").read_text(encoding="utf-8")
)
_NAMES = read_name_lists(Path(__file__).with_name("names.txt"))
_SYSTEM_HEADERS = frozenset(_NAMES["system_headers"])
_SYSTEM_FUNCTIONS = frozenset((*_NAMES["system_functions"], *_NAMES["system_calls"]))
_LINKED_TYPES = frozenset(_NAMES["linked_types"])

# Of libraries that are templates: names that launch kernels of the library's from the host. Others compute inside one.
_LAUNCHES = {
    "CUB": re.compile(r"Device[A-Z]\w*"),
    "Thrust": re.compile("|".join(_NAMES["thrust_algorithms"])),
    "CUTLASS": re.compile(r"(?!)"),
    "CuTe": re.compile(r"(?!)"),
}


def library_rule(title: str, names: Sequence[str]) -> rules.Rule:
    """The rule for a library of this title of which these names are used."""
    launches = _LAUNCHES.get(title)
    if launches is None or any(map(launches.fullmatch, names)):
        return rules.LEGALITY_LIBRARY
    return rules.LEGALITY_DEVICE_TEMPLATE


def library_of(header: str) -> str:
    """The library's key in libraries.yaml; "" for other headers."""
    return next((prefix for prefix in _LIBRARIES if header.strip().startswith(prefix)), "")


def unused_macro_lines(sources: Sequence[str]) -> list[frozenset[int]]:
    """For each source the lines of macros that are named after a library and used nowhere."""
    texts = list(sources)
    lines = [set[int]() for _ in sources]
    found = True
    while found:
        count = Counter(word for text in texts for word in _WORD.findall(text))
        found = False
        for at, text in enumerate(texts):
            for define in reversed(list(_DEFINE.finditer(text))):
                if count[define[1]] == 1 and _OF_LIBRARY.fullmatch(define[1]):
                    first = text.count("\n", 0, define.start()) + 1
                    lines[at].update(range(first, first + define[0].count("\n") + 1))
                    texts[at] = texts[at][: define.start()] + "\n" * define[0].count("\n") + texts[at][define.end() :]
                    found = True
    return [frozenset(one) for one in lines]


def joined_pieces(sources: Sequence[str], streams: Sequence[Sequence[Token]]) -> frozenset[str]:
    """The words of which macros can make others: those in macros and between the brackets of their uses."""
    defines = [define for source in sources for define in _DEFINE.finditer(source)]
    called = {define[1] for define in defines if define[2]}
    words = [word for define in defines for word in _WORD.findall(define[3])]
    joins = any("##" in define[3] for define in defines)
    for stream in streams:
        for index, (token, after) in enumerate(pairwise(stream)):
            is_join = _JOINS.fullmatch(token.text) is not None
            if after.text != "(" or not (is_join or token.text in called):
                continue
            joins = joins or is_join
            try:
                end = closing_index(stream, index + 1)
            except Unbalanced:
                end = len(stream)
            words += [one.text for one in stream[index + 2 : end] if _WORD.fullmatch(one.text)]
    return frozenset(words) if joins else frozenset()


def check_includes(
    source: str, stream: Sequence[Token], unreached: Collection[int], pieces: Collection[str]
) -> Iterator[Finding]:
    """Findings about the headers of a source.

    Args:
        stream: its tokens, without includes.
        unreached: lines that no call reaches, where computing, threads and files are no findings.
        pieces: see `joined_pieces`.
    """
    reached = [token for token in stream if token.line not in unreached]
    for match in INCLUDE.finditer(source):
        header = match[2].strip()
        line = source.count("\n", 0, match.start()) + 1
        name = header.removeprefix("./")
        if name in _SYSTEM_HEADERS:
            visible = [token for token in stream if token.text not in _LINKED_TYPES or token.line not in unreached]
            yield from _check_system_header(header, visible, pieces, line)
        if name.startswith(("/", "..")) or "/../" in name:
            yield rules.LEGALITY_SYSTEM.worded(f"The path {header} leads out of the sources.", line)
        if library_of(name):
            yield from _check_library(library_of(name), header, reached, pieces, line)

    for match in _OTHER_INCLUDE.finditer(source):
        line = source.count("\n", 0, match.start()) + 1
        yield rules.LEGALITY_SYSTEM.worded(f"#{match[1]} of a computed name cannot be checked.", line)


def _check_library(
    library: str, header: str, stream: Sequence[Token], pieces: Collection[str], line: int
) -> Iterator[Finding]:
    title, *names = _LIBRARIES[library]
    rule = library_rule(title, [token.text for token in stream])
    prefix = "" if names else library
    names = names or [library]
    for token in stream:
        text = token.text.lower() if prefix else token.text
        if token.kind == "word" and (text.startswith(prefix) if prefix else text in names):
            yield rule.finding(f"{token.text} of <{header}>", title, line=token.line)
            return
    for name in names:
        joined = _join(name, pieces, open_ended=bool(prefix))
        if joined:
            what = f"{name} of <{header}>, which macros can join from {' and '.join(joined)},"
            yield rule.finding(what, title, line=line)
            return


def _check_system_header(header: str, stream: Sequence[Token], pieces: Collection[str], line: int) -> Iterator[Finding]:
    declared = {
        token.text
        for before, token, after in zip(stream, stream[1:], stream[2:], strict=False)
        if after.text == "(" and (before.text in ("*", "&") or before.kind == "word") and before.text != "return"
    }
    for index, token in enumerate(stream):
        before = stream[index - 1].text if index else ""
        after = stream[index + 1].text if index + 1 < len(stream) else ""
        is_function = token.text in _SYSTEM_FUNCTIONS and after == "(" and token.text not in declared
        is_function = is_function and not (token.text == "bind" and before == "::" and stream[index - 2].text == "std")
        if (is_function or token.text in _LINKED_TYPES) and before not in (".", "->"):
            text = f"{token.text} of <{header}> gives access to the system, which a kernel does not need."
            yield rules.LEGALITY_SYSTEM.worded(text, token.line)
            return
    for name in sorted(_SYSTEM_FUNCTIONS | _LINKED_TYPES):
        joined = _join(name, pieces, open_ended=False)
        if joined:
            text = f"Macros can join {' and '.join(joined)} to {name} of <{header}>, which gives access to the system."
            yield rules.LEGALITY_SYSTEM.worded(text, line)
            return


def _join(name: str, pieces: Collection[str], *, open_ended: bool, begun: bool = False) -> list[str]:
    """Two or more pieces that make a name, or, if it is open-ended, one that begins so; empty if there are none."""
    for piece in sorted(pieces):
        if begun and (piece == name or (open_ended and piece.startswith(name))):
            return [piece]
        if len(piece) < len(name) and name.startswith(piece):
            rest = _join(name[len(piece) :], pieces, open_ended=open_ended, begun=True)
            if rest:
                return [piece, *rest]
    return []
