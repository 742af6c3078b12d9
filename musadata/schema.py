"""A dataset's Arrow schema and its JSON Schema, from the dataclass of its rows. One mapping for all datasets."""

import dataclasses
import types
import typing
from enum import StrEnum
from functools import cache
from typing import Any, Union

import pyarrow as pa

from musadata.columns import describe_columns
from musadata.rows import hints_of


@cache
def arrow_schema(kind: type) -> pa.Schema:
    """The one explicit Arrow schema of a dataset's rows; each field's metadata has its `description`."""
    return pa.schema(_arrow_fields(kind))


def _arrow_fields(kind: type) -> list[pa.Field]:
    texts = describe_columns(kind)
    fields = [_arrow_field(name, hint) for name, hint in hints_of(kind).items()]
    return [field.with_metadata({"description": texts[field.name]}) for field in fields]


@cache
def reading_schema(kind: type) -> pa.Schema:
    """The same with nulls allowed everywhere, for older shards, which lack columns and parts of structs."""
    return pa.schema([_nullable(field) for field in arrow_schema(kind)])


def _nullable(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_nullable(part) for part in kind.fields])
    elif pa.types.is_list(kind):
        kind = pa.list_(_nullable(kind.value_field))
    return field.with_type(kind).with_nullable(True)


_ARROW = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


def _arrow_field(name: str, hint: Any) -> pa.Field:
    arguments = typing.get_args(hint)
    nullable = type(None) in arguments
    return pa.field(name, arrow_type(hint), nullable=nullable)


def arrow_type(hint: Any) -> pa.DataType:
    """As Arrow holds values of a type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return pa.list_(pa.field("element", arrow_type(arguments[0]), nullable=False))
    if origin in (Union, types.UnionType):
        return arrow_type(next(a for a in arguments if a is not type(None)))
    if dataclasses.is_dataclass(hint):
        return pa.struct(_arrow_fields(typing.cast(type, hint)))
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
        hints, texts = hints_of(hint), describe_columns(typing.cast(type, hint))
        return {
            "type": "object",
            "properties": {name: {"description": texts[name], **_json_type(inner)} for name, inner in hints.items()},
            "required": list(hints),
            "additionalProperties": False,
        }
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return {"enum": [member.value for member in hint]}
    return {"type": _JSON[hint]}
