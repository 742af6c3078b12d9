"""What a candidate's process does that no reading of its text shows, as Python's own audit events tell.

An audit hook cannot be taken away, so that none of this depends on what the candidate does. Only for use inside the
sandbox.
"""

import ast
import os
import sys
import threading
from pathlib import Path
from typing import Any

# What leads from a function or an object to all that Python holds.
_REACHING = frozenset({
    "__builtins__", "__closure__", "__code__", "__dict__", "__getattribute__", "__globals__", "__import__",
    "__loader__", "__mro__", "__spec__", "__subclasses__", "breakpoint", "compile", "eval", "exec", "getattr",
    "globals", "modules", "open",
})  # fmt: skip


class Audit:
    """Watches from when it is made to the end of the process. `program` is what the candidate's own text, which has
    been read already, has for a file.

    Attributes:
        threads: how many Python has started.
    """

    def __init__(self, program: str) -> None:
        self.threads = 0
        self._program = program
        self._reading = False
        sys.addaudithook(self._hear)
        threading.setprofile(self._note_thread)  # only later versions of Python have an event for this

    def _note_thread(self, *_: Any) -> None:
        """A new thread's first call."""
        sys.setprofile(None)
        self.threads += 1

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], int):
            raise PermissionError("a file may be opened by its name only")
        if event == "open" and os.path.realpath(os.fsdecode(arguments[0])).startswith(
            "/proc/"
        ):  # time and memory spent stand there
            raise PermissionError("what the system says of a process is not for its programs")
        # Reading text is such an event, too.
        if event == "compile" and not self._reading and arguments[1] != self._program:
            self._reading = True
            try:
                _refuse_reaching(*arguments[:2])
            finally:
                self._reading = False


def _refuse_reaching(text: Any, file: Any) -> None:
    """An expression that a library evaluates, as of annotations, may name types, not reach for Python itself.

    Statements are what libraries make, as dataclasses do, of what `python_escapes` has read.

    Raises:
        PermissionError: it does.
    """
    if not isinstance(text, (str, bytes)) or Path(str(file)).is_file():
        return
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return
    body = tree.body
    made = body if isinstance(body, ast.Lambda) and not body.args.defaults and not body.args.kw_defaults else None
    own = {argument.arg for argument in made.args.args} if made else set()  # fields of a named tuple
    for node in ast.walk(tree):
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if name in _REACHING - own:
            raise PermissionError("text that is evaluated may not reach for Python itself")
