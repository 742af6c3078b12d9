"""Adding a statement to the constructor of a reference, by its text: nothing is executed."""

import ast


def end_constructor_with(source: str, statement: str = "self.eval()") -> str:
    """The text with another last statement of `Model.__init__`, which is written if `Model` inherits it.

    A constructor on one line is left as it is.
    """
    classes = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
    model = classes["Model"]
    lines = source.splitlines()
    own = _constructor(model)
    if own is None:
        signature, given = _inherited(model, classes)
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


def _constructor(node: ast.ClassDef) -> ast.FunctionDef | None:
    return next((part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"), None)


def _inherited(model: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> tuple[str, str]:
    """The parameters of the constructor that a class inherits, and how they are handed on to it."""
    pending = [model]
    while pending:
        node = pending.pop(0)
        found = _constructor(node)
        if found is not None:
            given = found.args
            names = [part.arg for part in (*given.posonlyargs, *given.args)][1:]
            names += [f"*{given.vararg.arg}"] if given.vararg else []
            names += [f"{part.arg}={part.arg}" for part in given.kwonlyargs]
            names += [f"**{given.kwarg.arg}"] if given.kwarg else []
            return ast.unparse(given), ", ".join(names)
        pending[:0] = [classes[name] for name in map(ast.unparse, node.bases) if name in classes]
    return "self, *args, **kwargs", "*args, **kwargs"
