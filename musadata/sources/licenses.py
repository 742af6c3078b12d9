"""Licences of files, as SPDX identifiers."""

import re
from pathlib import PurePosixPath

# What only this licence's text says, most specific first.
PHRASES: tuple[tuple[str, str], ...] = (
    ("AGPL-3.0", r"GNU AFFERO GENERAL PUBLIC LICENSE\s+Version 3"),
    ("LGPL-3.0", r"GNU LESSER GENERAL PUBLIC LICENSE\s+Version 3"),
    ("LGPL-2.1", r"GNU LESSER GENERAL PUBLIC LICENSE\s+Version 2\.1"),
    ("GPL-3.0", r"GNU GENERAL PUBLIC LICENSE\s+Version 3"),
    ("GPL-2.0", r"GNU GENERAL PUBLIC LICENSE\s+Version 2"),
    ("MPL-2.0", r"Mozilla Public License,? Version 2\.0"),
    ("CC-BY-NC-4.0", r"Attribution-NonCommercial 4\.0"),
    ("CC-BY-NC-SA-4.0", r"Attribution-NonCommercial-ShareAlike 4\.0"),
    ("CC-BY-4.0", r"Attribution 4\.0 International"),
    ("CC0-1.0", r"CC0 1\.0 Universal"),
    ("Apache-2.0", r"Apache License,?\s+Version 2\.0"),
    ("Unlicense", r"free and unencumbered software released into the public domain"),
    ("BSL-1.0", r"Boost Software License - Version 1\.0"),
    ("BSD-3-Clause-Clear", r"NO EXPRESS OR IMPLIED LICENSES TO ANY PARTY'S PATENT RIGHTS"),
    (
        "BSD-3-Clause",
        r"Redistribution and use in source and binary forms.*(used to endorse|nor the names? of|Neither the name)",
    ),
    ("BSD-2-Clause", r"Redistribution and use in source and binary forms"),
    (
        "ISC",
        r"Permission to use, copy, modify, and/?(or)? distribute this software for any purpose with or without fee",
    ),
    ("Zlib", r"This software is provided 'as-is', without any express or implied warranty.*altered source"),
    ("MIT", r"Permission is hereby granted, free of charge, to any person obtaining a copy"),
)
NON_COMMERCIAL = re.compile(r"non-?commercial(ly)?\b|research (or evaluation )?purposes only", re.I)
SPDX_HEADER = re.compile(r"SPDX-License-Identifier:\s*([\w.+\- ()]+?)\s*(?:\*/|-->|#|\"|$)", re.MULTILINE)
LICENSE_FILE = re.compile(r"^(LICEN[CS]E|COPYING|UNLICENSE|LICENSE-\w+)(\.(txt|md|rst))?$", re.I)
CLASSIFIERS = {
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: BSD License": "BSD-3-Clause",
    "License :: OSI Approved :: ISC License (ISCL)": "ISC",
    "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "License :: CC0 1.0 Universal (CC0 1.0) Public Domain Dedication": "CC0-1.0",
    "License :: OSI Approved :: The Unlicense (Unlicense)": "Unlicense",
}
NAMES = {
    "mit": "MIT", "mit license": "MIT", "apache 2.0": "Apache-2.0", "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0", "apache-2": "Apache-2.0", "apache": "Apache-2.0",
    "bsd": "BSD-3-Clause", "bsd license": "BSD-3-Clause", "new bsd": "BSD-3-Clause", "bsd 3-clause": "BSD-3-Clause",
    "3-clause bsd": "BSD-3-Clause", "isc": "ISC", "unlicense": "Unlicense",
}  # fmt: skip
UNKNOWN = "NOASSERTION"


def identify_text(text: str) -> str:
    """The SPDX identifier of a licence's text; `NOASSERTION` where none is recognised, or a use is forbidden."""
    flat = " ".join(text.split())
    found = next((name for name, phrase in PHRASES if re.search(phrase, flat, re.I | re.DOTALL)), UNKNOWN)
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
    if re.search(r"licensed under the apache license,? version 2\.0", " ".join(comment.split()), re.I):
        return "Apache-2.0"
    if re.search(r"licensed under the mit license|\bMIT licen[cs]e\b", " ".join(comment.split()), re.I):
        return "MIT"
    if NON_COMMERCIAL.search(" ".join(comment.split())):
        return UNKNOWN
    return ""


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
