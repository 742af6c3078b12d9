"""The sizes of inputs that the code states by the views that it takes of them: `v.view(-1, 7, 1, 1)`."""

import ast
from collections.abc import Iterator
from functools import lru_cache

Sizes = tuple[int, ...]


@lru_cache(maxsize=64)
def viewed_inputs(source: str) -> dict[str, Sizes]:
    """Inputs of `Model.forward` -> their sizes behind the batch; sides of one pixel at the end are left out."""
    owner = next((node for node in ast.parse(source).body if getattr(node, "name", "") == "Model"), None)
    methods = [node for node in getattr(owner, "body", ()) if isinstance(node, ast.FunctionDef)]
    forward = next((node for node in methods if node.name == "forward"), None)
    if forward is None:
        return {}
    names = {item.arg for item in forward.args.args[1:]}
    bound = {name: first_binding(forward, name) for name in names}
    found: dict[str, Sizes] = {}
    for node in ast.walk(forward):
        for line, name, sizes in _views(node) if isinstance(node, ast.Call) else ():
            if name in names and line <= bound[name] and any(size > 1 for size in sizes):
                found.setdefault(name, sizes)
    return found


def first_binding(forward: ast.FunctionDef, name: str) -> float:
    """The line from which on a name means something else than the input."""
    stored = [
        node.end_lineno or node.lineno
        for node in ast.walk(forward)
        if isinstance(node, (ast.Assign, ast.AugAssign))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if any(isinstance(item, ast.Name) and item.id == name for item in ast.walk(target))
    ]
    return min(stored, default=float("inf"))


def _views(call: ast.Call) -> Iterator[tuple[int, str, Sizes]]:
    """The line, the name of what is viewed, and the constant sizes of the view behind its first one."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("view", "reshape"):
        return
    given = call.args
    holder = call.func.value
    if isinstance(holder, ast.Name) and holder.id == "torch" and given:
        holder, given = given[0], given[1:]
    if len(given) == 1 and isinstance(given[0], (ast.Tuple, ast.List)):
        given = given[0].elts
    sizes = [node.value for node in given[1:] if isinstance(node, ast.Constant) and type(node.value) is int]
    if isinstance(holder, ast.Name) and sizes and len(sizes) == len(given) - 1 and not _is_constant(given[0]):
        while sizes[-1] == 1 and len(sizes) > 1:
            sizes.pop()
        yield call.lineno, holder.id, tuple(sizes)


def _is_constant(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant)
