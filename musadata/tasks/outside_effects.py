"""Effects of a reference outside of its process, from Python's audit events. Runs inside the sandbox."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Events that change files, the environment, or talk to other processes and machines.
CHANGING = frozenset(
    [
        "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.truncate",
        "os.putenv", "os.unsetenv", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "os.kill",
        "subprocess.Popen", "socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "urllib.Request",
        "shutil.rmtree", "shutil.move", "shutil.copyfile", "tempfile.mkstemp", "tempfile.mkdtemp",
    ]
)  # fmt: skip
_watching: list[list[str]] = []
_hooked: list[bool] = []


@contextmanager
def watch_effects() -> Iterator[list[str]]:
    """The events of this kind while it is open, in order."""
    if not _hooked:
        sys.addaudithook(_note)  # cannot be removed again
        _hooked.append(True)
    found: list[str] = []
    _watching.append(found)
    try:
        yield found
    finally:
        _watching.remove(found)


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching and (event in CHANGING or (event == "open" and _writes(arguments))):
        _watching[-1].append(event)


def _writes(arguments: tuple[Any, ...]) -> bool:
    path, mode, flags = arguments
    if path == os.devnull:
        return False
    return any(letter in mode for letter in "wax+") if isinstance(mode, str) else bool((flags or 0) & WRITING)
