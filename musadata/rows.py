"""Between a row's dataclass and the plain values that Arrow and JSON take."""

import dataclasses
import hashlib
import json
import types
import typing
from collections.abc import Callable
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, Union

Row = TypeVar("Row")

# From 2,048 bytes on hashlib gives the interpreter to other threads, which costs more than to hash a few thousand.
_AT_ONCE, _LONG = 2000, 1 << 14


def content_id(prefix: str, *parts: Any) -> str:
    """A stable id: `prefix-` and 16 hex digits of the SHA-256 of the JSON of `parts` (dataclasses allowed)."""
    return id_of_json(prefix, identity_json(parts))


def id_of_json(prefix: str, text: str) -> str:
    """`content_id` of parts whose list is this JSON."""
    data = text.encode(errors="surrogatepass")
    if len(data) > _LONG:
        return f"{prefix}-{hashlib.sha256(data).hexdigest()[:16]}"
    digest = hashlib.sha256()
    for start in range(0, len(data), _AT_ONCE):
        digest.update(data[start : start + _AT_ONCE])
    return f"{prefix}-{digest.hexdigest()[:16]}"


def _fields(value: Any) -> dict[str, Any]:
    """What JSON has of a dataclass: enums and tuples it knows itself."""
    if dataclasses.is_dataclass(value):
        return vars(value)
    raise TypeError(f"{type(value).__name__} has no place in a row")


_IDENTITY = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=_fields)
identity_json = _IDENTITY.encode  # the one JSON of a value, that ids are hashes of
_PRIMITIVES = frozenset({str, int, float, bool, type(None)})


def plain(value: Any) -> Any:
    """A dataclass, enum or tuple as the dicts, strings and lists that Arrow and JSON take."""
    kind = type(value)
    return value if kind in _PRIMITIVES else _to_plain(kind)(value)


def _plain_maker(kind: type) -> Callable[[Any], Any]:
    """How values of one type become plain, worked out once: rows come by the hundred thousand."""
    if dataclasses.is_dataclass(kind):
        return lambda value: {
            name: part if type(part) in _PRIMITIVES else plain(part) for name, part in vars(value).items()
        }
    if issubclass(kind, StrEnum):
        return lambda value: value.value
    if issubclass(kind, (tuple, list)):
        return lambda value: list(value) if _PRIMITIVES.issuperset(map(type, value)) else [plain(one) for one in value]
    if issubclass(kind, dict):
        return lambda value: {key: plain(item) for key, item in value.items()}
    return lambda value: value


_to_plain: Callable[[Any], Callable[[Any], Any]] = cache(_plain_maker)


def restore(kind: type[Row], row: dict[str, Any]) -> Row:
    """The dataclass back from its plain dict; columns that it does not know are ignored, missing ones take defaults."""
    return typing.cast(Row, _from_plain(kind)(row))


def _restorer(hint: Any) -> Callable[[Any], Any]:
    """How plain values become those of one type. They raise ValueError for null and for what a closed set lacks."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return _tuple_restorer(arguments[0])
    if origin in (Union, types.UnionType):
        inner = _from_plain(next(a for a in arguments if a is not type(None)))
        return lambda value: None if value is None else inner(value)
    if dataclasses.is_dataclass(hint):
        parts = {name: _from_plain(inner) for name, inner in hints_of(hint).items()}
        kind = typing.cast(Callable[..., Any], hint)
        # What an older corpus lacks is null where Arrow or DuckDB has read it.
        optional = {one.name for one in dataclasses.fields(hint) if one.default is not dataclasses.MISSING}
        return lambda row: kind(
            **{
                name: make(row[name])
                for name, make in parts.items()
                if name in row and (row[name] is not None or name not in optional)
            }
        )

    def convert(value: Any) -> Any:
        if type(value) is hint:
            return value
        if value is None:
            raise ValueError(f"null where {hint.__name__} must be")
        return hint(value)

    return convert


def _tuple_restorer(hint: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Most tuples hold many values of one primitive type, as they came from Arrow."""
    item, same = _from_plain(hint), {hint} if hint in _PRIMITIVES else set()
    return lambda value: tuple(value) if same.issuperset(map(type, value)) else tuple([item(one) for one in value])


_from_plain: Callable[[Any], Callable[[Any], Any]] = cache(_restorer)


hints_of: Callable[[Any], dict[str, Any]] = cache(typing.get_type_hints)
