"""Classes that make no difference: of which no instance is made.

They are named where types are checked, as defaults, or in tables alone.
"""

import ast
from collections.abc import Collection, Iterator

from musadata.mining.pruning.cutting import Cutter
from musadata.mining.pruning.idle_methods import family
from musadata.mining.pruning.survey import defined_names, entries

_CHECKS = ("isinstance", "issubclass")


def without_idle_classes(source: str) -> str:
    """The source with empty bodies for such classes, so that what only their methods need may go as well."""
    tree = ast.parse(source)
    classes = {  # a decorator might keep one for later
        node.name: node
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name != "Model" and not node.decorator_list
    }
    idle, seen = dict(classes), -1
    while len(idle) != seen:
        seen = len(idle)
        named = set(_named(tree, {id(node) for node in idle.values()}))
        idle = {name: node for name, node in idle.items() if name not in named}
    lines = source.splitlines(keepends=True)
    for name, node in sorted(idle.items(), key=lambda item: -item[1].lineno):
        lines[node.lineno - 1 : node.end_lineno] = [f"class {name}:\n", "    pass\n"]
    return "".join(lines)


def without_own_defaults(source: str) -> str:
    """The source with `None` for defaults of constructors that are names of its own: arguments may replace them all."""
    tree, cutter = ast.parse(source), Cutter(source, set())
    names = {name for node in tree.body for name in defined_names(node)}
    methods = [item for node in tree.body if isinstance(node, ast.ClassDef) for item in node.body]
    for method in [item for item in methods if isinstance(item, ast.FunctionDef) and item.name == "__init__"]:
        for value in method.args.defaults:
            if isinstance(value, ast.Name) and value.id in names:
                (line, column), (last, end) = cutter.span(value, value)
                cutter.replace(line, column, last, end, "None")
    return cutter.text() if cutter.has_cut else source


def without_idle_entries(source: str, entered: Collection[str]) -> str:
    """The source without entries of tables that name classes of its own of which no method is entered.

    A setting or an argument of the constructor looks them up, `ACTIVATIONS[config.activation]` say: no input does, or
    each call would make a new module.

    Args:
        entered: the qualified names of functions and, as Python enters their bodies, of classes.
    """
    tree, cutter = ast.parse(source), Cutter(source, set())
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    families = {name: {name, *family(name, classes)} for name in classes}
    met = {name.partition(".")[0] for name in entered if "." in name} & classes.keys()
    known = {"Model"}.union(*(families[name] for name in met))
    idle = {name for name in classes if known.isdisjoint(families[name]) and _has_methods(classes[name])}
    inside: set[int] = set()  # what is removed with the table around it
    for table in _tables(tree, classes):
        named = [_names(value) & classes.keys() for *_, value in table]
        gone = [place for place, names in enumerate(named) if names and names <= idle]
        if 0 < len(gone) < len(table) and id(table[0][2]) not in inside:
            places = [cutter.span(first, last) for _, first, last in table]
            for place in gone:
                cutter.drop_item(places, place, gone)
                inside |= {id(item) for item in ast.walk(table[place][2])}
    return cutter.text() if cutter.has_cut else source


def _tables(tree: ast.Module, classes: Collection[str]) -> Iterator[list[tuple[object, ast.AST, ast.AST]]]:
    """The entries of each table that names such classes, outer tables first."""
    for node in ast.walk(tree):
        table = entries(node) if isinstance(node, (ast.Dict, ast.Call)) else []
        if len(table) > 1 and any(not _names(value).isdisjoint(classes) for *_, value in table):
            yield table


def _names(node: ast.AST) -> set[str]:
    return {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}


def _has_methods(node: ast.ClassDef) -> bool:
    return any(isinstance(item, ast.FunctionDef) for item in node.body)


def _named(tree: ast.Module, idle: Collection[int]) -> Iterator[str]:
    """Names and texts outside of these statements, without the types of checks."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if id(node) in idle:
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CHECKS and node.args:
            types = [item for part in node.args[1:] for item in (part.elts if isinstance(part, ast.Tuple) else [part])]
            waiting += [node.args[0], *(item for item in types if not isinstance(item, ast.Name))]
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
