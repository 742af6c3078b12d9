"""The lines of a reference that never run. `count` runs inside the sandbox."""

import ast
import sys
from types import FrameType
from typing import Any

import torch

FILE = "<reference>"
DEFINING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)


def count(source: str) -> dict[str, int]:
    """Statements of a reference, and those that neither its construction nor one call executes.

    Definitions, imports, docstrings and `pass` do not count.
    """
    wanted = {node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt) and _counts(node)}
    seen: set[int] = set()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != FILE:
            return None
        if event == "line":
            seen.add(frame.f_lineno)
        return trace

    space: dict[str, Any] = {"__name__": "reference"}
    sys.settrace(trace)
    try:
        exec(compile(source, FILE, "exec"), space)
        torch.manual_seed(0)
        with torch.no_grad():
            space["Model"](*space["get_init_inputs"]())(*space["get_inputs"]())
    finally:
        sys.settrace(None)
    return {"statements": len(wanted), "unrun": len(wanted - seen)}


def _counts(node: ast.stmt) -> bool:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return not isinstance(node, (*DEFINING, ast.Pass)) and not is_text
