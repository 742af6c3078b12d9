"""Modules that define `__call__` where others define `forward`, which `nn.Module.__call__` calls."""

import ast

from musadata.mining.reading.dotted_names import last_name

OTHERS = "flax"  # whose modules are called so


def name_forward(tree: ast.Module, text: str) -> tuple[ast.Module, str]:
    """The tree and the text of a file in which such methods are called `forward`; lines keep their numbers."""
    if "def __call__" not in text or "Module" not in text or OTHERS in text:
        return tree, text
    lines = text.splitlines(keepends=True)
    named = [method for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for method in _called(node)]
    for method in named:
        lines[method.lineno - 1] = lines[method.lineno - 1].replace("def __call__", "def forward", 1)
    text = "".join(lines)
    return (ast.parse(text), text) if named else (tree, text)


def _called(node: ast.ClassDef) -> list[ast.FunctionDef]:
    """The method, if a class derives from `nn.Module` alone, has no `forward` and names its `__call__` nowhere."""
    methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
    is_module = [last_name(base) for base in node.bases] == ["Module"] and not node.keywords
    named = any(isinstance(item, ast.Attribute) and item.attr == "__call__" for item in ast.walk(node))
    is_other = not is_module or named or "forward" in methods
    return [] if is_other or "__call__" not in methods else [methods["__call__"]]
