"""Calls that are not repeated: each outcome is stored under a hash of everything that determines it."""

import threading
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Protocol

from musadata.rows import content_id
from musadata.sandbox.limits import Limits, Outcome
from musadata.storage.journal import Journal

# Ends that the machine may have brought about rather than the call: a killer of processes, memory that others held.
_NOT_ITS_OWN = ("crash", "memory")


class Caller(Protocol):
    """Anything that runs calls: a sandbox, or one that remembers their outcomes."""

    def call(self, function: str, *arguments: Any, limits: Limits, files: Mapping[str, bytes] | None = None) -> Outcome:
        """How a call of "module:function" ended; `files` lie in its working directory."""
        ...


class RememberingSandbox:
    """Runs each call once; the same function, arguments and limits give the stored outcome.

    What a call prints and the files that it leaves are not kept. `sandbox` opens what carries calls out, once a call is
    not known; `journal` gives the journal of a function, which is another one when the function's code has changed.
    """

    def __init__(self, sandbox: Callable[[], Caller], journal: Callable[[str], Journal]):
        self._sandbox, self._journal = sandbox, journal
        self._opening = threading.Lock()

    def call(self, function: str, *arguments: Any, limits: Limits, files: Mapping[str, bytes] | None = None) -> Outcome:
        """See `Sandbox.call`."""
        held = [digest_files(files)] if files else []
        key, journal = content_id("call", function, arguments, limits, *held), self._journal(function)
        known = journal.get(key)
        if known is None:
            with self._opening:
                sandbox = self._sandbox()
            outcome = sandbox.call(function, *arguments, limits=limits, files=files)
            known = [outcome.status, outcome.value, outcome.error_type, outcome.message, outcome.traceback]
            if outcome.status not in _NOT_ITS_OWN:
                journal.put(key, known)
        return Outcome(*known)


def digest_files(files: Mapping[str, bytes]) -> str:
    """A hash of files and their names."""
    digest = sha256()
    for name, data in sorted(files.items()):
        digest.update(f"{name}\0{len(data)}\0".encode(errors="surrogatepass") + data)
    return digest.hexdigest()
