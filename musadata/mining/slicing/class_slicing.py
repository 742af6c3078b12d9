"""Cutting a class out of its package together with every definition that it needs.

The slice is found with `ast` alone, on unchanged files; `rewriting` then writes it as one file.
"""

import ast
import builtins
from collections import Counter

from musadata.errors import Rejection
from musadata.mining.reading.decorators import MODULE_BASES, is_kept
from musadata.mining.reading.dotted_names import dotted_name
from musadata.mining.reading.parsing import AVAILABLE, Definition, ParsedModule
from musadata.mining.reading.reports import is_logger
from musadata.mining.slicing.callers import Callers
from musadata.mining.slicing.definition_index import External, InternalModule, Meaning, PackageIndex, base_names
from musadata.mining.slicing.members import is_docstring
from musadata.mining.slicing.naming import Names
from musadata.mining.slicing.pieces import Piece, Slice, in_order
from musadata.mining.slicing.resolving import WITHOUT_FORWARD, Resolver, Use, follow_chain

MAX_DEFINITIONS = 200  # a larger slice is a program, not a module
MAX_LINES = 5000
RENAMED = {"xrange": "range", "unicode": "str", "basestring": "str", "long": "int", "unichr": "chr"}  # of Python 2
BUILTIN = frozenset(dir(builtins)) | {"__name__", "__file__", "__class__", "__doc__"}


class Unsliceable(Rejection):
    """The class cannot stand alone."""


class Slicer:
    """Cuts classes out of one tree."""

    def __init__(self, index: PackageIndex):
        self.index = index
        self.resolver = Resolver(index)
        self.callers = Callers(index)

    def module_classes(self, module: ParsedModule) -> list[Definition]:
        """The classes of a file that are `nn.Module`s with a `forward` of their own or inherited, in order."""
        return [item for item in module.classes() if self.is_module_class(item)]

    def is_module_class(self, definition: Definition) -> bool:
        """Whether a class is an `nn.Module` with a `forward` of its own or inherited."""
        return self.resolver.lineage(definition).runs

    def module_of(self, definition: Definition) -> ParsedModule:
        return self.resolver.module_of(definition)

    def slice(self, root: Definition) -> Slice:
        """Every definition that `root` needs, with the statements that change these where they can be had.

        Raises:
            Unsliceable: it needs a package that references may not import, too much code, or an unbound name.
        """
        try:
            return self._slice(root, changes=True)
        except Unsliceable:
            return self._slice(root, changes=False)

    def _slice(self, root: Definition, *, changes: bool) -> Slice:
        overridden: dict[tuple[str, int], frozenset[str]] = {}
        self._collect_overridden(root, frozenset(), overridden)

        def cut(overridden: dict[tuple[str, int], frozenset[str]]) -> _Cut:
            return _Cut(self.resolver, root, overridden, changes=changes)

        first = cut(overridden)
        found = first.run()
        return cut({}).run() if first.uses_elsewhere() else found

    def _collect_overridden(
        self, definition: Definition, below: frozenset[str], found: dict[tuple[str, int], frozenset[str]]
    ) -> None:
        """For each base class of `definition`, the members that subclasses override without calling them."""
        assert isinstance(definition.node, ast.ClassDef)
        module = self.module_of(definition)
        bases = [follow_chain(self.index, module, base)[0] for base in base_names(definition.node)]
        above = [item for item in bases if isinstance(item, Definition) and item.is_class]
        if above:
            below = below | self.resolver.replaced(definition)
        for meaning in above:
            if meaning.key not in found:
                found[meaning.key] = below
                self._collect_overridden(meaning, below, found)


def _code_lines(node: ast.stmt, first: int, last: int) -> int:
    """The lines of a statement without the docstring of a function, which no reference has."""
    body = node.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else []
    documented = [item for item in body[:1] if is_docstring(item)]
    return last - first + 1 - sum((item.end_lineno or item.lineno) - item.lineno for item in documented)


def _builds_extension(node: ast.stmt) -> bool:
    """`name = load(…)` of `torch.utils.cpp_extension`."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return False
    name = ast.unparse(node.value.func).rpartition(".")[2]
    keywords = {item.arg for item in node.value.keywords}
    return name in ("load", "load_inline") and bool(
        keywords & {"sources", "cpp_sources", "cuda_sources", "extra_cuda_cflags"}
    )


class _Cut:
    """Builds one slice."""

    def __init__(
        self,
        resolver: Resolver,
        root: Definition,
        overridden: dict[tuple[str, int], frozenset[str]],
        *,
        changes: bool,
    ):
        self._resolver = resolver
        self._with_changes = changes
        self._names = Names()
        self._pieces: dict[tuple[str, int], Piece] = {}
        self._attributes: set[str] = {"forward"}
        self._lines = 0
        self._unbound: dict[str, str] = {}
        self._root = root
        self._overridden = overridden

    def run(self) -> Slice:
        root = self._include(self._root)
        while self._add_needed_members() or (self._with_changes and self._add_changes()):
            pass
        return Slice(in_order(self._pieces, root), self._names, root, self._unbound)

    def uses_elsewhere(self) -> bool:
        """Whether a class whose overridden members were dropped is also used by other code."""
        users = Counter(key for piece in self._pieces.values() for key in [*piece.needs, *piece.calls])
        return any(users[key] > 1 for key in self._overridden)

    def _include(self, definition: Definition, avoid: frozenset[str] = frozenset()) -> Piece:
        if definition.key in self._pieces:
            return self._pieces[definition.key]
        is_root = definition is self._root
        own = definition.names[0] if definition.names else ""
        name = "Model" if is_root else own and self._names.claim(own, definition.key, avoid)
        piece = Piece(definition, name, is_module=definition.is_class and self._resolver.lineage(definition).is_module)
        self._pieces[definition.key] = piece
        if len(self._pieces) > MAX_DEFINITIONS:
            raise Unsliceable("slice_too_large", f"more than {MAX_DEFINITIONS} definitions")
        if name != own:
            piece.renames[own] = name
        if isinstance(definition.node, ast.ClassDef):
            self._start_class(piece, definition.node)
        elif _builds_extension(definition.node):
            piece.is_extension, piece.value = True, "None"
        elif is_logger(definition.node):  # of Python itself: others stand on a package's set-up of all its loggers
            piece.value = f"{self._names.external(External('logging'))}.getLogger(__name__)"
        else:
            self._use(piece, (definition.node,), _code_lines(definition.node, definition.first, definition.last))
        return piece

    def _start_class(self, piece: Piece, node: ast.ClassDef) -> None:
        piece.members = self._resolver.members(piece.definition)
        bases = [base for base in node.bases if not self._is_absent_mixin(piece, node, base)]
        piece.is_called_by_torch = any(self._derives_from_layer(piece, base) for base in bases)
        header = (
            *(item for item in node.decorator_list if is_kept(item)),
            *bases,
            *(item.value for item in node.keywords if len(bases) == len(node.bases)),
        )
        if header:
            self._use(piece, header, 1)

    def _is_absent_mixin(self, piece: Piece, node: ast.ClassDef, base: ast.expr) -> bool:
        """Whether a base class comes from a package that references may not import: nothing that runs may need it."""
        name = dotted_name(base)
        module = self._resolver.module_of(piece.definition)
        meaning = follow_chain(self._resolver.index, module, name)[0] if name else None
        absent = isinstance(meaning, External) and meaning.module.split(".")[0] not in AVAILABLE
        absent = absent or (meaning is None and name.partition(".")[0] in module.absent)
        absent = absent or name.rpartition(".")[2] == "ScriptModule"  # which would compile the class from its file
        own = any(isinstance(item, ast.FunctionDef) and item.name == "forward" for item in node.body)
        if absent:
            piece.absent_bases.add(name)
            others = [other for other in node.bases if other is not base]
            is_module = own or name.rpartition(".")[2] in MODULE_BASES
            if is_module and not any(self._is_module(piece, other) for other in others):
                piece.module_base = f"{self._names.external(External('torch.nn'))}.Module"
        return absent

    def _meaning(self, piece: Piece, base: ast.expr) -> tuple[Meaning | None, str]:
        """What a base class is, and the dotted name of an external one."""
        name = dotted_name(base)
        if not name:
            return None, ""
        meaning, used = follow_chain(self._resolver.index, self._resolver.module_of(piece.definition), name)
        external = [meaning.dotted, *name.split(".")[used:]] if isinstance(meaning, External) else []
        return meaning, ".".join(external)

    def _is_module(self, piece: Piece, base: ast.expr) -> bool:
        meaning, external = self._meaning(piece, base)
        if isinstance(meaning, Definition):
            return meaning.is_class and self._resolver.lineage(meaning).is_module
        return external.startswith("torch.nn.")

    def _derives_from_layer(self, piece: Piece, base: ast.expr) -> bool:
        """Whether a base class is a layer of PyTorch, which calls methods that the code here never names."""
        external = self._meaning(piece, base)[1]
        return external.startswith("torch.nn.") and external.rpartition(".")[2] not in WITHOUT_FORWARD

    def _add_needed_members(self) -> bool:
        """Add the members that the slice refers to so far; False if there are no new ones."""
        added = False
        for piece in list(self._pieces.values()):
            replaced = self._overridden.get(piece.definition.key, frozenset())
            for number, member in enumerate(piece.members):
                in_module = piece.is_module and not piece.is_called_by_torch
                if number in piece.needed or not member.is_needed(self._attributes, in_module):
                    continue
                if not member.names or not replaced.issuperset(member.names):
                    piece.needed.add(number)
                    added = True
                    self._use(piece, (member.node,), _code_lines(member.node, member.first, member.last))
        return added

    def _add_changes(self) -> bool:
        """Add the statements that change what the slice holds, in the modules that it comes from."""
        added = False
        for module in sorted({piece.definition.module for piece in self._pieces.values()}):
            for definition, names in self._resolver.changes(module):
                held = {key for key in names if key in self._pieces and key != definition.key}
                piece = self._pieces.get(definition.key)
                if held and (piece is None or not piece.changes >= held):
                    added = True
                    piece = self._include(definition)
                    piece.changes |= held
                    self._use(piece, tuple(getattr(definition.node, "decorator_list", ())), 0)
        return added

    def _use(self, piece: Piece, nodes: tuple[ast.AST, ...], lines: int) -> None:
        if not nodes:
            return
        self._lines += lines
        if self._lines > MAX_LINES:
            raise Unsliceable("slice_too_large", f"more than {MAX_LINES} lines")
        uses = self._resolver.uses(piece.definition.module, nodes)
        self._attributes |= uses.attributes
        for use in uses.names:
            if use.meaning is not None:
                written = self._write(piece, use, use.meaning, uses.bound)
                if written != use.prefix:
                    piece.renames[use.prefix] = written
            elif any(use.root in member.names for member in piece.members):
                self._attributes.add(use.root)
            elif use.root == "__file__":  # a reference has none; paths of its repository lead nowhere
                piece.renames["__file__"] = repr(self._resolver.module_of(piece.definition).path)
            elif use.root in RENAMED:
                piece.renames[use.root] = RENAMED[use.root]
            elif use.root not in BUILTIN:
                if use.hard or use.absent:
                    raise Unsliceable("needs_package" if use.absent else "unresolved_name", use.root)
                self._unbound[use.root] = "unresolved_name"

    def _write(self, piece: Piece, use: Use, meaning: Meaning, bound: frozenset[str]) -> str:
        if use.definition is not None and use.definition.key == self._root.key:
            return "Model"
        if isinstance(meaning, Definition):
            return self._copy(piece, meaning, use, bound)
        if isinstance(meaning, InternalModule):
            index = self._resolver.index
            if meaning.name.split(".")[0] not in index.importable and not index.is_stand_in(meaning.name):
                if index.module(meaning.name) is None:  # a folder, of native code that is built into it
                    return self._names.external(External(meaning.name))
                if use.hard:
                    raise Unsliceable("module_as_value", use.chain)
                self._unbound[use.root] = "module_as_value"
                return use.prefix
            meaning = External(meaning.name)
        return self._names.external(meaning)

    def _copy(self, piece: Piece, definition: Definition, use: Use, bound: frozenset[str]) -> str:
        copied = self._include(definition, bound)
        (piece.needs if use.hard else piece.calls).add(definition.key)
        wanted = next((part for part in use.chain.split(".") if part in definition.names), definition.names[0])
        return copied.name if wanted == definition.names[0] else wanted
