"""Removing parameters that nothing reads, and their arguments in every call."""

import ast
from dataclasses import dataclass, field

from musadata.mining.pruning.cutting import Cutter, Span
from musadata.mining.pruning.survey import Function
from musadata.mining.pruning.uses import Uses
from musadata.mining.slicing.evidence import called_name

WIDTH = 110
SHORT = 76  # calls shorter than this stand on one line
SAFE = (ast.Name, ast.Constant, ast.Attribute, ast.Tuple, ast.List, ast.Dict, ast.Subscript, ast.BinOp, ast.UnaryOp)
SYMBOLS = (ast.expr_context, ast.operator, ast.unaryop)


@dataclass
class Callable:
    """A function, or a class by its `__init__`, with every call of it."""

    function: Function
    skipped: int = 0  # leading parameters without argument: `self`
    calls: list[ast.Call] = field(default_factory=list)
    given: tuple[str, ...] | None = None  # the constructor arguments of `Model`
    least: int = 0  # positional arguments that must stay


def drop_parameters(
    tree: ast.Module, uses: Uses, cutter: Cutter, init: tuple[str, ...], inputs: int
) -> tuple[tuple[str, ...], set[str]]:
    """The remaining constructor arguments, and the names of functions and classes that lost parameters."""
    changed: set[str] = set()
    loaded = {id(scope.function): scope.loaded for scope in uses.scopes}
    for name, item in _callables(tree, uses, init, inputs).items():
        unread = [
            place
            for place in _unread(item.function, loaded[id(item.function)])
            if place - item.skipped >= item.least
            and all(_can_go(call, _argument(call, item, place)) for call in item.calls)
        ]
        if item.function.args.kwarg and len(unread) == len(item.function.args.args):
            unread = unread[1:]
        if unread:
            _drop(item, unread, cutter)
        elif not _drop_rest(item, cutter):
            continue
        changed.add(name)
        if item.given is not None:
            init = tuple(text for place, text in enumerate(init) if place + item.skipped not in unread)
    return init, changed


def _callables(tree: ast.Module, uses: Uses, init: tuple[str, ...], inputs: int) -> dict[str, Callable]:
    """Functions for which every call is known."""
    found: dict[str, Callable] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.decorator_list:
            found[node.name] = Callable(node, calls=uses.calls.get(node.name, []))
        elif isinstance(node, ast.ClassDef):
            for item in node.body:
                if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                    found[node.name] = Callable(item, skipped=1, calls=uses.calls.get(node.name, []))
                elif isinstance(item, ast.FunctionDef) and not item.decorator_list:
                    method = _method(item, node, uses, inputs)
                    found |= {f"{node.name}.{item.name}": method} if method else {}
    if "Model" in found:
        found["Model"].given = init
    return {name: item for name, item in found.items() if "." in name or uses.names[name] == len(item.calls)}


def _method(item: ast.FunctionDef, node: ast.ClassDef, uses: Uses, inputs: int) -> Callable | None:
    """A method that is used only in calls `self.method(…)`, or the `forward` of `Model`, which is never called here."""
    if item.name == "forward":
        called = node.name != "Model" or uses.attributes["forward"] or uses.names["Model"]
        return None if called else Callable(item, skipped=1, least=inputs)
    calls = uses.own_calls.get(item.name, [])
    known = calls and uses.methods[item.name] == 1 and uses.attributes[item.name] == len(calls)
    return Callable(item, skipped=1, calls=calls) if known and not item.name.startswith("__") else None


def _unread(function: Function, loaded: set[str]) -> list[int]:
    """Positions of parameters that a function never reads."""
    given = function.args
    if given.posonlyargs or given.kwonlyargs or given.vararg:
        return []
    places = enumerate(given.args)
    return [place for place, item in places if item.arg not in loaded and item.arg not in ("self", "cls")]


def _can_go(call: ast.Call, argument: int | None) -> bool:
    if any(isinstance(value, ast.Starred) for value in call.args) or any(not word.arg for word in call.keywords):
        return False
    if argument is None:
        return True
    value = [*call.args, *(word.value for word in call.keywords)][argument]
    return all(isinstance(part, (*SAFE, *SYMBOLS)) for part in ast.walk(value))


def _argument(call: ast.Call, item: Callable, place: int) -> int | None:
    """Which argument of a call is for a parameter."""
    if place - item.skipped < len(call.args):
        return place - item.skipped
    name = item.function.args.args[place].arg
    words = [number for number, word in enumerate(call.keywords) if word.arg == name]
    return len(call.args) + words[0] if words else None


def _drop(item: Callable, unread: list[int], cutter: Cutter) -> None:
    places = _signature(item.function, cutter)
    for place in unread:
        cutter.drop_item(places, place, unread)
    for call in item.calls:
        gone = [number for place in unread if (number := _argument(call, item, place)) is not None]
        for number in gone:
            cutter.drop_item(cutter.given(call), number, gone)


def _signature(function: Function, cutter: Cutter) -> list[Span]:
    """The span of every parameter with its default, except `**`."""
    given = function.args
    defaults = [None] * (len(given.args) - len(given.defaults)) + given.defaults
    return [cutter.span(name, default or name) for name, default in zip(given.args, defaults, strict=True)]


def _drop_rest(item: Callable, cutter: Cutter) -> bool:
    """Remove `**kwargs` if nothing reads it and no call passes it anything."""
    rest, named = item.function.args.kwarg, {word.arg for word in item.function.args.args}
    if rest is None or item.function.args.kwonlyargs or item.function.args.vararg or not item.function.args.args:
        return False
    words = {word.arg for call in item.calls for word in call.keywords}
    read = any(isinstance(part, ast.Name) and part.id == rest.arg for part in ast.walk(item.function))
    if read or not words <= named:
        return False
    cutter.replace(*_signature(item.function, cutter)[-1][1], *cutter.end_of(rest))
    return True


def join_changed(source: str, changed: set[str]) -> str:
    """Join signatures and calls that lost something on one line, if they fit."""
    if not changed:
        return source
    tree = ast.parse(source)
    cutter = Cutter(source, set())
    owners = [(node.name, item) for node in tree.body if isinstance(node, ast.ClassDef) for item in node.body]
    for owner, item in [*owners, *(("", item) for item in tree.body)]:
        if isinstance(item, ast.FunctionDef):
            name = owner if item.name == "__init__" else f"{owner}.{item.name}".strip(".")
            if name in changed and item.args.args and not item.args.kwonlyargs and not item.args.vararg:
                spans = _signature(item, cutter)
                rest = item.args.kwarg
                if rest is not None:
                    spans.append(((rest.lineno, rest.col_offset - 2), cutter.end_of(rest)))
                cutter.join(spans, item.col_offset + len(f"def {item.name}():"), WIDTH)
    called = {name.rpartition(".")[2] for name in changed}
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and called_name(call) in called and (call.args or call.keywords):
            cutter.join(cutter.given(call), len(ast.unparse(call.func)) + 2, SHORT)
    return cutter.text()
