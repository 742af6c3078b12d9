"""Parsing Python, one thread at a time.

CPython 3.11 and 3.12 keep one recursion counter for the syntax trees of all threads. When a garbage collection lets
another thread in while a tree is built, that thread's tree changes the counter and `ast.parse` raises `SystemError`
(python/cpython#106905).
"""

import ast
import threading

_parsing = threading.Lock()


def parse(source: str) -> ast.Module:
    """The syntax tree of a module.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: as `ast.parse`.
    """
    with _parsing:
        return ast.parse(source)


def parse_expression(source: str) -> ast.Expression:
    """The syntax tree of one expression; raises what `parse` raises."""
    with _parsing:
        return ast.parse(source, mode="eval")
