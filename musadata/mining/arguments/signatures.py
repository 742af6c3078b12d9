"""The whole signature of a constructor, with what it hands on to its base class, by position."""

import ast
import inspect
from collections.abc import Mapping
from types import FunctionType
from typing import Any

from musadata.mining.arguments.module_snapshots import MINED

Parameter = inspect.Parameter
NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


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


def positional_form(source: str, model: type, space: Mapping[str, Any]) -> str:
    """The text with constructor and `forward` callable by position, as `get_init_inputs` and `get_inputs` call them.

    Keyword-only parameters become ordinary ones, and so does a static `forward`; what `**kwargs` must hand on to the
    base class, or to another class that the constructor makes, becomes a parameter.

    Args:
        space: what the executed source has bound.
    """
    owner = constructor_owner(model)
    source = _with_self(source)
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
            missing = _missing(model, owner, function, space) if method == "__init__" else {}
            edits += _edits(function, missing, starts)
    data = source.encode()
    for start, end, text in sorted(edits, reverse=True):
        data = data[:start] + text.encode() + data[end:]
    return data.decode()


def _with_self(source: str) -> str:
    """The text with a static `forward` of `Model` as an ordinary one, which gets the module too."""
    lines = source.splitlines(keepends=True)
    model = next((item for item in ast.parse(source).body if getattr(item, "name", "") == "Model"), None)
    for function in getattr(model, "body", ()):
        marks = [item for item in getattr(function, "decorator_list", ()) if ast.unparse(item) == "staticmethod"]
        if getattr(function, "name", "") == "forward" and marks:
            start = lines[function.lineno - 1]
            separator = "self, " if function.args.args or function.args.vararg or function.args.kwarg else "self"
            lines[function.lineno - 1] = start.replace("forward(", f"forward({separator}", 1)
            del lines[marks[0].lineno - 1]
    return "".join(lines)


Missing = dict[ast.Call, list[str]]  # calls that hand on `**kwargs` -> required parameters that only this can give


def _missing(model: type, owner: type, function: ast.FunctionDef, space: Mapping[str, Any]) -> Missing:
    if function.args.kwarg is None or function.args.vararg is not None:
        return {}
    own = _parameters(owner)
    names = {item.name for item in own}
    found: Missing = {}
    for call in [node for node in ast.walk(function) if isinstance(node, ast.Call)]:
        stars = [ast.unparse(item.value) for item in call.keywords if item.arg is None]
        if stars != [function.args.kwarg.arg]:
            continue
        if ast.unparse(call.func).startswith("super("):
            handed = _handed_on(model, owner, own, "**")
        else:
            handed = _made_from(space.get(ast.unparse(call.func)))
        given = {item.arg for item in call.keywords if item.arg}
        rest = [item for item in handed[len(call.args) :] if item.kind in NAMED and item.name not in {*given, *names}]
        found[call] = [item.name for item in rest if item.default is Parameter.empty]
    return {call: wanted for call, wanted in found.items() if wanted}


def _made_from(made: object) -> list[inspect.Parameter]:
    """The constructor's parameters, if it is a class of the source."""
    if not isinstance(made, type) or made.__module__ != MINED:
        return []
    owner = constructor_owner(made)
    return _parameters(owner) if isinstance(vars(owner)["__init__"], FunctionType) else []


def _edits(function: ast.FunctionDef, missing: Missing, starts: list[int]) -> list[tuple[int, int, str]]:
    arguments = function.args
    if not missing and (not arguments.kwonlyargs or arguments.vararg is not None):
        return []

    def place(line: int, column: int) -> int:
        return starts[line - 1] + column

    parts: list[Any] = [item for item in ast.walk(arguments) if hasattr(item, "end_lineno") and item.end_lineno]
    first = arguments.args[0]
    span = place(first.lineno, first.col_offset), max(place(item.end_lineno, item.end_col_offset) for item in parts)
    names = list(dict.fromkeys(name for wanted in missing.values() for name in wanted))
    edits = [(*span, ast.unparse(_reordered(arguments, names)))]
    for call, wanted in missing.items():
        star = next(item for item in call.keywords if item.arg is None).value
        start = place(star.lineno, star.col_offset) - 2
        edits.append((start, start, "".join(f"{name}={name}, " for name in wanted)))
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
