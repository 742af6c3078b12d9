"""Dotted names as expressions."""

import ast


def last_name(node: ast.expr) -> str:
    """ "Module" for `nn.Module` or `Module`, "" for what is neither a name nor an attribute."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def is_own(node: ast.AST, name: str) -> bool:
    """Whether an expression is a variable of this name, or the attribute of `self`."""
    if isinstance(node, ast.Attribute):
        return node.attr == name and isinstance(node.value, ast.Name) and node.value.id == "self"
    return isinstance(node, ast.Name) and node.id == name


def dotted_name(node: ast.expr) -> str:
    """ "nn.Module" for the expression of that name, "" for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""
