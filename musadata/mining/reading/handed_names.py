"""Under which other names code hands a value on: by `Block(pad_type=pad)`, `pad` is what the block calls `pad_type`."""

import ast
from collections.abc import Iterator
from functools import lru_cache

from musadata.mining.reading.dotted_names import last_name

MAX_SOURCES = 12  # a name that comes from more of them says little of each


@lru_cache(maxsize=64)
def handed_names(source: str) -> dict[str, tuple[str, ...]]:
    """Names of parameters -> other names whose values they get, directly or through other parameters."""
    tree = ast.parse(source)
    signatures = dict(_signatures(tree))
    direct: dict[str, dict[str, None]] = {}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for owner in [node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]:
        known = signatures | (dict(_own(owner, classes)) if isinstance(owner, ast.ClassDef) else {})
        for node in ast.walk(owner):
            for taken, given in _handed(node, owner, known) if isinstance(node, ast.Call) else ():
                if taken != given:
                    direct.setdefault(taken, {})[given] = None
    return {name: _closure(name, direct) for name in direct}


def _closure(name: str, direct: dict[str, dict[str, None]]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    waiting = [name]
    while waiting:
        fresh = [item for item in direct.get(waiting.pop(), ()) if item not in found and item != name]
        found |= dict.fromkeys(fresh)
        waiting += fresh
    return tuple(found) if len(found) <= MAX_SOURCES else ()


def _signatures(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """Functions and classes at the top -> the names of what they take by position."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, [item.arg for item in node.args.args]
        elif isinstance(node, ast.ClassDef):
            yield node.name, _parameters(node, "__init__")


def _own(owner: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> Iterator[tuple[str, list[str]]]:
    """A class's methods, and the parts that it has made of other classes, as it calls them."""
    for method in [item for item in owner.body if isinstance(item, ast.FunctionDef)]:
        yield f"self.{method.name}", [item.arg for item in method.args.args[1:]]
    for node in ast.walk(owner):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            made = classes.get(ast.unparse(node.value.func))
            if made is not None:
                yield from ((ast.unparse(target), _parameters(made, "forward")) for target in node.targets)


def _parameters(owner: ast.ClassDef, name: str) -> list[str]:
    """What a method takes by position, without `self`."""
    methods = [item for item in owner.body if isinstance(item, ast.FunctionDef) and item.name == name]
    return [item.arg for method in methods[:1] for item in method.args.args[1:]]


def _handed(call: ast.Call, owner: ast.stmt, signatures: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    """Parameters of what is called, and the variables that they are given."""
    name = ast.unparse(call.func)
    if name.startswith("super(") and isinstance(owner, ast.ClassDef):
        name = next((base for base in map(ast.unparse, owner.bases) if base in signatures), name)
    positional = zip(signatures.get(name, ()), call.args, strict=False)
    for taken, value in [*positional, *((item.arg, item.value) for item in call.keywords if item.arg)]:
        given = last_name(value)
        if taken and given:
            yield taken, given
