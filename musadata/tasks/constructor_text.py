"""Adding statements and methods to the `Model` of a reference, by its text: nothing is executed."""

import ast
import re
from collections.abc import Sequence

from musadata.mining.slicing.given_arguments import rename_model


def end_constructor_with(source: str, statement: str = "self.eval()") -> str:
    """The text with another last statement of `Model.__init__`, which is written if `Model` inherits it.

    A constructor on one line is left as it is.
    """
    classes = _classes(source)
    model = classes["Model"]
    lines = source.splitlines()
    own = _method(model, "__init__")
    if own is None:
        signature, given = _inherited(model, classes, "__init__")
        method = (f"def __init__({signature}):", f"    super().__init__({given})", f"    {statement}")
        documented = ast.get_docstring(model) is not None
        first = model.body[min(documented, len(model.body) - 1)]
        after = documented and len(model.body) == 1
        begins = [first.lineno, *(part.lineno for part in getattr(first, "decorator_list", []))]
        place = (first.end_lineno or 0) if after else min(begins) - 1
        blank = [""] if after or not documented else []
        lines[place:place] = [*blank, *(" " * first.col_offset + line for line in method), ""]
    elif own.body[-1].lineno > own.lineno:
        lines.insert(own.body[-1].end_lineno or 0, " " * own.body[0].col_offset + statement)
    return "\n".join(lines) + "\n"


def return_parts(source: str, places: Sequence[str], name: str) -> str:
    """The text with a `Model` that returns parts of what it returned: a subclass of that, unless it inherits `forward`.

    Args:
        source: a reference.
        places: what reads each part from the whole, such as `[0]` or `.mean`.
        name: what the base class of the subclass is called, after that of a class or function.
    """
    classes = _classes(source)
    own = "Model"
    if _method(classes[own], "forward") is not None:
        source, own = rename_model(source, re.sub(r"(?:^|_)([a-z])", lambda found: found[1].upper(), name))
        classes = _classes(source)
    signature, given = _inherited(classes[own], classes, "forward")
    whole = f"super().forward({given})"
    method = [f"def forward({signature}):", f"    return {whole}{places[0]}"]
    if len(places) > 1:
        method[1:] = [f"    result = {whole}", f"    return {', '.join(f'result{place}' for place in places)}"]
    lines = source.splitlines()
    end = classes[own].end_lineno or 0
    head = [] if own == "Model" else ["", f"class Model({own}):"]
    lines[end:end] = ["", *head, *(f"    {line}" for line in method)]
    return "\n".join(lines) + "\n"


def _classes(source: str) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}


def _method(node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    return next((part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == name), None)


def _inherited(model: ast.ClassDef, classes: dict[str, ast.ClassDef], name: str) -> tuple[str, str]:
    """The parameters of a method that a class has or inherits, and how they are handed on to it."""
    pending = [model]
    while pending:
        node = pending.pop(0)
        found = _method(node, name)
        if found is not None:
            given = found.args
            names = [part.arg for part in (*given.posonlyargs, *given.args)][1:]
            names += [f"*{given.vararg.arg}"] if given.vararg else []
            names += [f"{part.arg}={part.arg}" for part in given.kwonlyargs]
            names += [f"**{given.kwarg.arg}"] if given.kwarg else []
            return ast.unparse(given), ", ".join(names)
        pending[:0] = [classes[name] for name in map(ast.unparse, node.bases) if name in classes]
    return "self, *args, **kwargs", "*args, **kwargs"
