"""Cached answers about names and classes of a tree: many modules share the same base classes and helpers."""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from musadata.mining.reading.decorators import MODULE_BASES
from musadata.mining.reading.name_usage import usage
from musadata.mining.reading.parsing import Definition, ParsedModule
from musadata.mining.reading.reports import is_logger
from musadata.mining.slicing.definition_index import External, InternalModule, Meaning, PackageIndex, base_names
from musadata.mining.slicing.members import Member, class_members, replaced_names
from musadata.mining.slicing.naming import CUSTOMARY, MOVED

WITHOUT_FORWARD = frozenset({"Module", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"})
# Wrappers that spread another module over devices, and compute nothing.
SPREADING = ("torch.nn.parallel.", "torch.nn.DataParallel")
MAX_REMEMBERED = 20_000  # answers of each kind before the cache is cleared
Key = tuple[str, int]
K = TypeVar("K")
V = TypeVar("V")
KNOWN_PLACES = CUSTOMARY.keys() | MOVED.keys()
SYNCHRONIZED = re.compile(r"^SynchronizedBatchNorm([123]d)$")


@dataclass(frozen=True)
class Use:
    """A dotted name in a piece of code.

    `prefix`: the part of it that `meaning` covers. `definition`: its definition in the tree, even if `meaning` is the
    public name. `hard`: it is evaluated at definition. `absent`: only a missing optional package would bind it.
    """

    chain: str
    prefix: str
    meaning: Meaning | None
    definition: Definition | None
    hard: bool
    absent: bool

    @cached_property
    def root(self) -> str:
        return self.chain.partition(".")[0]


@dataclass(frozen=True)
class Uses:
    """Everything that a piece of code refers to. `bound`: names that its functions bind."""

    names: tuple[Use, ...]
    attributes: frozenset[str]
    bound: frozenset[str]


class Resolver:
    """Answers questions about definitions of one tree."""

    def __init__(self, index: PackageIndex):
        self.index = index
        self._uses: dict[tuple[str, int, int], Uses] = {}
        self._lineages: dict[Key, Lineage] = {}
        self._members: dict[Key, list[Member]] = {}
        self._replaced: dict[Key, frozenset[str]] = {}
        self._changes: dict[str, list[tuple[Definition, frozenset[Key]]]] = {}

    def module_of(self, definition: Definition) -> ParsedModule:
        module = self.index.module(definition.module)
        assert module is not None  # a definition comes from a parsed module
        return module

    def changes(self, module_name: str) -> list[tuple[Definition, frozenset[Key]]]:
        """The top-level statements of a module that change definitions of the tree, and which ones."""
        return _known(self._changes, module_name, lambda: list(self._find_changes(module_name)))

    def _find_changes(self, module_name: str) -> Iterator[tuple[Definition, frozenset[Key]]]:
        module = self.index.module(module_name)
        for statement, names in module.changes if module is not None else ():
            meanings = [self.index.resolve(module, name) for name in sorted(names)]  # type: ignore[arg-type]
            keys = frozenset(item.key for item in meanings if isinstance(item, Definition) and not is_logger(item.node))
            if keys:
                yield statement, keys

    def lineage(self, definition: Definition) -> "Lineage":
        return _known(self._lineages, definition.key, lambda: trace_lineage(self.index, definition, frozenset()))

    def members(self, definition: Definition) -> list[Member]:
        node = definition.node
        assert isinstance(node, ast.ClassDef)
        return _known(self._members, definition.key, lambda: class_members(node))

    def replaced(self, definition: Definition) -> frozenset[str]:
        """Methods that a class overrides without calling the overridden one."""
        node = definition.node
        assert isinstance(node, ast.ClassDef)
        return _known(self._replaced, definition.key, lambda: replaced_names(node))

    def uses(self, module_name: str, nodes: tuple[ast.AST, ...]) -> Uses:
        """The names that code of a module uses, with public names of importable packages resolved."""
        first, last = nodes[0], nodes[-1]
        key = (module_name, getattr(first, "lineno", 0), getattr(last, "end_lineno", 0) or 0)
        return _known(self._uses, key, lambda: self._find_uses(module_name, nodes))

    def _find_uses(self, module_name: str, nodes: tuple[ast.AST, ...]) -> Uses:
        module = self.index.module(module_name)
        assert module is not None
        found = usage(nodes, module.flags, module.einops)
        hard = found.hard
        names = tuple(self._use(module, chain, chain.partition(".")[0] in hard) for chain in sorted(found.chains))
        return Uses(names, found.attributes, _bound_inside(nodes))

    def _use(self, module: ParsedModule, chain: str, hard: bool) -> Use:
        meaning, length = follow_chain(self.index, module, chain)
        definition = meaning if isinstance(meaning, Definition) else None
        if definition is not None:
            meaning = self.public_name(definition) or _same_layer(definition) or definition
        prefix = ".".join(chain.split(".")[:length])
        return Use(chain, prefix, meaning, definition, hard, chain.partition(".")[0] in module.absent)

    def public_name(self, definition: Definition) -> External | None:
        """The shortest public name under which the package exports a definition."""
        name = definition.names[0]
        if definition.module.split(".")[0] not in self.index.importable or name.startswith("_"):
            return None
        parts = definition.module.split(".")
        for depth in range(1, len(parts) + 1):
            place = ".".join(parts[:depth])
            if parts[depth - 1].startswith("_"):
                return None
            found = self.index.member(place, name)
            if isinstance(found, Definition) and found.key == definition.key:
                return External(place, name)
        return None


def _bound_inside(nodes: tuple[ast.AST, ...]) -> frozenset[str]:
    """Names that functions in these nodes bind: nothing that they use may be called so."""
    functions = [item for node in nodes for item in ast.walk(node) if isinstance(item, ast.FunctionDef)]
    names = [item for function in functions for item in ast.walk(function) if isinstance(item, ast.Name)]
    stored = {item.id for item in names if isinstance(item.ctx, ast.Store)}
    return frozenset(stored | {item.arg for function in functions for item in function.args.args})


def _known(memory: dict[K, V], key: K, compute: Callable[[], V]) -> V:
    """The remembered answer for a key; computed the first time."""
    if key not in memory:
        if len(memory) > MAX_REMEMBERED:
            memory.clear()
        memory[key] = compute()
    return memory[key]


def _same_layer(definition: Definition) -> External | None:
    """PyTorch's layer that computes the same in one process as a copy of the usual synchronized batch norm."""
    found = SYNCHRONIZED.match(definition.names[0]) if definition.is_class else None
    return External("torch.nn", f"BatchNorm{found[1]}") if found else None


@dataclass(frozen=True)
class Lineage:
    """`is_module`: derives from `nn.Module`; `runs`: and some class in the hierarchy defines `forward`."""

    is_module: bool
    runs: bool


def trace_lineage(index: PackageIndex, definition: Definition, seen: frozenset[tuple[str, int]]) -> Lineage:
    """Follow a class's bases to `nn.Module`."""
    node = definition.node
    module = index.module(definition.module)
    if not isinstance(node, ast.ClassDef) or module is None or definition.key in seen:
        return Lineage(False, False)
    own = any(isinstance(item, ast.FunctionDef) and item.name == "forward" for item in node.body)
    if definition.module == "torch.nn.modules.module" and node.name == "Module":
        return Lineage(True, False)
    is_module, runs = False, own
    for base in base_names(node):
        meaning, used = follow_chain(index, module, base)
        if isinstance(meaning, Definition):
            above = trace_lineage(index, meaning, seen | {definition.key})
            is_module, runs = is_module or above.is_module, runs or above.runs
        elif isinstance(meaning, External):
            full = ".".join([meaning.dotted, *base.split(".")[used:]])
            # A base class of a package that is not installed is taken for a module if the class has a `forward`.
            if full.startswith(SPREADING):
                return Lineage(False, False)
            is_module = is_module or full.startswith("torch.nn.") or (own and not full.startswith("torch."))
            is_module = is_module or full.rpartition(".")[2] in MODULE_BASES
            runs = runs or (full.startswith("torch.nn.") and full.rpartition(".")[2] not in WITHOUT_FORWARD)
    return Lineage(is_module, is_module and runs)


def follow_chain(index: PackageIndex, module: ParsedModule, chain: str) -> tuple[Meaning | None, int]:
    """The meaning of the longest resolvable prefix of a dotted chain, and the number of its parts."""
    parts = chain.split(".")
    meaning = index.resolve(module, parts[0])
    used = 1
    while isinstance(meaning, InternalModule) and used < len(parts) and not index.is_public(meaning.name):
        inner = index.member(meaning.name, parts[used])
        if inner is None:
            break
        meaning, used = inner, used + 1
    if isinstance(meaning, InternalModule) and index.is_public(meaning.name):
        meaning = External(meaning.name)
    if isinstance(meaning, External) and not meaning.name:
        while used < len(parts) and f"{meaning.module}.{parts[used]}" in module.submodules:
            meaning, used = External(f"{meaning.module}.{parts[used]}"), used + 1
    if isinstance(meaning, External):  # `torch.nn.functional` and the like by attributes of a customary module
        while used < len(parts) and f"{meaning.dotted}.{parts[used]}" in KNOWN_PLACES:
            meaning, used = External(f"{meaning.dotted}.{parts[used]}"), used + 1
    return meaning, used
