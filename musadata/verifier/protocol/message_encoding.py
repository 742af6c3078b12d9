"""Messages as what the sandbox carries between processes, plain JSON values and bytes, and back.

Decoding raises nothing, whatever the other side sends: what is no message of the kinds that are expected is None.
"""

import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

from musadata.rows import plain
from musadata.sandbox import Descriptor, ask
from musadata.verifier.protocol.messages import QUESTIONS, REPLIES, Blobs, CandidateFacts

_TAG = "message"
_MOST_ITEMS = 4096  # of a list of claims
_MOST_CHARACTERS = 300
Message = TypeVar("Message")
_Convert = Callable[[Any], Any]


class _Malformed(Exception):
    """A value that is not of the type that it should be of."""


def encode(message: object) -> dict[str, object]:
    """A message as plain values, with bytes at the top level only."""
    encoded: dict[str, object] = {_TAG: type(message).__name__}
    for name, hint in _hints(type(message)).items():
        value = getattr(message, name)
        if hint == Blobs:
            encoded |= {f"{name}/{key}": blob for key, blob in value.items()}
        else:
            encoded[name] = value if hint in (bytes, Descriptor) else plain(value)
    return encoded


def decode(value: object, *kinds: type[Message]) -> Message | None:
    """The message of one of these kinds that `encode` made this of; None if it is anything else."""
    if not isinstance(value, Mapping):
        return None
    for kind in kinds:
        if value.get(_TAG) == kind.__name__:
            try:
                return typing.cast(Message, _read_message(kind, value))
            except _Malformed:
                return None
    return None


def read_claims(kind: type[Message], value: object) -> Message:
    """What a candidate's process says of itself: with everything that is malformed left out."""
    return typing.cast(Message, _read_claims(kind, value if isinstance(value, Mapping) else {}))


def ask_for(question: object, *kinds: type[Message]) -> Message:
    """From inside a sandboxed call: the trusted side's answer.

    Raises:
        RuntimeError: it is of no such kind.
    """
    answer = decode(ask(encode(question)), *kinds)
    if answer is None:
        raise RuntimeError(f"the trusted side does not answer {type(question).__name__}")
    return answer


def serve_candidate(answer: Callable[[object], object]) -> Callable[[object], dict[str, object]]:
    """For a sandbox's `serve=`: `answer` gets the questions and replies of a candidate's process, None for what is
    neither."""
    return lambda said: encode(answer(decode(said, *QUESTIONS, *REPLIES)))


def clean_text(text: object) -> str:
    """What a sandboxed process says to people: valid Unicode, not too long."""
    return str(text)[:_MOST_CHARACTERS].encode("utf-8", "replace").decode()


_hints: Callable[[type], Mapping[str, Any]] = cache(typing.get_type_hints)


def _read_message(kind: type, value: Mapping[Any, Any]) -> object:
    blobs = [name for name, hint in _hints(kind).items() if hint == Blobs]
    found = {name: _blobs(name, value) for name in blobs}
    rest = {key: item for key, item in value.items() if not str(key).startswith(tuple(f"{name}/" for name in blobs))}
    del rest[_TAG]
    return _read_fields(kind, rest, found)


def _blobs(name: str, value: Mapping[Any, Any]) -> Blobs:
    found = {str(key)[len(name) + 1 :]: item for key, item in value.items() if str(key).startswith(f"{name}/")}
    if not all(isinstance(item, bytes) for item in found.values()):
        raise _Malformed
    return found


def _read_fields(kind: type, value: Any, found: dict[str, Blobs]) -> object:
    """A dataclass whose fields are all there and are what they should be."""
    hints = _hints(kind)
    if not isinstance(value, Mapping) or not hints.keys() >= value.keys():
        raise _Malformed
    made = {name: _converter(hints[name], False)(item) for name, item in value.items()} | found
    if any(field.name not in made and field.default is MISSING for field in fields(kind)):
        raise _Malformed
    return kind(**made)


def _read_claims(kind: type, value: Any) -> object:
    """A dataclass with those of its fields that are what they should be; the others are empty or as by default."""
    if not isinstance(value, Mapping):
        raise _Malformed
    made = {}
    for field in fields(kind):
        hint = _hints(kind)[field.name]
        try:
            made[field.name] = _converter(hint, True)(value[field.name])
        except (_Malformed, KeyError):
            if field.default is MISSING:
                made[field.name] = () if typing.get_origin(hint) is tuple else hint()
    return kind(**made)


@cache
def _converter(hint: Any, lenient: bool) -> _Convert:
    """How a plain value becomes one of this type; it raises `_Malformed` and nothing else."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return lambda value: value
    if origin is tuple and arguments[-1] is Ellipsis:
        item = _converter(arguments[0], lenient)
        return lambda value: _tuple(value, item, lenient)
    if origin is tuple:
        items = [_converter(argument, lenient) for argument in arguments]
        return lambda value: _fixed(value, items)
    if origin is types.UnionType:
        inner = _converter(arguments[0], lenient)
        return lambda value: None if value is None else inner(value)
    if is_dataclass(hint):
        kind = typing.cast(type, hint)
        if lenient or kind is CandidateFacts:
            return lambda value: _read_claims(kind, value)
        return lambda value: _read_fields(kind, value, {})
    return {float: _float, str: _text_leniently if lenient else _text}.get(hint) or (
        lambda value: _exactly(hint, value)
    )


def _tuple(value: Any, item: _Convert, lenient: bool) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise _Malformed
    if not lenient:
        return tuple([item(one) for one in value])
    made = []
    for one in value[:_MOST_ITEMS]:
        try:
            made.append(item(one))
        except _Malformed:
            continue
    return tuple(made)


def _fixed(value: Any, items: list[_Convert]) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)) or len(value) != len(items):
        raise _Malformed
    return tuple([item(one) for item, one in zip(items, value, strict=True)])


def _exactly(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise _Malformed
    return value


def _float(value: Any) -> float:
    try:
        return float(value if type(value) is float else _exactly(int, value))
    except OverflowError as error:
        raise _Malformed from error


def _text(value: Any) -> str:
    """Text that can be written to a file, without lone surrogates."""
    if _text_leniently(value) != value:
        raise _Malformed
    return str(value)


def _text_leniently(value: Any) -> str:
    text: str = _exactly(str, value)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
