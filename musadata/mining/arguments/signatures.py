"""The whole signature of a constructor, with what it hands on to its base class, by position."""

import ast
import inspect
from typing import Any

Parameter = inspect.Parameter


def constructor_signature(model: type) -> inspect.Signature:
    """The parameters of a class's constructor without `self`; those that `*args` hands on are included."""
    owner = constructor_owner(model)
    own = _parameters(owner)
    if not any(item.kind is Parameter.VAR_POSITIONAL for item in own):
        return inspect.Signature(own)
    named = [item for item in own if item.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
    handed = _handed_on(model, owner, own, "*")
    kinds = [item.replace(kind=Parameter.POSITIONAL_OR_KEYWORD) for item in (*named, *handed)]
    optional = next((place for place, item in enumerate(kinds) if item.default is not Parameter.empty), len(kinds))
    return inspect.Signature(
        [item for place, item in enumerate(kinds) if place < optional or item.default is not Parameter.empty]
    )


def constructor_owner(model: type) -> type:
    """The class in the hierarchy that defines the constructor."""
    return next(kind for kind in model.__mro__ if "__init__" in vars(kind))


def _parameters(owner: type) -> list[inspect.Parameter]:
    return list(inspect.signature(owner.__init__).parameters.values())[1:]  # type: ignore[misc]


def _handed_on(model: type, owner: type, own: list[inspect.Parameter], star: str) -> list[inspect.Parameter]:
    """The base constructor's named parameters that a constructor passes on with `*args` or `**kwargs`."""
    above = model.__mro__[model.__mro__.index(owner) + 1 :]
    base = next((kind for kind in above if "__init__" in vars(kind)), object)
    if base.__module__ == "torch.nn.modules.module" or base is object:
        return []
    found = constructor_signature(base).parameters.values()
    names = {item.name for item in own}
    return [item for item in found if item.name not in names and item.kind is Parameter.POSITIONAL_OR_KEYWORD]


def positional_form(source: str, model: type) -> str:
    """The text with constructor and `forward` callable by position, as `get_init_inputs` and `get_inputs` call them.

    Keyword-only parameters become ordinary ones; what `**kwargs` must hand on to the base class becomes a parameter.
    """
    owner = constructor_owner(model)
    tree = ast.parse(source)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    edits: list[tuple[int, int, str]] = []
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for name, method in ((owner.__name__, "__init__"), ("Model", "forward")):
        function = next(
            (item for item in getattr(classes.get(name), "body", ()) if getattr(item, "name", "") == method), None
        )
        if isinstance(function, ast.FunctionDef) and function.args.args:
            missing = _missing(model, owner, function) if method == "__init__" else []
            edits += _edits(function, missing, starts)
    data = source.encode()
    for start, end, text in sorted(edits, reverse=True):
        data = data[:start] + text.encode() + data[end:]
    return data.decode()


def _missing(model: type, owner: type, function: ast.FunctionDef) -> list[str]:
    """Required parameters of the base constructor that only `**kwargs` can give."""
    call = _super_call(function)
    if function.args.kwarg is None or function.args.vararg is not None or call is None:
        return []
    given = {item.arg for item in call.keywords if item.arg}
    handed = _handed_on(model, owner, _parameters(owner), "**")[len(call.args) :]
    return [item.name for item in handed if item.default is Parameter.empty and item.name not in given]


def _super_call(function: ast.FunctionDef) -> ast.Call | None:
    """The call of the base constructor, if it hands on `**kwargs`."""
    for node in ast.walk(function):
        if (
            isinstance(node, ast.Call)
            and ast.unparse(node.func).startswith("super(")
            and any(item.arg is None for item in node.keywords)
        ):
            return node
    return None


def _edits(function: ast.FunctionDef, missing: list[str], starts: list[int]) -> list[tuple[int, int, str]]:
    arguments = function.args
    if not missing and (not arguments.kwonlyargs or arguments.vararg is not None):
        return []

    def place(line: int, column: int) -> int:
        return starts[line - 1] + column

    parts: list[Any] = [item for item in ast.walk(arguments) if hasattr(item, "end_lineno") and item.end_lineno]
    first = arguments.args[0]
    span = place(first.lineno, first.col_offset), max(place(item.end_lineno, item.end_col_offset) for item in parts)
    edits = [(*span, ast.unparse(_reordered(arguments, missing)))]
    call = _super_call(function)
    if missing and call is not None:
        star = next(item for item in call.keywords if item.arg is None).value
        start = place(star.lineno, star.col_offset) - 2
        edits.append((start, start, "".join(f"{name}={name}, " for name in missing)))
    return edits


def _reordered(arguments: ast.arguments, missing: list[str]) -> ast.arguments:
    """The parameters by position: required ones first."""
    split = len(arguments.args) - len(arguments.defaults)
    keyword = list(zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True))
    by_position = arguments.vararg is None
    required = [item for item, default in keyword if default is None] if by_position else []
    optional = [(item, default) for item, default in keyword if default is not None] if by_position else []
    return ast.arguments(
        posonlyargs=arguments.posonlyargs,
        args=[
            *arguments.args[:split],
            *required,
            *(ast.arg(name) for name in missing),
            *arguments.args[split:],
            *(item for item, _ in optional),
        ],
        vararg=arguments.vararg,
        kwonlyargs=[] if by_position else arguments.kwonlyargs,
        kw_defaults=[] if by_position else arguments.kw_defaults,
        kwarg=arguments.kwarg,
        defaults=[*arguments.defaults, *(default for _, default in optional)],
    )
