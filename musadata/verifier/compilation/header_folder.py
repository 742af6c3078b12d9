"""Folders of headers that stand in for CUDA's or PyTorch's, where most headers only include a few others.

Those are lines of a table, forwarding_headers.txt, beside the folder of the others.
"""

import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from musadata.verifier.compilation.build_cache import build_once, cache_folder, hash_of

_TABLE = "forwarding_headers.txt"


@cache
def read_forwarding_headers(include: Path) -> Mapping[str, list[str]]:
    """The headers that each header in the table beside `include` includes."""
    lines = include.with_name(_TABLE).read_text(encoding="utf-8").splitlines()
    rows = [line.split(":") for line in lines if not line.startswith("#")]
    return {name: targets.split() for name, targets in rows}


def build_header_folder(kind: str, include: Path) -> Path:
    """A copy of `include` with the headers of the table, in the cache; `kind` names it there."""

    def build(partial: Path) -> None:
        shutil.copytree(include, partial, dirs_exist_ok=True)
        for name, targets in read_forwarding_headers(include).items():
            header = partial / name
            header.parent.mkdir(parents=True, exist_ok=True)
            header.write_text("#pragma once\n" + "".join(f"#include <{target}>\n" for target in targets))

    return build_once(cache_folder() / f"{kind}-{_hash(include)}", build)


@cache
def _hash(include: Path) -> str:
    return hash_of(include, include.with_name(_TABLE), Path(__file__))
