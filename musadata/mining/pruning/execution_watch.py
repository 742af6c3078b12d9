"""Instrumenting a reference: which functions it enters, values of its conditions, and which entries of tables it reads.

Calls are inserted into the code. This costs one call per condition and sees parts of expressions on every Python
version; `sys.settrace` costs a call per line and sees lines only. Instrumented code runs inside the sandbox.
"""

import ast
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from musadata.mining.pruning.call_sites import End, Ends, caller_of
from musadata.mining.pruning.structure import Path, is_structural
from musadata.mining.pruning.survey import FUNCTIONS, Survey
from musadata.mining.reading.parsing import first_line

PLAIN = (bool, str, type(None))
_ENTERED, _TEST, _TABLE = "_musadata_entered", "_musadata_test", "_musadata_table"


@dataclass
class Log:
    """Observations of a run, by the numbers of `Survey.sites`.

    `outcomes`: the values of a condition; True for an entered function, loop body, `try` or handler; False for a loop
    that was reached. `ran`: functions that were entered with the inputs. `constants`: (function, argument) -> its only
    value as a literal, "" if it had several. `tables`: the keys that were looked up in a table, None if all of it was
    read. `paths`: what a condition reads, where that may say whether it is about structure alone; `loose`: those that
    read a value that may depend on sizes.
    """

    paths: Mapping[int, Sequence[Path]] = field(default_factory=dict)
    loose: set[int] = field(default_factory=set)
    outcomes: dict[int, set[bool]] = field(default_factory=dict)
    ran: set[int] = field(default_factory=set)
    constants: dict[tuple[int, str], str] = field(default_factory=dict)
    tables: dict[int, set[Any] | None] = field(default_factory=dict)
    has_inputs: bool = False
    text: str = ""  # that ran
    calls: set[tuple[int, End | None, bool]] = field(default_factory=set)  # function, and what `caller_of` tells
    ends: Ends = field(default_factory=dict)
    own: frozenset[str] = frozenset()
    classes: frozenset[str] = frozenset()

    def entered(self, site: int, arguments: dict[str, Any]) -> None:
        self.outcomes.setdefault(site, set()).add(True)
        if self.has_inputs:
            self.ran.add(site)
            self.calls.add((site, *caller_of(sys._getframe(1), self.ends)))
        for name, value in arguments.items():
            text = repr(value) if type(value) in PLAIN else ""  # a subclass may define `__repr__` itself
            if self.constants.setdefault((site, name), text) != text:
                self.constants[site, name] = ""

    def constructed(self, model: nn.Module) -> None:
        """From here on, code runs with the inputs."""
        self.has_inputs = True
        self.own, self.classes = plain_attributes(model)

    def tested(self, site: int, value: Any) -> bool:
        answer = bool(value)
        self.outcomes.setdefault(site, set()).add(answer)
        paths = self.paths.get(site)
        if paths and site not in self.loose:
            frame = sys._getframe(1)
            if not all(is_structural(path, frame.f_locals, frame.f_globals) for path in paths):
                self.loose.add(site)
        return answer

    def table(self, site: int, value: Any) -> Any:
        self.tables[site] = set()
        return Table(value, site, self) if type(value) is dict else value

    def space(self) -> dict[str, Any]:
        """The names that instrumented code calls."""
        return {_ENTERED: self.entered, _TEST: self.tested, _TABLE: self.table}


def plain_attributes(model: nn.Module) -> tuple[frozenset[str], frozenset[str]]:
    """The attributes that have one plain value in all modules, and the names of the modules' classes."""
    values: dict[str, set[tuple[type, str]]] = {}
    others, classes = set[str](), set[type]()
    for module in model.modules():
        classes.update(type(module).__mro__)
        others.update(module._parameters, module._buffers, module._modules)
        for name, value in vars(module).items():
            plain = type(value) in (*PLAIN, int, float)
            values.setdefault(name, set()).add((type(value), repr(value) if plain else ""))
    for kind in classes - set(nn.Module.__mro__):
        others.update(vars(kind))
    single = {name for name, found in values.items() if len(found) == 1 and next(iter(found))[1]}
    return frozenset(single - others), frozenset(kind.__name__ for kind in classes)


class Table(dict[Any, Any]):
    """A top-level dictionary that records which of its entries are looked up."""

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
    """The text with calls to a `Log` inserted."""
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
