"""Frames over a stream socket: a JSON header, then named blobs. Nothing is ever unpickled."""

import json
import socket
import struct
from collections.abc import Mapping
from typing import Any

MAX_HEADER = 64 << 20


class WireError(Exception):
    """The other side closed the socket or sent something that is not a frame."""


def split_bytes(message: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """A message's plain values, and those that are bytes."""
    blobs = {key: value for key, value in message.items() if isinstance(value, bytes)}
    return {key: value for key, value in message.items() if key not in blobs}, blobs


def send_frame(sock: socket.socket, header: dict[str, Any], blobs: Mapping[str, bytes] | None = None) -> None:
    blobs = blobs or {}
    sizes = [[name, len(blob)] for name, blob in blobs.items()]
    text = json.dumps({"header": header, "blobs": sizes}).encode()
    sock.sendall(struct.pack("<I", len(text)) + text)
    for blob in blobs.values():
        sock.sendall(blob)


def receive_frame(sock: socket.socket, max_blobs: int = 0) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The next frame; `max_blobs` bounds the bytes of all its blobs together.

    Raises:
        WireError: end of stream, or not a frame. The sender may be hostile, so everything is checked.
    """
    (size,) = struct.unpack("<I", _receive(sock, 4))
    if size > MAX_HEADER:
        raise WireError("frame is too long")
    try:
        frame = json.loads(_receive(sock, size))
        header, sizes = frame["header"], [(str(name), int(length)) for name, length in frame["blobs"]]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise WireError("not a frame") from error
    if not isinstance(header, dict) or any(length < 0 for _, length in sizes):
        raise WireError("not a frame")
    if sum(length for _, length in sizes) > max_blobs:
        raise WireError("blobs are too long")
    return header, {name: _receive(sock, length) for name, length in sizes}


def _receive(sock: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view, done = memoryview(data), 0
    while done < size:
        count = sock.recv_into(view[done:])
        if not count:
            raise WireError("closed")
        done += count
    return bytes(data)
