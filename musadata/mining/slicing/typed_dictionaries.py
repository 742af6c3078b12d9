"""Dictionaries of a tree that name what a registry builds: `dict(type="ResNet", depth=18)` in code, YAML and JSON.

They are written evidence of how the class of that name is constructed, and of what an argument called `backbone` is.
"""

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import yaml

from musadata.mining.reading.parsing import Definition
from musadata.mining.reading.typed_values import (
    TYPE,
    entries,
    named_types,
    plain_value,
    scaled,
    stated_values,
    typed_within,
    weight,
)
from musadata.mining.slicing.constructors import Constructor, find_constructor, find_method
from musadata.mining.slicing.definition_index import UNPARSABLE, PackageIndex
from musadata.mining.slicing.evidence import Example

EVIDENCE = "configuration"
MAX_FILES = 1000  # that are read, in one tree
MAX_TEXT = 1 << 17  # characters of a file with such dictionaries
MAX_KEPT = 32  # dictionaries of one class, or under one key
MAX_EXAMPLES = 2  # dictionaries of one class that are taken
MAX_SHOWN = 6  # constructions of one class
LARGE, SCALE = 128, 4  # numbers from which on they are made smaller, and by how much
TYPED = re.compile(r"""\btype\s*=\s*['"]\w|['"]?\btype['"]?\s*:\s*['"]?\w""")
DATA = re.compile(r"\.(ya?ml|json)$")
DECORATED = re.compile(
    r"^@[\w.]*regist\w*(?:\(([^()\n]*)\))?[ \t]*\n(?:@[^\n]*\n)*(?:class|def) +(\w+)", re.IGNORECASE | re.MULTILINE
)
GIVEN_NAME = re.compile(r"""^\s*(?:\w+\s*=\s*)?['"](\w+)['"]""")
# Arguments for what only training needs: a reference would construct it and compute nothing with it.
TRAINING = re.compile(r"loss|disc|critic|auxiliary|^(train|test)_")
STATED = re.compile(r"^\w+\.\w*regist\w*\(([^()\n]+)\)", re.IGNORECASE | re.MULTILINE)
LAST_NAME = re.compile(r"(\w+)\s*,?\s*$")


class TypedDictionaries:
    """Those of one tree, and the classes that its registries hold; read when the first is asked for."""

    def __init__(self, index: PackageIndex):
        self._index = index
        self._by_type: dict[str, list[dict[str, Any]]] | None = None
        self._by_key: dict[str, list[dict[str, Any]]] = {}
        self._registered: dict[str, tuple[str, str]] = {}

    def registered(self, name: str) -> Definition | None:
        """The class or function of the tree that a decorator registers by this name."""
        self._read()
        path, own = self._registered.get(name, ("", ""))
        with suppress(*UNPARSABLE):
            module = self._index.parse(path) if path else None
            found = module.bindings.get(own) if module and own else None
            if isinstance(found, Definition) or module is None:
                return found if isinstance(found, Definition) else None
            lines = {item: "".join(module.lines[item.first - 1 : item.last]) for item, _ in module.changes}
            return next((item for item, text in lines.items() if _stated_name(STATED.match(text)) == name), None)
        return None

    def named(self, nodes: Iterable[ast.AST]) -> list[Definition]:
        """What dictionaries in code name of that which registries hold."""
        found = [self.registered(name) for name in dict.fromkeys(named_types(nodes))]
        return [item for item in found if item is not None]

    def of_example(self, example: Example) -> list[Definition]:
        """What the arguments of an example name of that which registries hold."""
        return self.named(ast.parse(text, mode="eval") for _, text in example.init_keywords)

    def examples(self, definition: Definition, settings: Mapping[str, str]) -> list[Example]:
        """Constructions of a class that dictionaries show, smallest first; then one of what has its arguments' names.

        Args:
            settings: values of plain arguments, by their names.
        """
        self._read()
        assert self._by_type is not None
        constructor = find_constructor(self._index, definition)
        shown = [
            item
            for item in self._by_type.get(definition.names[0], ())
            if _fits(item, constructor) and self._is_whole(item)
        ]
        method = find_method(self._index, definition, "__init__")
        own = {item.arg for item in (*method.args.args, *method.args.kwonlyargs)} if method is not None else set()
        kept = own | constructor.required  # what is handed on and has a default cannot be given by position
        whole = [{name: item[name] for name in item if name in kept} for item in shown[:MAX_EXAMPLES]]
        lean = [
            {name: value for name, value in item.items() if name in constructor.required or not TRAINING.search(name)}
            for item in whole
        ]
        pairs = zip(lean, whole, strict=True)
        found = [_example(size) for pair in pairs for item in pair for size in _sizes(item)]
        known = {name: value for name in constructor.names if (value := self._under(name)) is not None}
        needed = [name for name in constructor.names if name in constructor.required]
        if known.keys() & set(needed):
            plain = [name for name in needed if name not in known]
            others = tuple((name, settings.get(name, name)) for name in plain)
            found += [
                _example(item, others) for item in _sizes({name: known[name] for name in needed if name in known})
            ]
        return list(dict.fromkeys(found))[:MAX_SHOWN]

    def _under(self, name: str) -> dict[str, Any] | None:
        """The smallest dictionary under a key that gives a registered class what it needs."""
        return next((item for item in self._by_key.get(name, ()) if self._is_whole(item)), None)

    def _is_whole(self, value: dict[str, Any]) -> bool:
        """Whether each class that a dictionary names can be constructed from it."""
        for item in typed_within(value):
            definition = self.registered(item[TYPE])
            if definition is None or find_method(self._index, definition, "__init__") is None:
                continue
            if not _fits(_arguments(item), find_constructor(self._index, definition)):
                return False
        return True

    def _read(self) -> None:
        if self._by_type is not None:
            return
        self._by_type = {}
        paths = self._index.tree.paths()
        for path in [path for path in paths if path.endswith(".py")][:MAX_FILES]:
            text = self._index.text(path)
            for given, own in DECORATED.findall(text):
                name = GIVEN_NAME.match(given)
                self._registered.setdefault(name[1] if name else own, (path, own))
            for stated in STATED.finditer(text):
                self._registered.setdefault(_stated_name(stated), (path, ""))
            if TYPED.search(text) and len(text) <= MAX_TEXT:
                with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
                    for key, value in _in_code(text):
                        self._note(key, value)
        for path in [path for path in paths if DATA.search(path)][:MAX_FILES]:
            text = self._index.text(path)
            if len(text) <= MAX_TEXT and TYPED.search(text):
                with suppress(yaml.YAMLError, json.JSONDecodeError, ValueError, RecursionError):
                    self._note("", yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
        for table in (self._by_type, self._by_key):
            for key, found in table.items():
                table[key] = sorted(_distinct(found), key=weight)[:MAX_KEPT]

    def _note(self, name: str, value: Any) -> None:
        """Keep what a value shows; `name`: what it is called."""
        assert self._by_type is not None
        if isinstance(value, dict):
            if isinstance(value.get(TYPE), str):
                self._by_type.setdefault(value[TYPE], []).append(_arguments(value))
                self._by_key.setdefault(name, []).append(value)
            for key, item in value.items():
                self._note(str(key), item)
        elif isinstance(value, (list, tuple)):
            for item in value:
                self._note("", item)


def _stated_name(found: re.Match[str] | None) -> str:
    """The name by which a statement registers something: a string, or what the thing is called."""
    name = (GIVEN_NAME.match(found[1]) or LAST_NAME.search(found[1])) if found is not None else None
    return name[1] if name is not None else ""


def _arguments(value: dict[str, Any]) -> dict[str, Any]:
    return {name: item for name, item in value.items() if name != TYPE}


def _fits(given: dict[str, Any], constructor: Constructor) -> bool:
    names = set(constructor.names)
    return given.keys() <= names and constructor.required <= given.keys()


def _sizes(given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Arguments with smaller numbers, and as they are written."""
    yield scaled(given, LARGE, SCALE)
    yield given


def _example(given: dict[str, Any], others: tuple[tuple[str, str], ...] = ()) -> Example:
    return Example((), (*((name, repr(value)) for name, value in given.items()), *others), evidence=EVIDENCE)


def _distinct(values: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({repr(value): value for value in values}.values())


def _in_code(text: str) -> Iterator[tuple[str, Any]]:
    """The dictionaries in a file, each with its name: of a variable, a keyword or a parameter."""
    tree = ast.parse(text)
    yield from stated_values(tree.body)
    places = [text.count("\n", 0, found.start()) + 1 for found in TYPED.finditer(text)]
    for node in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        if any(node.lineno <= place <= (node.end_lineno or 0) for place in places):
            yield from stated_values(node.body)
            named = reversed([*node.args.posonlyargs, *node.args.args])
            pairs = [
                *zip(named, reversed(node.args.defaults), strict=False),
                *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
            ]
            yield from ((item.arg, plain_value(value)) for item, value in pairs if value and entries(value))
