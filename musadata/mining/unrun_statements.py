"""The statements of a reference that one call never runs. Runs inside the sandbox."""

import ast
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from musadata.mining.arguments.attempts import Attempt
from musadata.mining.pruning.proving import FILE, behaviour

MOST_UNRUN = 1 / 3  # of the statements: beyond that, a reader of the reference learns what it does not do
DEFINING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Pass)


def statement_lines(source: str) -> set[int]:
    """Where the statements begin that a call may run: definitions, imports, docstrings and `pass` do not count."""
    return {node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt) and _counts(node)}


def watch_lines(file: str, seen: set[int]) -> Callable[[FrameType, str, Any], Any]:
    """A trace function that adds the lines of `file` that run to `seen`."""

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != file:
            return None
        if event == "line":
            seen.add(frame.f_lineno)
        return trace

    return trace


def mostly_unrun(source: str, attempt: Attempt) -> str:
    """What to tell about a reference of which too much never runs; "" if it is fine."""
    lines = statement_lines(source)
    seen: set[int] = set()
    trace = watch_lines(FILE, seen)
    for training in (False, True):  # what runs in one mode alone is run
        is_complete = _run(source, attempt, trace, training)
        unrun = len(lines - seen)
        if not is_complete or unrun <= MOST_UNRUN * len(lines):
            return ""
    return f"{unrun} of {len(lines)} statements never run"


def _run(source: str, attempt: Attempt, trace: Any, training: bool) -> bool:
    """Whether one call comes to its end."""
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return behaviour(source, attempt, [attempt], training=training).runs[0] is not None
    except Exception:  # mined code may do anything
        return False
    finally:
        sys.settrace(before)


def _counts(node: ast.stmt) -> bool:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return not isinstance(node, DEFINING) and not is_text
