"""Constructions from other classes of a tree, in functions that are given some of the values.

`def build(dataset, width): return Model(Encoder(dataset.vocab, width), Decoder(width))` says what a model is made from.
A subclass makes the same; what the function is given, or reads from a configuration, are arguments of the subclass.
"""

import ast
import builtins
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice

from musadata.mining.reading.parsing import Definition, ParsedModule
from musadata.mining.slicing.configuration_classes import CONFIGS
from musadata.mining.slicing.constructions import EVIDENCE, constructions_in
from musadata.mining.slicing.constructors import find_constructor
from musadata.mining.slicing.definition_index import PackageIndex
from musadata.mining.slicing.evidence import Example
from musadata.mining.slicing.fixed_arguments import KNOWN, fix_arguments, free_names, import_line
from musadata.mining.slicing.settings import settled

NUMBER = 40_000  # of a subclass that makes its arguments from what it is given
MAX_VARIANTS = 2
MAX_OPENED = 12  # arguments of such a subclass
Pairs = tuple[tuple[str, str], ...]  # arguments and their expressions
BUILTINS = frozenset(dir(builtins))


def opened_constructions(
    index: PackageIndex,
    module: ParsedModule,
    definition: Definition,
    users: Iterable[ParsedModule],
    settings: Mapping[str, str],
) -> Iterator[tuple[Definition, Example]]:
    """Subclasses of a class that make its arguments as functions do, the one with the fewest arguments first.

    Args:
        users: other files of the tree that call a class of this name.
        settings: values of the tree, in place of what is read from a configuration.
    """
    found: dict[tuple[Pairs, str], tuple[tuple[str, ...], ParsedModule]] = {}
    names = find_constructor(index, definition).names
    for user, example in constructions_in(index, definition, [module, *users]):
        given = _by_name(example, names)
        texts = [settled(text, settings) for text in given.values()] if given else []
        bound = KNOWN | user.bindings.keys()
        opened = {text: _opened(text, bound, names) for text in texts}
        free = {name for text in opened.values() for name in free_names(text)}
        asked = sorted(free - bound)
        if free & user.bindings.keys() - BUILTINS and 0 < len(asked) <= MAX_OPENED and "self" not in asked:
            pairs = tuple((name, opened[text]) for name, text in zip(given, texts, strict=True))
            found.setdefault((pairs, user.path), (tuple(asked), user))
    ordered = sorted(found.items(), key=lambda item: (len(item[1][0]), len(str(item[0][0]))))
    shown = [(pairs, asked, user) for (pairs, _), (asked, user) in ordered]
    yield from islice(_made(index, module, definition, shown), MAX_VARIANTS)


def _made(
    index: PackageIndex,
    module: ParsedModule,
    definition: Definition,
    shown: Iterable[tuple[Pairs, tuple[str, ...], ParsedModule]],
) -> Iterator[tuple[Definition, Example]]:
    for number, (pairs, asked, user) in enumerate(shown):
        used = {name for _, text in pairs for name in free_names(text)} & user.bindings.keys() - KNOWN
        imports = () if user is module else (import_line(user.name, sorted(used), module.name),)
        example = Example((), pairs, evidence=EVIDENCE)
        made = fix_arguments(index, module, definition, example, NUMBER + number, imports, asked)
        if made is not None:
            yield made


def _by_name(example: Example, names: tuple[str, ...]) -> dict[str, str]:
    """The arguments by name; {} if some are handed on in a star."""
    by_name = dict(zip(names, example.init, strict=False)) | dict(example.init_keywords)
    is_whole = len(example.init) <= len(names) and by_name.keys() <= set(names)
    return by_name if is_whole and not any(text.startswith("*") for text in by_name.values()) else {}


def _opened(text: str, bound: Collection[str], names: Collection[str]) -> str:
    """The expression with a name of its own for whatever it reads from a name that is not bound.

    A name that an argument of the class has gets a `_` behind it.
    """
    return ast.unparse(_Opener(bound, names).visit(ast.parse(text, mode="eval")))


class _Opener(ast.NodeTransformer):
    def __init__(self, bound: Collection[str], names: Collection[str]):
        self._bound = bound
        self._names = names

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            inner = inner.value
        if isinstance(inner, ast.Name) and inner.id not in self._bound:
            return self._named(node.attr)
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        counted = node.args[0] if ast.unparse(node.func) == "len" and node.args else None
        if isinstance(counted, ast.Name) and counted.id not in self._bound:
            return self._named(f"n_{counted.id}")
        self.generic_visit(node)
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        is_open = node.id not in self._bound and not CONFIGS.match(node.id)
        return self._named(node.id) if is_open else node

    def _named(self, name: str) -> ast.expr:
        return ast.Name(f"{name}_" if name in self._names else name, ast.Load())
