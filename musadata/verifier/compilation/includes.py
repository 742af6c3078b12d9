"""Finding names of PyTorch's and CUDA's headers that are used without the header, which no other compiler accepts.

The small headers and the emulator's declare in a few files what PyTorch and CUDA declare in many, so here a name is
known whatever is included. Which headers PyTorch's headers include is read from the installed PyTorch.
"""

import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import yaml

from musadata.computed_once import ComputedOnce
from musadata.cpp import WORD, Code
from musadata.verifier.compilation.build_cache import build_once, cache_folder, hash_of
from musadata.verifier.compilation.compile_errors import CompileError
from musadata.verifier.compilation.diagnostics import Diagnostic, render_diagnostics
from musadata.verifier.compilation.host_toolchain import find_toolchain
from musadata.verifier.compilation.sources import CandidateSources
from musadata.verifier.compilation.units import translation_units

# The headers that declare each name; the first is the one to include.
_HEADERS_OF: dict[str, list[str]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
_NAME = re.compile("|".join(f"(?P<group{at}>{names})" for at, names in enumerate(_HEADERS_OF)))
_MAY_NAME = re.compile(rf"\b(?:{'|'.join(_HEADERS_OF)})\b")
_HEADERS_OF_GROUP = {f"group{at}": declaring for at, declaring in enumerate(_HEADERS_OF.values())}
# A word that may be PyTorch's: in a namespace, or a macro's name.
_USE = rf"(?:::\s*|(?={WORD})(?=(?:[A-Z][A-Z0-9_]*|pybind11)(?![\w$])))({WORD})"
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"\n]+)[>\"]", re.MULTILINE)
_GRAPH = "includes.json"
# What `load_inline` puts before sources.
_IMPLICIT = {"cpp": ("torch/extension.h",), "cuda": ("torch/types.h", "cuda.h", "cuda_runtime.h")}


def refuse_missing_includes(sources: CandidateSources) -> None:
    """Check that the header of every name that is used is included.

    Raises:
        CompileError: the first use of every such name.
    """
    missing = _missing_includes(sources)
    if missing:
        units = [*translation_units(sources, "cpp"), *translation_units(sources, "cuda")]
        raise CompileError(render_diagnostics(missing, {name: text for unit in units for name, text in unit.items()}))


def _missing_includes(sources: CandidateSources) -> tuple[Diagnostic, ...]:
    own = dict(sources.headers)
    found: list[Diagnostic] = []
    for kind, headers in _IMPLICIT.items():
        for unit in translation_units(sources, kind):
            found += _missing(unit, own, () if sources.separate else headers)
    return tuple(found)


def _missing(unit: dict[str, str], own: dict[str, str], given: Iterable[str]) -> Iterator[Diagnostic]:
    texts = _with_own_headers(unit.values(), own)
    if not any(_MAY_NAME.search(text) for text in texts) or not _header_folder().is_dir():
        return
    headers = frozenset(given).union(*(_INCLUDE.findall(text) for text in texts))
    defined = {name for text in texts for name in re.findall(r"#[ \t]*define[ \t]+(\w+)", text)}
    for name, text in unit.items():
        code, seen = Code(text), set(defined)
        for use in code.find(_USE):
            match = None if use[1] in seen else _NAME.fullmatch(use[1])
            seen.add(use[1])
            if match is None:
                continue
            declaring = _HEADERS_OF_GROUP[str(match.lastgroup)]
            if not any(header in _included_by(headers) for header in declaring):
                message = f"'{use[1]}' is not declared here: #include <{declaring[0]}>"
                yield Diagnostic(name, code.line(use.start(1)), message)


def _with_own_headers(texts: Iterable[str], own: dict[str, str]) -> list[str]:
    """The texts, and those of the candidate's own headers that they include."""
    found, new = list(texts), list(texts)
    left = dict(own)
    while new:
        names = {name.removeprefix("./") for text in new for name in _INCLUDE.findall(text)} & left.keys()
        new = [left.pop(name) for name in sorted(names)]
        found += new
    return found


@lru_cache(maxsize=64)
def _included_by(headers: frozenset[str]) -> frozenset[str]:
    """These headers and all that PyTorch's among them include, under whatever condition."""
    found, new = set(headers), set(headers)
    while new:
        new = {include for header in new for include in _included_directly().get(header, ())} - found
        found |= new
    return frozenset(found)


@ComputedOnce
def _included_directly() -> dict[str, list[str]]:
    """What each of PyTorch's headers includes: thousands of files, so they are read once for all processes."""

    def read(folder: Path) -> None:
        root, found = _header_folder(), dict[str, list[str]]()
        for include in (root / "torch/csrc/api/include", root):  # the later one is searched first
            for path in filter(_is_header, include.rglob("*")):
                text = path.read_text(encoding="utf-8", errors="replace")
                found[str(path.relative_to(include))] = _INCLUDE.findall(text)
        (folder / _GRAPH).write_text(json.dumps(found), encoding="utf-8")

    toolchain = find_toolchain()
    key = hash_of(toolchain.torch_version, str(toolchain.torch_root), Path(__file__))
    folder = build_once(cache_folder() / f"includes-{key}", read)
    graph: dict[str, list[str]] = json.loads((folder / _GRAPH).read_text(encoding="utf-8"))
    return graph


def _is_header(path: Path) -> bool:
    return path.suffix in (".h", ".hpp", ".cuh") and path.is_file()


def _header_folder() -> Path:
    return find_toolchain().torch_root / "include"
