"""Frames over a stream socket: a JSON header, then named blobs and open files. Nothing is ever unpickled."""

import contextlib
import json
import os
import socket
import struct
from collections.abc import Mapping
from typing import Any

MAX_HEADER = 64 << 20


class WireError(Exception):
    """The other side closed the socket or sent something that is not a frame."""


class Descriptor:
    """An open file of this process that a message carries; it is closed with this object."""

    def __init__(self, number: int):
        self.number = number

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):  # the latter while the interpreter ends
            os.close(self.number)


Attachments = dict[str, bytes | Descriptor]


def split_bytes(message: Mapping[str, Any]) -> tuple[dict[str, Any], Attachments]:
    """A message's plain values, and those that are bytes or open files."""
    blobs = {key: value for key, value in message.items() if isinstance(value, (bytes, Descriptor))}
    return {key: value for key, value in message.items() if key not in blobs}, blobs


def send_frame(
    sock: socket.socket, header: dict[str, Any], attachments: Mapping[str, bytes | Descriptor] | None = None
) -> None:
    blobs = {name: blob for name, blob in (attachments or {}).items() if isinstance(blob, bytes)}
    files = {name: file for name, file in (attachments or {}).items() if isinstance(file, Descriptor)}
    sizes = [[name, len(blob)] for name, blob in blobs.items()]
    text = json.dumps({"header": header, "blobs": sizes, "files": list(files)}).encode()
    sock.sendall(struct.pack("<I", len(text)) + text)
    for blob in blobs.values():
        sock.sendall(blob)
    if files:
        socket.send_fds(sock, [b"f"], [file.number for file in files.values()])


def receive_frame(sock: socket.socket, max_blobs: int = 0) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The next frame, which carries no open files; see `receive_attachments`."""
    header, attached = receive_attachments(sock, max_blobs, 0)
    return header, {name: blob for name, blob in attached.items() if isinstance(blob, bytes)}


def receive_attachments(sock: socket.socket, max_blobs: int, max_files: int) -> tuple[dict[str, Any], Attachments]:
    """The next frame; `max_blobs` bounds the bytes of all its blobs together, `max_files` its open files.

    Raises:
        WireError: end of stream, or not a frame. The sender may be hostile, so everything is checked.
    """
    (size,) = struct.unpack("<I", _receive(sock, 4))
    if size > MAX_HEADER:
        raise WireError("frame is too long")
    try:
        frame = json.loads(_receive(sock, size))
        header, sizes = frame["header"], [(str(name), int(length)) for name, length in frame["blobs"]]
        files = [str(name) for name in frame.get("files", [])]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise WireError("not a frame") from error
    if not isinstance(header, dict) or any(length < 0 for _, length in sizes):
        raise WireError("not a frame")
    if sum(length for _, length in sizes) > max_blobs:
        raise WireError("blobs are too long")
    if len(files) > max_files:
        raise WireError("too many open files")
    attached: Attachments = {name: _receive(sock, length) for name, length in sizes}
    return header, attached | _receive_files(sock, files)


def _receive_files(sock: socket.socket, names: list[str]) -> Attachments:
    if not names:
        return {}
    data, numbers, _, _ = socket.recv_fds(sock, 1, len(names))
    received = [Descriptor(number) for number in numbers]
    if not data or len(received) != len(names):
        raise WireError("open files are missing")
    return dict(zip(names, received, strict=True))


def _receive(sock: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view, done = memoryview(data), 0
    while done < size:
        count = sock.recv_into(view[done:])
        if not count:
            raise WireError("closed")
        done += count
    return bytes(data)
