"""Finding equivalents in tests: the expression that a repository's own test compares a kernel's wrapper with."""

import ast
import copy
from collections.abc import Iterator, Mapping

from musadata.mining.kernels.equivalents import Equivalent, arguments_of, definition
from musadata.mining.kernels.repository import Definition, Repository, folder_distance, wrapper_kind
from musadata.mining.kernels.usage import straight_lines
from musadata.mining.slicing.evidence import call_examples, called_name

COMPARERS = frozenset({"allclose", "assert_close", "assert_allclose", "assertTensorsEqual", "assert_equal", "isclose"})
MAX_TESTS = 200  # test files of one repository that are read


def find_compared(repository: Repository, places: Mapping[str, list[str]]) -> list[Equivalent]:
    """Functions that a test calls and compares with an expression of the same inputs, in the order of the tests.

    Args:
        places: every function and class on top level, by name: the files that define it.
    """
    found: dict[tuple[str, str], Equivalent] = {}
    tests = [path for path in repository.python_paths if "test" in path.lower()]
    for path in tests[:MAX_TESTS]:
        if any(name in repository.text(path) for name in COMPARERS):
            for place, statements in straight_lines(repository.module(path)):
                for item in _in_test(repository, places, path, place, statements):
                    found.setdefault((item.wrapper_path, item.wrapper.name), item)
    return list(found.values())


def _in_test(
    repository: Repository,
    places: Mapping[str, list[str]],
    path: str,
    place: ast.FunctionDef,
    statements: list[ast.stmt],
) -> Iterator[Equivalent]:
    for call in [item for statement in statements for item in ast.walk(statement) if isinstance(item, ast.Call)]:
        name = called_name(call)
        elsewhere = sorted(set(places.get(name, ())) - {path}, key=lambda other: (folder_distance(path, other), other))
        fast = definition(repository, elsewhere[0], name) if elsewhere else None
        given = _given(call, fast) if fast is not None else None
        if fast is None or given is None:
            continue
        expected = _expectation(statements, name, frozenset(given))
        if expected is not None:
            yield _equivalent(fast, elsewhere[0], given, expected, path, place)


def _given(call: ast.Call, fast: Definition) -> dict[str, str] | None:
    """Variable of the test -> argument of the wrapper; None if an argument is not a variable."""
    known = arguments_of(fast)
    if known is None or wrapper_kind(fast) in ("module", "class") or not call.args + call.keywords:
        return None
    values = dict(zip((name for name, _ in known), call.args, strict=False))
    values |= {item.arg: item.value for item in call.keywords if item.arg}
    if len(values) < len(call.args) + len(call.keywords) or {name for name, needed in known if needed} - values.keys():
        return None
    if not all(isinstance(value, ast.Name) for value in values.values()):
        return None
    given = {value.id: name for name, value in values.items() if isinstance(value, ast.Name)}
    return given if len(given) == len(values) and values.keys() <= {name for name, _ in known} else None


def _expectation(statements: list[ast.stmt], name: str, given: frozenset[str]) -> ast.expr | None:
    """The expression, of the given variables, that the wrapper's result is compared with."""
    kept = [statement for statement in statements if not _assigns(statement, given)]
    for comparison in call_examples(kept, COMPARERS):
        sides = comparison.args[:2]
        for ours, theirs in (sides, sides[::-1]) if len(sides) == 2 else ():
            direct = isinstance(ours, ast.Call) and called_name(ours) == name
            free = {item.id for item in ast.walk(theirs) if isinstance(item, ast.Name)}
            if direct and name not in free and given <= free:
                return theirs
    return None


def _assigns(statement: ast.stmt, names: frozenset[str]) -> bool:
    """Whether a statement binds inputs: their values must not be substituted into the expectation."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    bound = {item.id for target in targets for item in ast.walk(target) if isinstance(item, ast.Name)}
    return bool(bound & names)


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]):
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._names.get(node.id, node.id), node.ctx)


def _equivalent(
    fast: Definition, wrapper_path: str, given: dict[str, str], expected: ast.expr, path: str, place: ast.FunctionDef
) -> Equivalent:
    order = [name for name, _ in arguments_of(fast) or [] if name in given.values()]
    body = ast.unparse(_Renamed(given).visit(copy.deepcopy(expected)))
    text = f"\n\ndef expected_{fast.name}({', '.join(order)}):\n    return {body}\n"
    plain = ast.parse(text).body[0]
    assert isinstance(plain, ast.FunctionDef)
    plain.lineno, plain.end_lineno = place.lineno, place.end_lineno
    evidence = f"the expectation of {place.name} in {path}"
    return Equivalent(fast, wrapper_path, plain, path, tuple(order), evidence, text)
