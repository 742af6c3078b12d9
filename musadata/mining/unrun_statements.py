"""The statements of a reference that one call never runs. Runs inside the sandbox."""

import ast
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from musadata.mining.arguments.attempts import Attempt
from musadata.mining.pruning.proving import FILE, behaviour

MOST_UNRUN = 1 / 3  # of the statements: beyond that, a reader of the reference learns what it does not do
DEFINING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Pass)


def statement_lines(source: str) -> set[int]:
    """Where the statements begin that a call may run: definitions, imports, docstrings and `pass` do not count, nor
    does what refuses arguments."""
    nodes = list(ast.walk(ast.parse(source)))
    bodies = [body for node in nodes if isinstance(node, ast.If) for body in (node.body, node.orelse) if body]
    refusing = [body for body in bodies if isinstance(body[-1], ast.Raise)]
    refused = {id(item) for body in refusing for statement in body for item in ast.walk(statement)}
    counted = (node for node in nodes if isinstance(node, ast.stmt) and _counts(node))
    return {node.lineno for node in counted if id(node) not in refused}


def watch_lines(file: str, seen: set[int]) -> Callable[[FrameType, str, Any], Any]:
    """A trace function that adds the lines of `file` that run to `seen`."""

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != file:
            return None
        if event == "line":
            seen.add(frame.f_lineno)
        return trace

    return trace


@contextmanager
def watched_lines(file: str, seen: set[int]) -> Iterator[None]:
    """Inside, the lines of `file` that run are added to `seen`."""
    before = sys.gettrace()
    sys.settrace(watch_lines(file, seen))
    try:
        yield
    finally:
        sys.settrace(before)


def mostly_unrun(source: str, attempt: Attempt, trained: set[int]) -> str:
    """What to tell about a reference of which too much never runs; "" if it is fine.

    `trained`: the lines that run in training mode; what runs in one mode alone is run.
    """
    lines = statement_lines(source)
    seen = set(trained)
    if len(lines - seen) > MOST_UNRUN * len(lines) and not _runs(source, attempt, seen):
        return ""
    unrun = len(lines - seen)
    return f"{unrun} of {len(lines)} statements never run" if unrun > MOST_UNRUN * len(lines) else ""


def _runs(source: str, attempt: Attempt, seen: set[int]) -> bool:
    """Whether one call in evaluation mode comes to its end; adds its lines to `seen`."""
    try:
        with watched_lines(FILE, seen):
            return behaviour(source, attempt, [attempt]).runs[0] is not None
    except Exception:  # mined code may do anything
        return False


def _counts(node: ast.stmt) -> bool:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return not isinstance(node, DEFINING) and not is_text
