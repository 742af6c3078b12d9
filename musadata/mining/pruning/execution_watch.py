"""Watching a reference run: which functions it enters, what its conditions come to, which entries of tables it reads.

Calls are written into the code. That costs one call per condition, sees parts of expressions as well as statements,
and is the same on every Python, where `sys.settrace` costs a call per line and sees lines only.
What is instrumented runs inside the sandbox.
"""

import ast
from dataclasses import dataclass, field
from typing import Any

from musadata.mining.pruning.survey import FUNCTIONS, Survey, first_line

PLAIN = (bool, str, type(None))
_ENTERED, _TEST, _TABLE = "_musadata_entered", "_musadata_test", "_musadata_table"


@dataclass
class Log:
    """What was seen, by the numbers of `Survey.sites`.

    `outcomes`: the answers of a condition; True for a function that was entered, a loop that went round, a `try` that
    was begun and a handler that was needed; False for a loop that was reached. `ran`: functions that were entered with
    the inputs. `constants`: (function, argument) -> the one plain value it was always given, as a literal; "" where
    there were others. `tables`: the keys that were found in a table, None where all of it was looked at.
    """

    outcomes: dict[int, set[bool]] = field(default_factory=dict)
    ran: set[int] = field(default_factory=set)
    constants: dict[tuple[int, str], str] = field(default_factory=dict)
    tables: dict[int, set[Any] | None] = field(default_factory=dict)
    has_inputs: bool = False

    def entered(self, site: int, arguments: dict[str, Any]) -> None:
        self.outcomes.setdefault(site, set()).add(True)
        if self.has_inputs:
            self.ran.add(site)
        for name, value in arguments.items():
            text = repr(value) if isinstance(value, PLAIN) else ""
            if self.constants.setdefault((site, name), text) != text:
                self.constants[site, name] = ""

    def tested(self, site: int, value: Any) -> bool:
        answer = bool(value)
        self.outcomes.setdefault(site, set()).add(answer)
        return answer

    def table(self, site: int, value: Any) -> Any:
        self.tables[site] = set()
        return Table(value, site, self) if type(value) is dict else value

    def space(self) -> dict[str, Any]:
        """The names that instrumented code calls."""
        return {_ENTERED: self.entered, _TEST: self.tested, _TABLE: self.table}


class Table(dict[Any, Any]):
    """A dictionary on top level that tells which of its entries are asked for."""

    def __init__(self, value: dict[Any, Any], site: int, log: Log):
        super().__init__(value)
        self._site, self._log = site, log

    def _found(self, key: Any) -> None:
        keys = self._log.tables[self._site]
        if keys is not None and dict.__contains__(self, key):
            keys.add(key)

    def __getitem__(self, key: Any) -> Any:
        self._found(key)
        return super().__getitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        self._found(key)
        return super().get(key, default)

    def __contains__(self, key: Any) -> bool:
        self._found(key)
        return super().__contains__(key)


def _opening(name: str) -> Any:
    def method(self: Table, *arguments: Any, **keywords: Any) -> Any:
        self._log.tables[self._site] = None
        return getattr(dict, name)(self, *arguments, **keywords)

    return method


for _name in (
    "__iter__", "__len__", "__eq__", "__ne__", "__or__", "__ror__", "__ior__", "__reversed__", "__setitem__",
    "__delitem__", "__repr__", "keys", "values", "items", "copy", "pop", "popitem", "setdefault", "update", "clear",
):  # fmt: skip
    setattr(Table, _name, _opening(_name))


def instrument(source: str, survey: Survey) -> str:
    """The same text, written so that it keeps a log."""
    lines = [line.encode() for line in source.splitlines(keepends=True)]
    inserted: dict[int, list[tuple[int, bool, int, str]]] = {}  # by line: column, whether behind it, order, text

    def insert(line: int, column: int, text: str, *, behind: bool = False) -> None:
        order = len(inserted.setdefault(line, []))
        inserted[line].append((column, behind, -order if behind else order, text))

    def wrap(name: str, number: int, node: ast.expr) -> None:
        insert(node.lineno, node.col_offset, f"{name}({number}, ")
        insert(node.end_lineno or 0, node.end_col_offset or 0, ")", behind=True)

    def begin(node: ast.stmt, text: str) -> None:
        line = first_line(node)
        before = lines[line - 1][: node.col_offset]
        insert(line, node.col_offset, f"{text}; " if before.strip() else f"{text}\n{before.decode()}")

    for number, site in enumerate(survey.sites):
        if isinstance(site, ast.expr):
            wrap(_TEST, number, site)
        elif isinstance(site, ast.Assign):
            wrap(_TABLE, number, site.value)
        elif isinstance(site, FUNCTIONS):
            begin(site.body[0], f"{_ENTERED}({number}, locals())")
        elif isinstance(site, (ast.For, ast.Try, ast.ExceptHandler)):
            if isinstance(site, ast.For):
                begin(site, f"{_TEST}({number}, False)")
            begin(site.body[0], f"{_TEST}({number}, True)")
    for number, texts in inserted.items():
        line = lines[number - 1]
        for column, _, _, text in sorted(texts, reverse=True):
            line = line[:column] + text.encode() + line[column:]
        lines[number - 1] = line
    return b"".join(lines).decode()
