"""Dotted names as expressions."""

import ast


def dotted_name(node: ast.expr) -> str:
    """ "nn.Module" for the expression of that name, "" for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""
