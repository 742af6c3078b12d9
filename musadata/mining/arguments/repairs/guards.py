"""Corrections of the arguments for which mined code raises an error of its own: `if kind == 1: … else: raise …`."""

import ast
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from musadata.mining.arguments.attempts import Attempt, configuration, fields_of
from musadata.mining.arguments.defaults import default_text
from musadata.mining.arguments.repairs.parameters import Parameters

EQUAL, UNEQUAL = (ast.Eq, ast.In, ast.Is), (ast.NotEq, ast.NotIn, ast.IsNot)
LESS, MORE = (ast.Lt, ast.LtE), (ast.Gt, ast.GtE)
Guards = tuple[tuple[str, tuple[str, ...]], ...]  # names and the values of each with which the code does not raise


def repair_guarded(attempt: Attempt, line: str, known: Parameters) -> Iterator[Attempt]:
    """Variants with which the conditions around the `raise` that failed turn out otherwise.

    Args:
        line: the text of the reference that raised the error.
    """
    for name, values in _guards(known.source, line) if line.startswith("raise") else ():
        for place, item in enumerate(known.init):
            between = [default_text(other.default) for other in known.init[len(attempt.init) : place]]
            if item.name == name and None not in between:
                init = (*attempt.init, *map(str, between))
                yield from (replace(attempt, init=(*init[:place], value, *init[place + 1 :])) for value in values)
        for place, text in enumerate(attempt.init):
            fields = fields_of(text)
            for value in values if name in fields else ():
                made = configuration(text, {**fields, name: value})
                yield replace(attempt, init=(*attempt.init[:place], made, *attempt.init[place + 1 :]))


@lru_cache(maxsize=64)
def _guards(source: str, line: str) -> Guards:
    found: list[tuple[str, tuple[str, ...]]] = []
    lines = source.splitlines()

    def raises(body: list[ast.stmt]) -> bool:
        own = [item for item in body if isinstance(item, ast.Raise)]
        return any(line.startswith(lines[item.lineno - 1].strip()) for item in own)

    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.If):
            rest = node.orelse
            while len(rest) == 1 and isinstance(rest[0], ast.If):
                rest = rest[0].orelse
            for wanted in ([False] if raises(node.body) else []) + ([True] if raises(rest) else []):
                found += _satisfied(node.test, wanted)
    return tuple(found)


def _satisfied(test: ast.expr, wanted: bool) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Names in a condition, and values of each that may make it true, or false."""
    if isinstance(test, ast.BoolOp):
        for item in test.values:
            yield from _satisfied(item, wanted)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _satisfied(test.operand, not wanted)
    elif isinstance(test, (ast.Name, ast.Attribute)):
        yield _last(test), (str(wanted),)
    elif isinstance(test, ast.Compare) and len(test.ops) == 1:
        values = _values(test.ops[0], test.comparators[0], wanted)
        if values:
            yield _last(test.left), values


def _values(operator: ast.cmpop, other: ast.expr, wanted: bool) -> tuple[str, ...]:
    try:
        constant = ast.literal_eval(other)
    except ValueError:
        return ()
    if isinstance(operator, EQUAL if wanted else UNEQUAL):
        listed = (
            constant if isinstance(operator, (ast.In, ast.NotIn)) and not isinstance(constant, str) else (constant,)
        )
        return tuple(map(repr, listed))
    if type(constant) is int and isinstance(operator, (*LESS, *MORE)):
        is_less = isinstance(operator, LESS) == wanted
        return tuple(str(value) for value in ((constant - 1, constant) if is_less else (constant, constant + 1)))
    return ()


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
