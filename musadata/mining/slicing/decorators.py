"""Decorators that are dropped from a reference."""

import ast

# For scripting, registries and documentation; they do not change what the code computes.
DROPPED_DECORATORS = frozenset(
    [
        "ignore", "export", "unused", "script", "script_method", "script_if_tracing", "_overload", "_overload_method",
        "_copy_to_script_wrapper", "deprecated", "compatibility", "overload", "final", "override",
        "add_start_docstrings", "add_code_sample_docstrings", "add_end_docstrings",
        "add_start_docstrings_to_model_forward", "replace_return_docstrings", "wraps_docstring", "exportable_method",
        "substitute_in_graph", "set_module",
    ]
)  # fmt: skip


def is_kept(decorator: ast.expr) -> bool:
    """Whether a decorator may change what the code computes."""
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
    return name not in DROPPED_DECORATORS and not name.startswith("register")
