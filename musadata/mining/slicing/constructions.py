"""How a repository itself constructs a class: calls in functions and other classes of the same file.

`def resnet18(): return ResNet(BasicBlock, [2, 2, 2, 2])` shows arguments that no guess finds. What names a class or a
table of the repository in such a call is fixed in a subclass, so that it becomes a part of the slice.
"""

import ast
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from musadata.mining.reading.parsing import Definition, ParsedModule, bound_names
from musadata.mining.slicing.constructors import find_constructor
from musadata.mining.slicing.definition_index import PackageIndex
from musadata.mining.slicing.evidence import Example, called_name, read_examples
from musadata.mining.slicing.fixed_arguments import KNOWN, fix_arguments, free_names

EVIDENCE = "construction"
MAX_CONSTRUCTIONS = 3
MAIN = "__main__"
MAX_FIXED = 1  # each is searched on its own


@dataclass(frozen=True)
class Constructions:
    """How a class is constructed.

    Attributes:
        plain: examples without names of the repository.
        fixed: subclasses that fix these, and other arguments.
    """

    plain: tuple[Example, ...]
    fixed: tuple[tuple[Definition, Example], ...]


def find_constructions(
    index: PackageIndex,
    module: ParsedModule,
    definition: Definition,
    users: Iterable[ParsedModule] = (),
) -> Constructions:
    """The constructions of a class in its own file, smallest first; those of plain values in other files after them.

    Args:
        users: other files of the tree that call a class of this name.
    """
    name = definition.names[0]
    plain: dict[Example, None] = {}
    mined: dict[Example, None] = {}
    for function in _functions(module):
        called = {called_name(node) for node in ast.walk(function) if isinstance(node, ast.Call)}
        variables = _defaults(function) | _keys(function, module)
        for read in read_examples(function.body, name, EVIDENCE, variables) if name in called else ():
            example = _without_rest(read, function)
            names = _names(example)
            if names <= KNOWN:
                plain |= {} if function.name == MAIN else {_without_call(example): None}  # an example with a call
            elif names <= KNOWN | module.bindings.keys():
                mined[_without_call(example)] = None
            else:
                known = _known_part(index, example, definition, KNOWN | module.bindings.keys())
                mined |= {known: None} if _names(known) - KNOWN else {}
    fixed = []
    for number, example in enumerate(sorted(mined, key=_weight)[:MAX_FIXED]):
        made = fix_arguments(index, module, definition, example, number)
        if made is not None:
            fixed.append(made)
    parts = {} if fixed else _own_parts(index, module, definition)
    made = fix_arguments(index, module, definition, Example((), tuple(parts.items())), len(mined)) if parts else None
    fixed += [made] if made is not None else []
    shown = sorted(plain, key=_weight) or sorted(_plain_elsewhere(index, definition, users), key=_weight)
    return Constructions(tuple(shown[:MAX_CONSTRUCTIONS]), tuple(fixed))


def _plain_elsewhere(index: PackageIndex, definition: Definition, users: Iterable[ParsedModule]) -> Iterator[Example]:
    """Constructions of plain values in other files, where the name means this class."""
    name = definition.names[0]
    for module in users:
        meaning = index.resolve(module, name)
        if isinstance(meaning, Definition) and meaning.key == definition.key:
            for function in _functions(module):
                for read in read_examples(function.body, name, EVIDENCE, _defaults(function)):
                    example = _without_rest(read, function)
                    if _names(example) <= KNOWN and (example.init or example.init_keywords):
                        yield _without_call(example)


def _functions(module: ParsedModule) -> Iterator[ast.FunctionDef]:
    """The top-level functions and the methods of a file, and its `__main__` block as one."""
    for binding in dict.fromkeys(item for item in module.bindings.values() if isinstance(item, Definition)):
        for node in [binding.node, *getattr(binding.node, "body", ())]:
            if isinstance(node, ast.FunctionDef):
                yield node
    yield ast.FunctionDef(MAIN, ast.arguments([], [], None, [], [], None, []), module.main, [], None)


def _defaults(function: ast.FunctionDef) -> dict[str, ast.expr]:
    arguments = function.args
    positional = arguments.args[len(arguments.args) - len(arguments.defaults) :]
    found = {item.arg: value for item, value in zip(positional, arguments.defaults, strict=True)}
    keyword = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return found | {item.arg: value for item, value in keyword if value is not None}


def _known_part(index: PackageIndex, example: Example, definition: Definition, known: Collection[str]) -> Example:
    """The arguments of an example that use known names alone, by keywords."""
    by_name = [*zip(find_constructor(index, definition).names, example.init, strict=False), *example.init_keywords]
    kept = tuple((name, text) for name, text in by_name if not text.startswith("*") and free_names(text) <= set(known))
    return Example((), tuple(item for item in kept if item[0] != "**"), evidence=EVIDENCE)


def _keys(function: ast.FunctionDef, module: ParsedModule) -> dict[str, ast.expr]:
    """For each argument without a default that looks something up in a table of the file, the table's first key."""
    found: dict[str, ast.expr] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Name):
            table = module.bindings.get(node.value.id)
            value = getattr(table.node, "value", None) if isinstance(table, Definition) else None
            if isinstance(value, ast.Dict) and value.keys and isinstance(value.keys[0], ast.Constant):
                found[node.slice.id] = value.keys[0]
    given = {item.arg for item in function.args.args} - _defaults(function).keys()
    return {name: key for name, key in found.items() if name in given}


def _without_rest(example: Example, function: ast.FunctionDef) -> Example:
    """The example without `*args` and `**kwargs` that the function hands on; it may be called without any."""
    rest = [item.arg for item in (function.args.vararg, function.args.kwarg) if item is not None]
    return replace(
        example,
        init=tuple(text for text in example.init if text.lstrip("*") not in rest or not text.startswith("*")),
        init_keywords=tuple(item for item in example.init_keywords if item[0] != "**" or item[1] not in rest),
    )


def _own_parts(index: PackageIndex, module: ParsedModule, definition: Definition) -> dict[str, str]:
    """Required arguments whose class attributes are read (`block.expansion`), and a class of the file that has them."""
    required = find_constructor(index, definition).required
    reads: dict[str, set[str]] = {}
    for node in ast.walk(definition.node):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in required:
            reads.setdefault(node.value.id, set()).add(node.attr)
    found: dict[str, str] = {}
    for name, binding in module.bindings.items() if reads else ():
        meaning = binding if isinstance(binding, Definition) else index.resolve(module, name)
        if isinstance(meaning, Definition) and isinstance(meaning.node, ast.ClassDef) and meaning.key != definition.key:
            held = {item for statement in meaning.node.body for item in bound_names(statement)}
            found |= {item: name for item, read in reads.items() if item not in found and read <= held}
    return found


def _without_call(example: Example) -> Example:
    return Example(example.init, example.init_keywords, evidence=EVIDENCE)


def _texts(example: Example) -> list[str]:
    return [*example.init, *(text for _, text in example.init_keywords)]


def _names(example: Example) -> set[str]:
    """The free names of the constructor's arguments; a star is one that nothing binds."""
    if any(text.startswith("*") for text in example.init) or any(name == "**" for name, _ in example.init_keywords):
        return {"*"}
    return {name for text in _texts(example) for name in free_names(text)}


def _weight(example: Example) -> int:
    """The sum of all numbers in a construction: a rough measure of the network's size."""
    nodes = [node for text in _texts(example) for node in ast.walk(ast.parse(text, mode="eval"))]
    return sum(abs(node.value) for node in nodes if isinstance(node, ast.Constant) and type(node.value) is int)
