"""Inside the sandbox: actions of a candidate's process that its text does not show, from Python's audit events.

An audit hook cannot be removed, so a candidate cannot switch this off.
"""

import ast
import os
import sys
import threading
from pathlib import Path
from typing import Any

# Names that lead from a function or an object to the whole interpreter.
_GATEWAYS = frozenset({
    "__builtins__", "__closure__", "__code__", "__dict__", "__getattribute__", "__globals__", "__import__",
    "__loader__", "__mro__", "__spec__", "__subclasses__", "breakpoint", "compile", "eval", "exec", "getattr",
    "globals", "modules", "open",
})  # fmt: skip


class Audit:
    """Watches the process from now until it ends.

    `program` is the file name of the candidate's own text, which the static rules have checked.

    Attributes:
        threads: number of threads that Python has started.
    """

    def __init__(self, program: str) -> None:
        self.threads = 0
        self._program = program
        self._reading = False
        sys.addaudithook(self._on_event)
        threading.setprofile(self._note_thread)  # only later versions of Python have an event for this

    def _note_thread(self, *_: Any) -> None:
        """Called by a new thread for its first call."""
        sys.setprofile(None)
        self.threads += 1

    def _on_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], int):
            raise PermissionError("a file may be opened by its name only")
        if event == "open" and os.path.realpath(os.fsdecode(arguments[0])).startswith("/proc/"):
            raise PermissionError("a program may not read what the system tells of its process")  # its CPU time, say
        # `_refuse_gateways` parses text, which raises this event again.
        if event == "compile" and not self._reading and arguments[1] != self._program:
            self._reading = True
            try:
                _refuse_gateways(*arguments[:2])
            finally:
                self._reading = False


def _refuse_gateways(text: Any, file: Any) -> None:
    """Check an expression that a library evaluates, such as an annotation: it may name types only.

    Statements are not checked: libraries such as dataclasses generate them from text that the rules have checked.

    Raises:
        PermissionError: it uses a name that leads to the whole interpreter.
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
        if name in _GATEWAYS - own:
            raise PermissionError("text that is evaluated may not use the interpreter itself")
