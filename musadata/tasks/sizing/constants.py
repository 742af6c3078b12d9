"""The sizes that a reference's text spells out: integers on top level, in `get_inputs` and in `get_init_inputs`."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

SMALLEST = 8  # below are kernel sizes, strides and the like
_MOST_BITS = 40
_INIT = "get_init_inputs"
_FUNCTIONS = frozenset({"get_inputs", _INIT})


@dataclass(frozen=True)
class Constant:
    """An integer that may be a size.

    Attributes:
        name: what it is assigned to, or the function that holds it.
        line: 1-based.
        start, end: bytes of its line in UTF-8.
        bounds: it is the bound of random integers, and no size itself.
    """

    name: str
    value: int
    line: int
    start: int
    end: int
    bounds: bool = False


def find_constants(source: str, least: int = SMALLEST) -> list[Constant]:
    """All of them from `least` on, in the order of the text.

    Raises:
        SyntaxError: the text is not Python.
    """
    module = ast.parse(source)
    bounds = set(_bounds(module))
    found = [
        Constant(name, value, node.lineno, node.col_offset, node.end_col_offset, node in bounds)
        for name, tree in _places(module)
        for node, value in _integers(tree)
        if value >= least and node.end_lineno == node.lineno and node.end_col_offset is not None
    ]
    return sorted(found, key=lambda one: (one.line, one.start))


def _integers(tree: ast.AST) -> Iterator[tuple[ast.expr, int]]:
    """The integers in a tree. A power of integers, such as `1 << 24` and `2**20`, is one."""
    if isinstance(tree, ast.expr) and (value := _integer(tree)) is not None:
        yield tree, value
        return
    for node in ast.iter_child_nodes(tree):
        yield from _integers(node)


def _integer(node: ast.expr) -> int | None:
    match node:
        case ast.Constant(value) if type(value) is int:
            return value
        case ast.BinOp(ast.Constant(base), ast.LShift() | ast.Pow(), ast.Constant(power)):
            if type(base) is int and type(power) is int and 0 <= power <= _MOST_BITS:
                return base << power if isinstance(node.op, ast.LShift) else int(base**power)
    return None


def find_parameters(source: str) -> set[Constant]:
    """Those of them that `get_init_inputs` holds or names."""
    named = {
        one.id
        for function in ast.parse(source).body
        if isinstance(function, ast.FunctionDef) and function.name == _INIT
        for one in ast.walk(function)
        if isinstance(one, ast.Name)
    }
    return {one for one in find_constants(source) if one.name == _INIT or named.intersection(one.name.split(" = "))}


def _bounds(module: ast.Module) -> Iterator[ast.AST]:
    """The arguments of `randint` that are no shape."""
    for call in ast.walk(module):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "randint":
            yield from call.args[:2]
            yield from (one.value for one in call.keywords if one.arg in ("low", "high"))


def _places(module: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """What may spell out sizes, by name."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and node.name in _FUNCTIONS:
            yield node.name, node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]
            if len(names) > 1 and isinstance(node.value, ast.Tuple) and len(node.value.elts) == len(names):
                yield from zip(names, node.value.elts, strict=True)
            else:
                yield " = ".join(names), node.value


def replace_constants(source: str, values: Mapping[Constant, int]) -> str:
    """The text with other integers in these places."""
    lines = [line.encode() for line in source.split("\n")]
    for constant in sorted(values, key=lambda one: (one.line, one.start), reverse=True):
        line = lines[constant.line - 1]
        lines[constant.line - 1] = line[: constant.start] + str(values[constant]).encode() + line[constant.end :]
    return b"\n".join(lines).decode()
