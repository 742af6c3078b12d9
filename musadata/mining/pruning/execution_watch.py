"""Instrumenting a reference: the values of its conditions, and which entries of tables it reads.

Calls are inserted into the code. This costs one call per condition and sees parts of expressions on every Python
version; `sys.settrace` costs a call per line and sees lines only. Instrumented code runs inside the sandbox.
"""

import ast
import builtins
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from musadata.mining.pruning.survey import Survey
from musadata.mining.reading.dotted_names import last_name
from musadata.mining.reading.parsing import first_line

PLAIN = (bool, int, float, complex, str, type(None))
FEW = 16  # items of a sequence, or elements of a tensor, that are looked at
MOST_VALUES = 64  # of what one condition reads, in one run
CONSTRUCTION = -1
ABOUT_KIND = frozenset({"isinstance", "issubclass", "callable", "hasattr", "type"})
KIND_ATTRIBUTES = frozenset({"ndim", "dtype", "device", "layout", "is_cuda", "is_sparse", "is_nested", "requires_grad"})
KIND_METHODS = frozenset({"dim", "ndimension", "is_floating_point", "is_complex", "type", "get_device"})
_TEST, _TABLE = "_musadata_test", "_musadata_table"

Path = tuple[str, ...]  # a name and the attributes after it


@dataclass
class Log:
    """Observations of several runs, by the numbers of `Survey.sites`.

    `outcomes`: the values of a condition; True for an entered loop body, False for a loop that was reached. `tables`:
    the keys that were looked up in a table, None if all of it was read. `paths`: what a condition or a loop reads.
    `values`: what these were, by run. `complete`: the runs that came to their end.
    """

    paths: Mapping[int, tuple[Path, ...]]
    outcomes: dict[int, set[bool]] = field(default_factory=dict)
    tables: dict[int, set[Any] | None] = field(default_factory=dict)
    values: dict[int, dict[int, set[Any]]] = field(default_factory=dict)
    complete: list[int] = field(default_factory=list)
    run: int = CONSTRUCTION
    _before: dict[int, set[bool]] = field(default_factory=dict)

    def begin(self, run: int) -> None:
        """Another run begins; construction ends with the first."""
        self.run, self._before = run, {site: set(seen) for site, seen in self.outcomes.items()}

    def end(self, *, failed: bool) -> None:
        """The run has ended. What is seen on inputs that the reference refuses says nothing."""
        if failed:
            self.outcomes = self._before
        else:
            self.complete.append(self.run)

    def tested(self, site: int, value: Any) -> bool:
        answer = bool(value)
        self.outcomes.setdefault(site, set()).add(answer)
        if self.run != CONSTRUCTION:
            seen = self.values.setdefault(site, {}).setdefault(self.run, set())
            if len(seen) < MOST_VALUES:
                frame = sys._getframe(1)
                read = [_value_of(path, frame.f_locals, frame.f_globals) for path in self.paths.get(site, ())]
                is_computed = isinstance(value, torch.Tensor) and not any(item is value for item in read)
                seen.add((is_computed, tuple(map(_digest, read))))
        return answer

    def is_steady(self, site: int) -> bool:
        """Whether what a condition reads was the same in all runs, so that no input decides it.

        Where there is one run alone, whether it reads no number and no tensor, which may come from an input.
        """
        runs = [seen for run, seen in self.values.get(site, {}).items() if run in self.complete]
        found = set[Any]().union(*runs)
        if any(is_computed for is_computed, _ in found):
            return False
        if len(runs) > 1:
            return all(seen == runs[0] for seen in runs)
        return not any(isinstance(value, (int, float, torch.Size)) for _, read in found for value in read)

    def table(self, site: int, value: Any) -> Any:
        self.tables[site] = set()
        return Table(value, site, self) if type(value) is dict else value

    def space(self) -> dict[str, Any]:
        """The names that instrumented code calls."""
        return {_TEST: self.tested, _TABLE: self.table}


def _value_of(path: Path, local: Mapping[str, Any], top: Mapping[str, Any]) -> Any:
    first, *rest = path
    value = local.get(first, top.get(first, getattr(builtins, first, None)))
    try:
        for name in rest:
            value = getattr(value, name)
        return value
    except Exception:  # a property may do anything
        return None


def _digest(value: Any) -> Any:
    """What is compared of a value between runs."""
    if isinstance(value, torch.Tensor):
        return value.shape, tuple(value.flatten().tolist()) if value.numel() < FEW else ()
    if isinstance(value, torch.Size) or type(value) in PLAIN:
        return value
    if isinstance(value, (tuple, list)):
        return len(value), tuple(map(_digest, value[:FEW]))
    if isinstance(value, dict):
        return len(value), tuple((str(key), _digest(value[key])) for key in list(value)[:FEW])
    if isinstance(value, (set, frozenset)):
        return len(value), tuple(sorted(map(str, value))[:FEW])
    return type(value).__name__


def paths_of(survey: Survey) -> dict[int, tuple[Path, ...]]:
    """What each condition and loop reads, by its number."""
    found = {}
    for number, site in enumerate(survey.sites):
        node: ast.AST = site.iter if isinstance(site, ast.For) else site
        if isinstance(node, ast.expr):
            found[number] = tuple(dict.fromkeys(_read(node)))
    return found


def _read(node: ast.expr) -> Iterator[Path]:
    """The names and attributes of which an expression reads more than the kind: `x.dim() > 3` reads none."""
    if isinstance(node, ast.Attribute) and node.attr in KIND_ATTRIBUTES:
        return
    if path := dotted_path(node):
        yield path
    elif isinstance(node, ast.Compare) and _compares_with_none(node):
        return
    elif isinstance(node, ast.Call):
        name, method = last_name(node.func), isinstance(node.func, ast.Attribute)
        is_rank = name == "len" and len(node.args) == 1 and is_shape(node.args[0])
        if is_rank or (method and name in KIND_METHODS and not node.args) or (not method and name in ABOUT_KIND):
            return
        owners = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        for given in (*owners, *node.args, *(item.value for item in node.keywords)):
            yield from _read(given)
    else:
        for child in ast.iter_child_nodes(node):
            parts: list[ast.AST] = [child.iter, *child.ifs] if isinstance(child, ast.comprehension) else [child]
            for part in parts:
                yield from _read(part) if isinstance(part, ast.expr) else ()


def dotted_path(node: ast.expr) -> Path:
    """`self.a.b` as its names; () for all else."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return (node.id, *reversed(names)) if isinstance(node, ast.Name) else ()


def _compares_with_none(test: ast.Compare) -> bool:
    with_none = all(isinstance(item, ast.Constant) and item.value is None for item in test.comparators)
    return with_none and all(isinstance(item, (ast.Is, ast.IsNot)) for item in test.ops)


def is_shape(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "shape"
    return isinstance(node, ast.Call) and last_name(node.func) == "size" and not node.args


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
        elif isinstance(site, ast.For):
            begin(site, f"{_TEST}({number}, False)")
            begin(site.body[0], f"{_TEST}({number}, True)")
    for number, texts in inserted.items():
        line = lines[number - 1]
        for column, _, _, text in sorted(texts, reverse=True):
            line = line[:column] + text.encode() + line[column:]
        lines[number - 1] = line
    return b"".join(lines).decode()
