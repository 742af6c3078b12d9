"""Modules of a tree that fit an argument: a class with the attributes that are read from it, or of its name.

`def __init__(self, encoder, decoder)` with `decoder.output_size` in it wants the tree's `Encoder` and `Decoder`. What
these in turn must be given are arguments of the subclass that fixes them.
"""

import ast
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from musadata.mining.reading.decorators import NAMES
from musadata.mining.reading.dotted_names import is_own
from musadata.mining.reading.parsing import Definition, ParsedModule, bound_names
from musadata.mining.slicing.configuration_classes import CONFIGS
from musadata.mining.slicing.constructions import find_constructions
from musadata.mining.slicing.constructors import find_constructor, own_method
from musadata.mining.slicing.definition_index import UNPARSABLE, PackageIndex, base_names
from musadata.mining.slicing.evidence import Example
from musadata.mining.slicing.fixed_arguments import KNOWN, fix_arguments, free_names, import_line
from musadata.mining.slicing.resolving import follow_chain
from musadata.sources.dependencies import PLACE

MAX_FILES = 300  # whose classes are looked at, in one tree
# Networks that modules are often made from, of packages that may be copied.
NETWORKS = ("torchvision.models.resnet", "torchvision.models.densenet", "torchvision.models.vgg")
MAX_DEPTH = 4  # of base classes above each other
MAX_VARIANTS = 2  # the classes that fit best, and the next
NUMBER = 30_000  # of a subclass that fixes modules
OF_MODULES = frozenset(NAMES["of_modules"])


@dataclass(frozen=True)
class _Argument:
    """How a class uses one of its constructor's arguments."""

    name: str
    read: frozenset[str]
    is_class: bool = False  # the constructor itself calls it


class FittingModules:
    """Finds modules of one tree; keeps the attributes of its classes."""

    def __init__(self, index: PackageIndex, is_module: Callable[[Definition], bool]):
        self._index = index
        self._is_module = is_module
        self._all: list[Definition] | None = None
        self._attributes: dict[tuple[str, int], frozenset[str]] = {}

    def variants(self, module: ParsedModule, definition: Definition) -> Iterator[tuple[Definition, Example]]:
        """Subclasses of a class that fix those of its arguments for which the tree has modules."""
        used = _arguments(find_constructor(self._index, definition).names, definition)
        fitting = {item: found for item in used if (found := self._fitting(item, module, definition))}
        for number in range(MAX_VARIANTS if fitting else 0):
            if number and all(len(found) <= number for found in fitting.values()):
                return
            chosen = {item: found[min(number, len(found) - 1)] for item, found in fitting.items()}
            made = self._fix(module, definition, chosen, number)
            if made is not None:
                yield made

    def _fitting(self, item: _Argument, module: ParsedModule, definition: Definition) -> list[Definition]:
        """The classes that fit an argument, those of its name first, and those of the same file."""
        named = None if item.is_class else self._object(item.name, module)
        if named is not None and item.read <= self.attributes(named):
            return [named]
        found = []
        beside = {item.key: item for item in module.classes() if self._is_module(item)}
        for other in (beside | {item.key: item for item in self._classes()}).values():
            is_copied = other.module.startswith(f"{PLACE}.")
            is_named = not is_copied and _plain(other.names[0]) == _plain(item.name)
            fits = item.read <= self.attributes(other) if item.read else is_named
            if fits and other.names[0] != definition.names[0]:
                found.append((not is_named, is_copied, other.module != module.name, other))
        return [other for *_, other in sorted(found, key=lambda place: place[:3])][:MAX_VARIANTS]

    def _object(self, name: str, module: ParsedModule) -> Definition | None:
        """The class of this name that is no module and needs no arguments: `WordList` for `word_list`."""
        found = self._index.nearest("".join(part.capitalize() for part in name.split("_")), module.name)
        is_object = found is not None and found.is_class and not self._is_module(found)
        return found if found is not None and is_object and not find_constructor(self._index, found).required else None

    def _classes(self) -> list[Definition]:
        if self._all is None:
            self._all = []
            for path in [path for path in self._index.tree.paths() if path.endswith(".py")][:MAX_FILES]:
                with suppress(*UNPARSABLE):
                    self._all += filter(self._is_module, self._index.parse(path).classes())
            copied = [self._index.module(f"{PLACE}.{name}") for name in NETWORKS]
            self._all += [item for module in copied if module for item in module.classes() if self._is_module(item)]
        return self._all

    def attributes(self, definition: Definition, depth: int = 0) -> frozenset[str]:
        """What an instance of a class has: its methods, what it sets on itself, and the same of its base classes."""
        if definition.key not in self._attributes:
            found = set(_attributes(definition.node))
            module = self._index.module(definition.module)
            for name in (
                base_names(definition.node) if isinstance(definition.node, ast.ClassDef) and depth < MAX_DEPTH else ()
            ):
                meaning = follow_chain(self._index, module, name)[0] if module is not None else None
                found |= self.attributes(meaning, depth + 1) if isinstance(meaning, Definition) else frozenset()
            self._attributes[definition.key] = frozenset(found)
        return self._attributes[definition.key]

    def _fix(
        self, module: ParsedModule, definition: Definition, chosen: dict[_Argument, Definition], number: int
    ) -> tuple[Definition, Example] | None:
        """The subclass that fixes arguments to these classes or to instances of them.

        What several of them must be given by one name, such as a width, is the same argument of the subclass.
        """
        own = find_constructor(self._index, definition).required - {item.name for item in chosen}
        given: list[tuple[str, str]] = []
        opened: dict[str, None] = {}
        imports: list[str] = []
        bound: set[str] = set()
        for item, kind in chosen.items():
            constructor = find_constructor(self._index, kind)
            by_name = {} if item.is_class else self._shown(kind)
            needed = [name for name in constructor.names if name in constructor.required and name not in by_name]
            for name, object_ in [(name, self._object(name, module)) for name in needed if not item.is_class]:
                if object_ is not None and name not in own:
                    by_name = {**by_name, name: f"{object_.names[0]}()"}
                    bound.add(object_.names[0])
                    imports.append(import_line(object_.module, [object_.names[0]], module.name))
            needed = [name for name in needed if name not in by_name]
            opened |= {} if item.is_class else dict.fromkeys(name for name in needed if name not in own)
            handed = ", ".join(f"{name}={by_name.get(name, name)}" for name in (*needed, *by_name))
            given.append((item.name, kind.names[0] if item.is_class else f"{kind.names[0]}({handed})"))
            others = {name for text in by_name.values() for name in free_names(text) - KNOWN - bound}
            place = kind.module.removeprefix(f"{PLACE}.")
            imports.append(import_line(place, sorted({kind.names[0], *others}), module.name))
        example = Example((), tuple(given))
        return fix_arguments(self._index, module, definition, example, NUMBER + number, tuple(imports), tuple(opened))

    def _shown(self, kind: Definition) -> dict[str, str]:
        """The arguments with which a class is constructed in its own file, if it needs any."""
        module = self._index.module(kind.module)
        constructor = find_constructor(self._index, kind)
        if module is None or not constructor.required:
            return {}
        shown = find_constructions(self._index, module, kind)
        for example in (*shown.mined, *shown.plain):
            by_name = dict(zip(constructor.names, example.init, strict=False)) | dict(example.init_keywords)
            texts = by_name.values()
            known = KNOWN | module.bindings.keys()
            if by_name.keys() <= {*constructor.names} and all(
                not text.startswith("*") and free_names(text) <= known for text in texts
            ):
                return by_name
        return {}


def _arguments(names: tuple[str, ...], definition: Definition) -> Iterator[_Argument]:
    """The arguments of a constructor that are used as modules, or as classes of modules."""
    constructor = own_method(definition.node, "__init__")
    nodes = [node for node in ast.walk(definition.node) if isinstance(node, (ast.Attribute, ast.Call))]
    inner = {id(node) for node in ast.walk(constructor)} if constructor is not None else set()
    for name in [name for name in names if not CONFIGS.match(name)]:
        read = {node.attr for node in nodes if isinstance(node, ast.Attribute) and is_own(node.value, name)}
        called = [node for node in nodes if isinstance(node, ast.Call) and is_own(node.func, name)]
        if called or read - OF_MODULES:
            is_class = any(id(node) in inner and isinstance(node.func, ast.Name) for node in called)
            yield _Argument(name, frozenset(read - OF_MODULES), is_class)


def _attributes(node: ast.stmt) -> Iterator[str]:
    for item in getattr(node, "body", ()):
        yield from bound_names(item)
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
            yield from [inner.attr] if isinstance(inner.value, ast.Name) and inner.value.id == "self" else []


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
