"""Removing `device` and `dtype` from calls in constructors that only pass them on: a reference never sets them.

Elsewhere they are mostly those of an input. This is not always correct, so its result is kept only if the outputs are
bit-identical.
"""

import ast

from musadata.mining.pruning.cutting import Cutter
from musadata.mining.slicing.evidence import called_name

PLACED = frozenset({"device", "dtype"})


def drop_handing_on(tree: ast.Module, cutter: Cutter) -> set[str]:
    """Remove `device=device`, `dtype=dtype` and dicts of both; the names of the functions that lost arguments."""
    carriers = {name for node in ast.walk(tree) for name in _carriers(node)}
    changed: set[str] = set()
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    inside = {id(item) for text in texts for item in ast.walk(text)}  # wrong positions before Python 3.12
    made = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    for node in (item for constructor in made for item in ast.walk(constructor)):
        if id(node) in inside:
            continue
        if isinstance(node, ast.Call):
            gone = [place for place, item in enumerate((*node.args, *node.keywords)) if _hands_on(item, carriers)]
            spans = cutter.given(node) if gone else []
            changed |= {called_name(node)} if gone else set()
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            gone = [place for place, (key, value) in enumerate(pairs) if key is None and _is_carrier(value, carriers)]
            spans = cutter.entries(node) if gone else []
        else:
            continue
        for place in gone:
            cutter.drop_item(spans, place, gone)
    return changed


def _carriers(node: ast.AST) -> list[str]:
    """`name = {'device': device, 'dtype': dtype}`"""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Dict) or len(node.targets) > 1:
        return []
    target, value = node.targets[0], node.value
    keys = {item.value if isinstance(item, ast.Constant) else None for item in value.keys}
    same = all(isinstance(item, ast.Name) and item.id in PLACED for item in value.values)
    return [target.id] if isinstance(target, ast.Name) and keys and keys <= PLACED and same else []


def _is_carrier(value: ast.AST, carriers: set[str]) -> bool:
    return isinstance(value, ast.Name) and value.id in carriers


def _hands_on(item: ast.AST, carriers: set[str]) -> bool:
    if not isinstance(item, ast.keyword):
        return False
    if item.arg is None:
        return _is_carrier(item.value, carriers)
    return item.arg in PLACED and isinstance(item.value, ast.Name) and item.value.id == item.arg
