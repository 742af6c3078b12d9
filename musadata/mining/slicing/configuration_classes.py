"""Configurations that a repository defines: classes that need no arguments, and objects and tables of a file.

`def __init__(self, dim, cfg=None)` reads `cfg.BIT_TYPE`, whose value no guess finds; `class Config` elsewhere in the
tree sets all that is read.
"""

import ast
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from musadata.mining.reading.dotted_names import dotted_name, last_name
from musadata.mining.reading.parsing import Definition, ParsedModule, bound_names
from musadata.mining.slicing.constructors import MAX_BASES, find_constructor, own_method
from musadata.mining.slicing.definition_index import UNPARSABLE, PackageIndex, base_names
from musadata.mining.slicing.resolving import follow_chain
from musadata.sources.dependencies import PLACE
from musadata.sources.trees import decode_source

CONFIGS = re.compile(
    r"^\w*(config|configs|cfgs?|args|opt|opts|hparams?|hps?|params|conf|options|settings|flags|flgs|FLAGS)$"
)
DECLARED = "config_class"  # the attribute of a class that names the class of its configuration
LAYERS = re.compile(r"layer(s|$)|depth|blocks")  # arguments that count layers
VOCABULARY = 96
LARGE = 128  # sizes from which on they are made smaller
MAX_FILES = 500  # read in search of configurations, in one tree
WORDS = r"(?:config|cfg|arg|opt|hparam|hp|param|conf|setting|flag)\w*"
DEFINED = re.compile(
    rf"^(?:class +\w*{WORDS}\b|\w*{WORDS} *(?::[^=\n]+)?= *(?:\{{|[\w.]+\())", re.IGNORECASE | re.MULTILINE
)
PLAIN_BASES = frozenset({"object", "dict", "SimpleNamespace", "types.SimpleNamespace"})
OF_DICTIONARIES = frozenset(dir(dict))


@dataclass(frozen=True)
class Configuration:
    """An expression that makes a configuration, the import that it needs, and the attributes or keys that are set."""

    text: str
    imported: str
    names: frozenset[str]
    by_key: bool = False
    by_attribute: bool = True


class Configurations:
    """Finds configurations of a tree; keeps those of every file."""

    def __init__(self, index: PackageIndex):
        self._index = index
        self._found: list[Configuration] | None = None

    def arguments(self, module: ParsedModule, definition: Definition) -> dict[str, Configuration]:
        """For each argument of a constructor that is named like a configuration: one that sets all that is read.

        An argument of which the class reads nothing is handed on: then it is what the other classes of the file read.
        A class that declares the class of its configuration (`config_class = BertConfig`) gets a small one of these.
        """
        made: dict[str, Configuration] = {}
        for name in [name for name in find_constructor(self._index, definition).names if CONFIGS.match(name)]:
            declared = self._declared(definition, name)
            if declared is not None:
                made[name] = declared
                continue
            read = _reads(definition.node, name)
            if not any(read):
                reads = [_reads(item.node, name) for item in module.classes()]
                read = (set().union(*(own[0] for own in reads)), set().union(*(own[1] for own in reads)))
            fitting = [item for item in self._all() if _sets(item, *read)] if any(read) else []
            made |= {name: fitting[0]} if fitting else {}
        return made

    def _declared(self, definition: Definition, name: str) -> Configuration | None:
        """A small configuration of the class that a class declares, or that annotates its argument."""
        kind = self._annotated(definition, name) or self._stated(definition, name)
        node = kind.node if kind is not None else None
        if kind is None or not isinstance(node, ast.ClassDef):
            return None
        arguments = _arguments_of(node)
        needed = _needed(arguments) if arguments is not None else []
        if arguments is None or not all("vocab" in item for item in needed):
            return None
        place = kind.module.removeprefix(f"{PLACE}.")
        sizes = dict.fromkeys(needed, VOCABULARY) | small_sizes(arguments)
        text = f"{node.name}({', '.join(f'{item}={size}' for item, size in sizes.items())})"
        return Configuration(text, f"from {place} import {node.name}", frozenset())

    def _annotated(self, definition: Definition, name: str) -> Definition | None:
        method = own_method(definition.node, "__init__")
        stated = [item.annotation for item in method.args.args if item.arg == name] if method is not None else []
        return self._class_named(definition, stated[0]) if stated and stated[0] is not None else None

    def _stated(self, definition: Definition, name: str, depth: int = 0) -> Definition | None:
        """What `config_class` of a class or of one of its base classes is, or what their constructors ask for."""
        node, module = definition.node, self._index.module(definition.module)
        if not isinstance(node, ast.ClassDef) or module is None or depth > MAX_BASES:
            return None
        stated = [
            item.value for item in node.body if isinstance(item, ast.Assign) and [*bound_names(item)] == [DECLARED]
        ]
        stated = stated or [kind for owner, kind in _asked(own_method(node, "__init__")) if owner == name]
        found = self._class_named(definition, stated[-1]) if stated else None
        above = (follow_chain(self._index, module, base)[0] for base in base_names(node))
        inherited = (self._stated(item, name, depth + 1) for item in above if isinstance(item, Definition))
        return found or next((item for item in inherited if item is not None), None)

    def _class_named(self, definition: Definition, node: ast.expr) -> Definition | None:
        """The class that an expression beside a definition names."""
        module, name = self._index.module(definition.module), dotted_name(node)
        meaning = follow_chain(self._index, module, name)[0] if name and module is not None else None
        return meaning if isinstance(meaning, Definition) and meaning.is_class else None

    def _all(self) -> list[Configuration]:
        if self._found is None:
            self._found = []
            for path in [path for path in self._index.tree.paths() if path.endswith(".py")][:MAX_FILES]:
                with suppress(*UNPARSABLE):
                    if DEFINED.search(decode_source(self._index.tree.read(path))):
                        self._found += _configurations(self._index.parse(path), self._index.name_of(path))
        return self._found


def small_sizes(arguments: ast.arguments) -> dict[str, int]:
    """The sizes among defaults that are too large for a task, made smaller alike: widths of heads stay whole."""
    named = [*arguments.posonlyargs, *arguments.args][1:]
    pairs = [
        *zip(reversed(named), reversed(arguments.defaults), strict=False),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    found: dict[str, int] = {}
    for item, default in pairs:
        value = default.value if isinstance(default, ast.Constant) and type(default.value) is int else 0
        if LAYERS.search(item.arg):
            size = min(value, 2)
        elif "head" in item.arg and value >= 8:
            size = value // 4
        elif value >= LARGE:
            size = value // 16 if value % 16 == 0 else max(12, value // 16 // 12 * 12)
        else:
            size = value
        found |= {item.arg: size} if size != value else {}
    return dict(reversed(found.items()))


def _arguments_of(node: ast.ClassDef) -> ast.arguments | None:
    method = own_method(node, "__init__")
    return method.args if method is not None else None


def _asked(method: ast.FunctionDef | None) -> Iterator[tuple[str, ast.expr]]:
    """What a function refuses to go on with if it is not of a class: `if not isinstance(config, Config): raise`."""
    for item in ast.walk(method) if method is not None else ():
        test = item.test if isinstance(item, (ast.Assert, ast.If)) else None
        if isinstance(item, ast.If):
            refuses = isinstance(test, ast.UnaryOp) and isinstance(item.body[-1], ast.Raise)
            test = test.operand if refuses and isinstance(test, ast.UnaryOp) else None
        if isinstance(test, ast.Call) and last_name(test.func) == "isinstance" and len(test.args) == 2:
            yield ast.unparse(test.args[0]), test.args[1]


def _needed(arguments: ast.arguments) -> list[str]:
    """The arguments of a method without defaults."""
    named = [item.arg for item in (*arguments.posonlyargs, *arguments.args)][1:]
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return [*named[: len(named) - len(arguments.defaults)], *(item.arg for item, value in keywords if value is None)]


def _reads(owner: ast.AST, name: str) -> tuple[set[str], set[str]]:
    """The attributes and the keys that are read from a name, or from an attribute of `self` of this name."""
    attributes: set[str] = set()
    keys: set[str] = set()
    for node in ast.walk(owner):
        if isinstance(node, ast.Attribute) and _is_named(node.value, name):
            attributes.add(node.attr)
        elif isinstance(node, ast.Subscript) and _is_named(node.value, name) and isinstance(node.slice, ast.Constant):
            keys.add(str(node.slice.value))
    return attributes, keys


def _is_named(node: ast.expr, name: str) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute)) and ast.unparse(node) in (name, f"self.{name}")


def _sets(found: Configuration, attributes: set[str], keys: set[str]) -> bool:
    """Whether a configuration sets everything that is read."""
    if (keys and not found.by_key) or (attributes - OF_DICTIONARIES and not found.by_attribute):
        return False
    return keys | (attributes - OF_DICTIONARIES if found.by_key else attributes) <= found.names


def _configurations(module: ParsedModule, place: str) -> Iterator[Configuration]:
    """The configurations of one file."""
    for name, binding in module.bindings.items():
        if not isinstance(binding, Definition) or not re.search(WORDS, name, re.IGNORECASE):
            continue
        imported = f"from {place} import {name}"
        value = getattr(binding.node, "value", None)
        if isinstance(binding.node, ast.ClassDef):
            names = _attributes_of(binding.node)
            if names:
                yield Configuration(f"{name}()", imported, names)
        elif isinstance(value, ast.Dict):
            yield Configuration(name, imported, _keys_of(value), by_key=True, by_attribute=False)
        elif isinstance(value, ast.Call):
            yield from _object_of(name, imported, value)


def _object_of(name: str, imported: str, call: ast.Call) -> Iterator[Configuration]:
    """The configuration that `dict(a=1)`, `Namespace(a=1)` or `EasyDict({"a": 1})` makes."""
    names = frozenset(item.arg for item in call.keywords if item.arg)
    names |= _keys_of(call.args[0]) if len(call.args) == 1 and isinstance(call.args[0], ast.Dict) else frozenset()
    made = last_name(call.func)
    if names and made:
        is_dictionary = "dict" in made.lower()
        yield Configuration(name, imported, names, by_key=is_dictionary, by_attribute=made != "dict")


def _keys_of(table: ast.Dict) -> frozenset[str]:
    return frozenset(key.value for key in table.keys if isinstance(key, ast.Constant) and isinstance(key.value, str))


def _attributes_of(node: ast.ClassDef) -> frozenset[str]:
    """What an instance made without arguments has; nothing of a class that may take some, or that holds layers."""
    methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
    fields = [item for item in node.body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)]
    is_dataclass = any("dataclass" in ast.unparse(item) for item in node.decorator_list)
    arguments = _arguments_of(node)
    needed = is_dataclass and any(item.value is None for item in fields)
    if arguments is not None:
        needed = bool(_needed(arguments))
    bases = {ast.unparse(base) for base in node.bases}
    inherits = arguments is None and not bases <= PLAIN_BASES  # a constructor, perhaps
    if needed or inherits or any("Module" in base for base in bases):
        return frozenset()
    found = {item.target.id for item in fields if item.value is not None and isinstance(item.target, ast.Name)}
    found |= {name for item in node.body if isinstance(item, ast.Assign) for name in bound_names(item)}
    for item in ast.walk(methods["__init__"]) if "__init__" in methods else ():
        if isinstance(item, ast.Attribute) and isinstance(item.ctx, ast.Store) and _is_named(item.value, "self"):
            found.add(item.attr)
    return frozenset(name for name in (*found, *methods) if not name.startswith("__"))
