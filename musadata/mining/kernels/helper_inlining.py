"""Writing out a test's helpers that draw inputs: `x, y = make_inputs(8)` as the statements of `make_inputs`."""

import ast
import copy
from collections.abc import Iterable, Iterator, Mapping

from musadata.mining.reading.dotted_names import last_name

RANDOM = frozenset({"randn", "rand", "randint", "randperm", "randn_like", "rand_like", "normal", "normal_", "uniform_"})
MAX_DEPTH = 3  # helpers that call helpers
NOT_WRITTEN_OUT = (ast.FunctionDef, ast.Lambda, ast.Yield, ast.Global, ast.Nonlocal)


def write_out_helpers(
    statements: Iterable[ast.stmt], functions: Mapping[str, ast.FunctionDef], depth: int = MAX_DEPTH
) -> Iterator[ast.stmt]:
    """The statements, in which each assignment of what a drawing helper returns is what the helper does.

    Args:
        functions: the functions of the file, by name.
    """
    for statement in statements:
        call = statement.value if isinstance(statement, ast.Assign) else None
        name = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
        helper = functions.get(name)
        inside = _body(helper, call) if helper is not None and isinstance(call, ast.Call) and depth else None
        if inside is None:
            yield _inner(statement, functions, depth)
            continue
        assert isinstance(statement, ast.Assign)
        *before, returned = write_out_helpers(inside, functions, depth - 1)
        yield from before
        assert isinstance(returned, ast.Return)
        for targets, value in _matched(statement.targets, returned.value):
            yield ast.fix_missing_locations(ast.copy_location(ast.Assign(targets, value), statement))


def _matched(targets: list[ast.expr], value: ast.expr | None) -> list[tuple[list[ast.expr], ast.expr]]:
    """`x, y = a, b` as two assignments: what a helper returns are its own variables."""
    match targets, value:
        case [ast.Tuple(elts=names)], ast.Tuple(elts=values) if len(names) == len(values):
            return [([name], item) for name, item in zip(names, values, strict=True)]
    return [(targets, value)] if value is not None else []


def _inner(statement: ast.stmt, functions: Mapping[str, ast.FunctionDef], depth: int) -> ast.stmt:
    """A statement whose blocks are written out."""
    for field in ("body", "orelse") if isinstance(statement, (ast.For, ast.With, ast.If)) else ():
        setattr(statement, field, list(write_out_helpers(getattr(statement, field, []), functions, depth)))
    return statement


def _body(helper: ast.FunctionDef, call: ast.Call) -> list[ast.stmt] | None:
    """What a call of a helper does, its variables renamed; None if that is more than to draw and to return."""
    words = {last_name(item.func) for item in ast.walk(helper) if isinstance(item, ast.Call)}
    simple = not any(isinstance(item, NOT_WRITTEN_OUT) for part in helper.body for item in ast.walk(part))
    returns = [item for item in ast.walk(helper) if isinstance(item, ast.Return)]
    arguments = helper.args
    if words.isdisjoint(RANDOM) or not simple or arguments.vararg or arguments.kwarg or len(returns) != 1:
        return None
    if helper.body[-1] is not returns[0] or any(isinstance(item, ast.Starred) for item in call.args):
        return None
    positional = [item.arg for item in arguments.args]
    given = dict(zip(reversed(positional), reversed(arguments.defaults), strict=False))
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    given |= {item.arg: value for item, value in keywords if value is not None}
    given |= dict(zip(positional, call.args, strict=False))
    given |= {item.arg: item.value for item in call.keywords if item.arg}
    stored = {item.id for item in ast.walk(helper) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)}
    names = _Prefixed(helper.name, stored | given.keys())
    bound = [ast.Assign([ast.Name(f"{helper.name}_{name}", ast.Store())], value) for name, value in given.items()]
    body = [names.visit(copy.deepcopy(item)) for item in helper.body]
    return [ast.fix_missing_locations(ast.copy_location(item, call)) for item in (*bound, *body)]


class _Prefixed(ast.NodeTransformer):
    """A function's own variables under names that no other function has."""

    def __init__(self, prefix: str, names: set[str]):
        self._prefix, self._names = prefix, names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(f"{self._prefix}_{node.id}", node.ctx) if node.id in self._names else node
