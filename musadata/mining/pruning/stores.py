"""The assignments of a function's variables, and the conditions under which each is made."""

import ast
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from musadata.mining.pruning.survey import FUNCTIONS

LOOPS = (ast.For, ast.AsyncFor, ast.While)
Position = tuple[int, int]  # line and column
Conditions = tuple[tuple[ast.expr, bool], ...]


@dataclass(frozen=True)
class Store:
    """`conditions`: those around it, and the value that each has where it is made."""

    value: ast.expr
    end: Position
    conditions: Conditions


class Stores:
    """The assignments in a function's own code."""

    def __init__(self, function: ast.AST):
        self._found: defaultdict[str, list[Store]] = defaultdict(list)
        self._loops: list[tuple[Position, Position]] = []
        self._around: dict[int, Conditions] = {}
        self._block(getattr(function, "body", ()), ())

    def before(self, name: str, node: ast.expr) -> list[Store]:
        """The assignments of a name from which control may come to an expression."""
        place = (node.lineno, node.col_offset)
        around = [(first, last) for first, last in self._loops if first <= place < last]
        return [
            store
            for store in self._found.get(name, ())
            if store.end <= place or any(first <= store.end <= last for first, last in around)
        ]

    def around(self, test: ast.expr) -> Conditions:
        """The conditions around one of an `if`."""
        return self._around.get(id(test), ())

    def _block(self, statements: Iterable[ast.AST], conditions: Conditions) -> None:
        for node in statements:
            if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
                self._note(node, node.value, conditions)
            elif isinstance(node, ast.If):
                self._around |= {id(item): conditions for item in ast.walk(node.test)}
                self._block(node.body, (*conditions, (node.test, True)))
                self._block(node.orelse, (*conditions, (node.test, False)))
            elif not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                if isinstance(node, LOOPS):
                    self._loops.append(((node.lineno, node.col_offset), end_of(node)))
                self._block((item for item in ast.iter_child_nodes(node) if not isinstance(item, ast.expr)), conditions)

    def _note(self, node: ast.Assign | ast.AugAssign | ast.AnnAssign, value: ast.expr, conditions: Conditions) -> None:
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            for item in ast.walk(target):
                if isinstance(item, ast.Name):
                    self._found[item.id].append(Store(value, end_of(node), conditions))


def end_of(node: ast.stmt) -> Position:
    return node.end_lineno or node.lineno, node.end_col_offset or 0
