"""Writes docs/columns.md from the descriptions in `musadata.records`, `musadata.training_rows` and `musadata.columns`.

python -m docs.generate_columns
"""

import dataclasses
import types
import typing
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

from musadata.columns import describe_columns
from musadata.corpus.datasets import DATASETS
from musadata.rows import hints_of

PAGE = Path(__file__).with_name("columns.md")
_HEAD = """# Columns

Written by `python -m docs.generate_columns` from the dataclasses of the rows; a test compares the two. The same texts
are in the Arrow metadata of each field (`description`), in `schemas/`, in `croissant.json` and in a corpus' card.

`[]` marks a list; the parts of a struct follow it.
"""


def render_page() -> str:
    """All datasets, each with its columns."""
    parts = [_HEAD]
    for name, dataset in DATASETS.items():
        about = dataset.purpose[:1].upper() + dataset.purpose[1:]
        rows = (f"| `{column}` | {kind} | {text} |" for column, kind, text in list_columns(dataset.kind))
        parts.append(
            "\n".join([f"## {name}", "", f"{about}.", "", "| column | type | meaning |", "|---|---|---|", *rows])
        )
    return "\n\n".join(part.strip() for part in parts) + "\n"


def list_columns(kind: type, prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """(name, type, meaning) of each column and of the parts of structs."""
    texts = describe_columns(kind)
    for name, hint in hints_of(kind).items():
        inner, marks, null = hint, "", ""
        if typing.get_origin(inner) in (typing.Union, types.UnionType):
            inner, null = next(one for one in typing.get_args(inner) if one is not type(None)), " or null"
        if typing.get_origin(inner) is tuple:
            inner, marks = typing.get_args(inner)[0], "[]"
        yield prefix + name + marks, f"{_type(inner)}{null}", texts[name].replace("|", "\\|")
        if dataclasses.is_dataclass(inner):
            yield from list_columns(typing.cast(type, inner), f"{prefix}{name}{marks}.")


def _type(kind: Any) -> str:
    if dataclasses.is_dataclass(kind):
        return "struct"
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return ", ".join(f"`{member.value}`" for member in kind)
    return {str: "string", int: "int64", float: "float64", bool: "bool"}[kind]


if __name__ == "__main__":
    PAGE.write_text(render_page(), encoding="utf-8")
