"""Corrections of the arguments on which conditions depend: `if kind == 1: … else: raise …`, `if bias: self.b = …`."""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from musadata.mining.arguments.attempts import Attempt, configuration, fields_of
from musadata.mining.arguments.defaults import default_text
from musadata.mining.arguments.repairs.parameters import Parameters
from musadata.mining.messages import Said, is_absent
from musadata.mining.reading.handed_names import handed_names

EQUAL, UNEQUAL = (ast.Eq, ast.In, ast.Is), (ast.NotEq, ast.NotIn, ast.IsNot)
LESS, MORE = (ast.Lt, ast.LtE), (ast.Gt, ast.GtE)
MAX_ITEMS = 16  # of a sequence whose length is asked for
ITEMS = (1, 8)  # what it may hold: counts of blocks, or widths
Guards = tuple[tuple[str, tuple[str, ...]], ...]  # names and the values of each with which the code does not raise
ATTRIBUTE = re.compile(r"\bself\.(\w+)\b(?!\()")
REFUSING = re.compile(r"raise\b|assert (?:0|False|not)\b")


def repair_guarded(attempt: Attempt, error: str, line: str, known: Parameters) -> Iterator[Attempt]:
    """Variants with which the conditions around the `raise` that failed, or around what is absent, turn out otherwise.

    Args:
        error: type and message of the exception.
        line: the text of the reference that raised it.
    """
    guards = _guards(known.source, line) if REFUSING.match(line) else ()
    lacking = Said.ATTRIBUTE.read(error)
    named = [*([lacking["name"]] if lacking and lacking["name"] else []), *ATTRIBUTE.findall(line)]
    for attribute in dict.fromkeys(named) if is_absent(error) else ():
        guards += _assigning(known.source, attribute)
    handed = handed_names(known.source)
    for name, values in dict.fromkeys(guards):
        for other in (name, *handed.get(name, ())):
            yield from _with_values(attempt, other, values, known)


def _with_values(attempt: Attempt, name: str, values: tuple[str, ...], known: Parameters) -> Iterator[Attempt]:
    for place, item in enumerate(known.init):
        between = [default_text(other.default) for other in known.init[len(attempt.init) : place]]
        if item.name == name and None not in between:
            init = (*attempt.init, *map(str, between))
            yield from (replace(attempt, init=(*init[:place], value, *init[place + 1 :])) for value in values)
    for place, text in enumerate(attempt.init):
        fields = fields_of(text)
        plain = [value for value in values if not value.startswith("(")]  # the tree may set a sequence
        for value in plain if name in fields else ():
            made = configuration(text, {**fields, name: value})
            yield replace(attempt, init=(*attempt.init[:place], made, *attempt.init[place + 1 :]))


@lru_cache(maxsize=64)
def _guards(source: str, line: str) -> Guards:
    found: list[tuple[str, tuple[str, ...]]] = []
    lines = source.splitlines()

    def raises(body: list[ast.stmt]) -> bool:
        own = [item for item in body if isinstance(item, (ast.Raise, ast.Assert))]
        return any(line.startswith(lines[item.lineno - 1].strip()) for item in own)

    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.If):
            rest = node.orelse
            while len(rest) == 1 and isinstance(rest[0], ast.If):
                rest = rest[0].orelse
            for wanted in ([False] if raises(node.body) else []) + ([True] if raises(rest) else []):
                found += _satisfied(node.test, wanted)
    return tuple(found)


@lru_cache(maxsize=64)
def _assigning(source: str, attribute: str) -> Guards:
    """What decides whether constructors set an attribute to something."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.If):
            does, does_not = (_any_sets(body, attribute) for body in (node.body, node.orelse))
            if does != does_not:
                found += _satisfied(node.test, does)
    return tuple(found)


def _any_sets(body: list[ast.stmt], attribute: str) -> bool:
    return any(_sets(item, attribute) for part in body for item in ast.walk(part))


def _sets(node: ast.AST, attribute: str) -> bool:
    """Whether a statement gives `self` this attribute, with a value other than None."""
    if isinstance(node, ast.Assign):
        targets = [item.attr for item in node.targets if isinstance(item, ast.Attribute)]
        return attribute in targets and not (isinstance(node.value, ast.Constant) and node.value.value is None)
    if isinstance(node, ast.Call) and _last(node.func).startswith(("register_", "add_module")) and len(node.args) > 1:
        given = [getattr(item, "value", node) for item in node.args[:2]]
        return given[0] == attribute and given[1] is not None
    return False


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
        counted = test.left.args if isinstance(test.left, ast.Call) and _last(test.left.func) == "len" else []
        if values and counted:
            counts = [int(text) for text in values if text.isdigit() and int(text) <= MAX_ITEMS]
            yield _last(counted[0]), tuple(repr((item,) * count) for count in counts for item in ITEMS)
        elif values:
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
