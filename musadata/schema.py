"""A dataset's Arrow schema and its JSON Schema, from the dataclass of its rows. One mapping for all datasets."""

import dataclasses
import types
import typing
from enum import StrEnum
from functools import cache
from typing import Any, Union

import pyarrow as pa

from musadata.rows import hints_of


@cache
def arrow_schema(kind: type) -> pa.Schema:
    """The one explicit Arrow schema of a dataset's rows."""
    return pa.schema([_arrow_field(name, hint) for name, hint in hints_of(kind).items()])


_ARROW = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


def _arrow_field(name: str, hint: Any) -> pa.Field:
    arguments = typing.get_args(hint)
    nullable = type(None) in arguments
    return pa.field(name, _arrow_type(hint), nullable=nullable)


def _arrow_type(hint: Any) -> pa.DataType:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return pa.list_(pa.field("element", _arrow_type(arguments[0]), nullable=False))
    if origin in (Union, types.UnionType):
        return _arrow_type(next(a for a in arguments if a is not type(None)))
    if dataclasses.is_dataclass(hint):
        return pa.struct([_arrow_field(name, inner) for name, inner in hints_of(hint).items()])
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return pa.string()
    return _ARROW[hint]


def json_schema(kind: type, title: str) -> dict[str, Any]:
    """The published contract of a dataset (JSON Schema 2020-12)."""
    description = (kind.__doc__ or "").strip().splitlines()[0]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "description": description,
        **_json_type(kind),
    }


_JSON = {str: "string", int: "integer", float: "number", bool: "boolean"}


def _json_type(hint: Any) -> dict[str, Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return {"type": "array", "items": _json_type(arguments[0])}
    if origin in (Union, types.UnionType):
        inner = next(a for a in arguments if a is not type(None))
        return {"anyOf": [_json_type(inner), {"type": "null"}]}
    if dataclasses.is_dataclass(hint):
        hints = hints_of(hint)
        return {
            "type": "object",
            "properties": {name: _json_type(inner) for name, inner in hints.items()},
            "required": list(hints),
            "additionalProperties": False,
        }
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return {"enum": [member.value for member in hint]}
    return {"type": _JSON[hint]}
