"""Licences of files, as SPDX expressions.

ScanCode (scancode-toolkit-mini 32.5) was tried: 731 MB with 77 packages, 36 s and 1.4 GB for its index, 2.6 s a file.
It labels the files that this reader is measured on. Here a permissive licence needs a text that says so, and what
restricts a use and is not understood is `NOASSERTION`, which no list of allowed licences holds.
"""

import ast
import io
import re
import tokenize
from collections.abc import Collection, Iterable
from pathlib import Path, PurePosixPath

import yaml

_LISTED = yaml.safe_load(Path(__file__).with_name("licenses.yaml").read_text(encoding="utf-8"))
PHRASES, HEADERS, CLASSIFIERS, NAMES = (_LISTED[name] for name in ("phrases", "headers", "classifiers", "names"))
USUAL = re.compile("|".join(_LISTED["usual"]), re.I)
RESTRICTING = re.compile("|".join(_LISTED["restricting"]), re.I)
REFERRING = re.compile("|".join(_LISTED["referring"]), re.I)
MENTIONING = re.compile(r"\blicen[cs](e|ed|es|ing)\b", re.I)
SPDX_HEADER = re.compile(r"SPDX-License-Identifier:\s*([\w.+\- ()]+?)\s*(?:\*/|-->|#|\"|$)", re.MULTILINE)
LICENSE_FILE = re.compile(r"^((UN)?LICEN[CS]E|COPYING|NOTICE)([-_.].*)?$", re.I)
OF_OTHERS = re.compile(r"third|3rd|notice|depend|bundled|vendor", re.I)  # files that list licences of other code
NOT_TEXTS = re.compile(r"\.(py|pyi|c|cc|cpp|h|cu|js|ts|go|rs|java|sh|json|ya?ml|toml)$", re.I)
# Of native code, and of Python that this version cannot parse: strings, such as classifiers, say nothing of the file.
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|^[ \t]*#[^\n]*|\"\"\".*?\"\"\"|\'\'\'.*?\'\'\'", re.DOTALL | re.MULTILINE)
# Where a licence's file goes on with those of others, as wheels of torch and numpy do.
BUNDLED = re.compile(r"^.*\bdistributions?\b[^\n]*\bbundles?\b", re.I | re.M)
UNKNOWN = "NOASSERTION"
PERMISSIVE = ("MIT", "BSD", "Apache", "ISC", "Zlib", "BSL", "Unlicense", "CC0", "0BSD")


def identify_text(text: str) -> str:
    """The SPDX expression of a licence's text; `NOASSERTION` where none is recognised, or a use is restricted. What is
    listed behind it as bundled has licences of its own."""
    flat = _flat(BUNDLED.split(text, maxsplit=1)[0])
    found = next((name for name, phrase in PHRASES.items() if re.search(phrase, flat, re.I | re.DOTALL)), UNKNOWN)
    return UNKNOWN if found.startswith(PERMISSIVE) and restricts(flat) else found


def restricts(text: str) -> bool:
    """Whether a text restricts a use, apart from the usual conditions of permissive licences."""
    return RESTRICTING.search(USUAL.sub(" ", _flat(text))) is not None


def header_license(text: str) -> str:
    """The licence that a source file names in its comments, "" if it names none; all of them, if it names several."""
    comments = _comments(text)
    named = dict.fromkeys(item.strip() for item in SPDX_HEADER.findall(comments))
    flat = _flat(SPDX_HEADER.sub(" ", comments))
    if restricts(flat):
        return UNKNOWN
    for table in (PHRASES, HEADERS):
        found = [name for name, phrase in table.items() if re.search(phrase, flat, re.I | re.DOTALL)]
        named |= dict.fromkeys(found[:1] if table is PHRASES else found)
    if named:
        return all_of(named)
    unread = MENTIONING.search(REFERRING.sub(" ", _flat(_comments(text, first=True))))
    return UNKNOWN if unread else ""


def _comments(text: str, *, first: bool = False) -> str:
    """The comments and docstrings of a file. `first`: only those before its first statement."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        found = COMMENT.findall(text[:8000] if first else text)
        return "\n".join(re.sub(r"^[\s/*#\"']+", "", comment, flags=re.M) for comment in found)
    strings = [node for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    end = next((item.lineno for item in tree.body if first and item not in strings), len(text) + 1)
    found = [str(item.value.value) for item in strings if item.lineno < end]  # type: ignore[attr-defined]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and token.start[0] < end:
            found.append(token.string.lstrip("#! "))
    return "\n".join(found)


def _flat(text: str) -> str:
    return " ".join(text.split())


def all_of(licenses: Iterable[str]) -> str:
    """The expression of code under all of these licences; `NOASSERTION` if one of them is unknown."""
    named = sorted({item for item in licenses if item})
    if UNKNOWN in named:
        return UNKNOWN
    return " AND ".join(f"({item})" if len(named) > 1 and " OR " in item else item for item in named)


def is_allowed(expression: str, allowed: Collection[str]) -> bool:
    """Whether an SPDX expression holds with the allowed licences alone."""
    words = re.findall(r"[()]|[\w.+\-]+", re.sub(r"\s+WITH\s+\S+", "", expression))
    known = {"AND": "and", "OR": "or", "(": "(", ")": ")"}
    try:
        tree = ast.parse(" ".join(known.get(word) or str(word in allowed) for word in words), mode="eval").body
    except SyntaxError:
        return False
    return _holds(tree)


def _holds(node: ast.expr) -> bool:
    if isinstance(node, ast.BoolOp):
        return (all if isinstance(node.op, ast.And) else any)(map(_holds, node.values))
    return isinstance(node, ast.Constant) and node.value is True


def license_of(path: str, header: str, by_folder: dict[str, str], fallback: str) -> str:
    """A file's licence: what it says itself, else the nearest licence file above it, else `fallback`.

    Args:
        by_folder: folder ("" for the top) -> licence of the licence files in it.
    """
    if header:
        return header
    for folder in PurePosixPath(path).parents:
        name = "" if str(folder) == "." else str(folder)
        if name in by_folder:
            return by_folder[name]
    return fallback or UNKNOWN


def is_license_file(path: str) -> bool:
    """Whether a file states licences: LICENSE, COPYING, NOTICE and the like, or what stands in a folder LICENSES."""
    folder, _, name = path.rpartition("/")
    if NOT_TEXTS.search(name):
        return False
    return bool(LICENSE_FILE.match(name)) or folder.rpartition("/")[2] == "LICENSES"


def folder_licenses(files: Iterable[tuple[str, str]]) -> tuple[dict[str, str], dict[str, str]]:
    """Licences by folder, and `NOASSERTION` for single files that a notice restricts.

    Several licence texts of one folder hold together. A text that lists the licences of other code restricts the files
    that it names; if it names none, it restricts its whole folder.

    Args:
        files: paths and texts of all licence files.
    """
    own: dict[str, list[str]] = {}
    kept_apart: dict[str, list[str]] = {}
    restricted: dict[str, str] = {}
    for path, text in files:
        folder, _, name = path.rpartition("/")
        if folder.rpartition("/")[2] == "LICENSES":
            kept_apart.setdefault(folder.rpartition("/")[0], []).append(identify_text(text))
        elif OF_OTHERS.search(name):
            named = re.findall(r"[\w./\-]+\.(?:py|cu|cuh|cpp|cc|h)\b", text) if restricts(text) else []
            restricted |= dict.fromkeys((f"{folder}/{item}".strip("/") for item in named), UNKNOWN)
            if restricts(text) and not named:
                own.setdefault(folder, []).append(UNKNOWN)
        else:
            own.setdefault(folder, []).append(identify_text(text))
    return {folder: all_of(found) for folder, found in {**kept_apart, **own}.items()}, restricted


def metadata_license(expression: str, license_field: str, classifiers: list[str]) -> str:
    """What a distribution's metadata says, as one identifier if it says one."""
    if expression:
        return expression
    named = NAMES.get(license_field.strip().lower())
    found = [CLASSIFIERS[item] for item in classifiers if item in CLASSIFIERS]
    return (
        named
        or (found[0] if len(found) == 1 else "")
        or (license_field if re.fullmatch(r"[A-Za-z0-9.+\-]{3,40}", license_field) else UNKNOWN)
    )
