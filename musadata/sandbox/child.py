"""Inside the sandbox: run the function, answer with its result, and let it ask the trusted side."""

import importlib
import json
import os
import random
import re
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from musadata.sandbox.wire import receive_attachments, send_frame, split_bytes

OUT_OF_MEMORY_EXIT = 71
_MAX_ANSWER = 1 << 30
_MOST_FILES = 4
_FRAMES_SHOWN = 12
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")
_PROJECT = str(Path(__file__).resolve().parents[2])

_channel: socket.socket | None = None


def ask(request: Mapping[str, Any]) -> dict[str, Any]:
    """Ask the trusted side, which answers with the `serve` function of this call.

    Values are plain JSON, or bytes: those of a request may hold as much as the call may leave in files. A value may be
    an open file (`wire.Descriptor`); a request may hold as many as the call's `files_asked` says.

    Raises:
        RuntimeError: not inside a sandboxed call.
    """
    if _channel is None:
        raise RuntimeError("ask() works only inside a sandboxed call")
    plain, attached = split_bytes(request)
    send_frame(_channel, {"ask": plain}, attached)
    header, attached = receive_attachments(_channel, max_blobs=_MAX_ANSWER, max_files=_MOST_FILES)
    return {**header["answer"], **attached}


def resolve(name: str) -> Callable[..., Any]:
    """The function that "module:function" names."""
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


def run_call(function: str, arguments: list[Any], channel: socket.socket) -> NoReturn:
    """Call `function` and end this process; the result, or the exception, goes through `channel`."""
    global _channel
    _channel = channel
    random.seed(0)  # Python draws a new seed after every fork
    try:
        try:
            result = {"result": {"value": resolve(function)(*arguments)}}
            json.dumps(result)
        except BaseException as error:  # also SystemExit and KeyboardInterrupt: whatever the foreign code raised
            result = {"result": describe_error(error) | {"environment": is_of_environment(error)}}
        _flush()
        send_frame(channel, result)
    except MemoryError:
        os._exit(OUT_OF_MEMORY_EXIT)
    except BaseException:
        os._exit(1)
    os._exit(0)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # foreign code may have closed or replaced it
            continue


def is_of_environment(error: BaseException) -> bool:
    """Whether something that our own code imports is missing or broken: no foreign code had a part in it."""
    frames = traceback.extract_tb(error.__traceback__)
    installed = (sys.prefix, sys.base_prefix, _PROJECT, "<frozen ")
    importing = isinstance(error, ImportError) or any(frame.name == "<module>" for frame in frames)
    return importing and all(frame.filename.startswith(installed) for frame in frames)


def describe_error(error: BaseException) -> dict[str, str]:
    """Type, message and traceback of an exception, free of addresses and host paths."""
    try:
        message = str(error)
    except BaseException:
        message = ""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    lines = []
    for frame in frames[-_FRAMES_SHOWN:]:
        lines.append(f'File "{shorten(frame.filename)}", line {frame.lineno}, in {frame.name}')
        if frame.line:
            lines.append(f"  {frame.line}")
    return {"error_type": type(error).__name__, "message": shorten(message), "traceback": "\n".join(lines)}


def shorten(text: str) -> str:
    """`text` without what differs between machines: addresses; the folders of Python, project and scratch."""
    for folder, name in (
        (os.environ.get("MUSADATA_CACHE", ""), "<cache>"),
        (str(Path.cwd()), "."),
        (sys.prefix, "<python>"),
        (sys.base_prefix, "<python>"),
        (_PROJECT, ""),
    ):
        if len(folder) > 1:
            text = text.replace(folder + "/", name + "/" if name else "")
    return _ADDRESS.sub("0x…", text)
