"""Licences of files, as SPDX identifiers."""

import re
from pathlib import Path, PurePosixPath

import yaml

_LISTED: dict[str, dict[str, str]] = yaml.safe_load(
    Path(__file__).with_name("licenses.yaml").read_text(encoding="utf-8")
)
PHRASES, HEADERS = _LISTED["phrases"], _LISTED["headers"]
CLASSIFIERS, NAMES = _LISTED["classifiers"], _LISTED["names"]
NON_COMMERCIAL = re.compile(r"non-?commercial(ly)?\b|research (or evaluation )?purposes only", re.I)
SPDX_HEADER = re.compile(r"SPDX-License-Identifier:\s*([\w.+\- ()]+?)\s*(?:\*/|-->|#|\"|$)", re.MULTILINE)
LICENSE_FILE = re.compile(r"^(LICEN[CS]E|COPYING|UNLICENSE|LICENSE-\w+)(\.(txt|md|rst))?$", re.I)
UNKNOWN = "NOASSERTION"


def identify_text(text: str) -> str:
    """The SPDX identifier of a licence's text; `NOASSERTION` where none is recognised, or a use is forbidden."""
    flat = " ".join(text.split())
    found = next((name for name, phrase in PHRASES.items() if re.search(phrase, flat, re.I | re.DOTALL)), UNKNOWN)
    permissive = found.startswith(("MIT", "BSD", "Apache", "ISC"))
    if permissive and NON_COMMERCIAL.search(flat) and len(flat) < 8000:
        return UNKNOWN
    return found


def header_license(text: str) -> str:
    """The licence that a source file names in its first lines, "" if it names none."""
    head = "\n".join(text.splitlines()[:40])
    named = SPDX_HEADER.search(head)
    if named:
        return named[1].strip()
    comment = "\n".join(
        line.lstrip("#/* ") for line in head.splitlines() if line.lstrip().startswith(("#", "//", "*", "/*"))
    )
    flat = " ".join(comment.split())
    stated = next((name for name, phrase in HEADERS.items() if re.search(phrase, flat, re.I)), "")
    return stated or (UNKNOWN if NON_COMMERCIAL.search(flat) else "")


def license_of(path: str, header: str, by_folder: dict[str, str], fallback: str) -> str:
    """A file's licence: what it says itself, else the nearest licence file above it, else `fallback`.

    Args:
        by_folder: folder ("" for the top) -> licence of the licence file in it.
    """
    if header:
        return header
    for folder in PurePosixPath(path).parents:
        name = "" if str(folder) == "." else str(folder)
        if name in by_folder:
            return by_folder[name]
    return fallback or UNKNOWN


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
