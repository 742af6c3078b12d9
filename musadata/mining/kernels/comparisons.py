"""Finding equivalents in tests: the expression that a repository's own test compares a kernel's wrapper with."""

import ast
import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from musadata.mining.kernels.equivalents import Equivalent, arguments_of, definition, method, near_kernels
from musadata.mining.kernels.extension_names import chain_of
from musadata.mining.kernels.repository import Definition, Repository, folder_distance, wrapper_kind
from musadata.mining.kernels.usage import straight_lines
from musadata.mining.slicing.evidence import call_examples, called_name

COMPARERS = frozenset({"allclose", "assert_close", "assert_allclose", "assertTensorsEqual", "assert_equal", "isclose"})
TESTS = re.compile(r"test|bench|check|compare")
MAX_TESTS = 200  # test files of one repository that are read


def find_compared(repository: Repository, places: Mapping[str, list[str]]) -> list[Equivalent]:
    """Functions that a test calls and compares with an expression of the same inputs, in the order of the tests.

    Args:
        places: every function and class on top level, by name: the files that define it.
    """
    found: dict[tuple[str, str, str], Equivalent] = {}
    near = near_kernels(repository)
    places = {name: [path for path in paths if path in near] for name, paths in places.items()}
    places = {name: paths for name, paths in places.items() if paths}
    tests = [path for path in repository.python_paths if TESTS.search(path.lower())]
    for path in tests[:MAX_TESTS]:
        if any(name in repository.text(path) for name in COMPARERS):
            bound = {name.partition(".")[0].removesuffix("()") for name in repository.names.of(path)}

            def is_read(node: ast.AST, names: frozenset[str] = frozenset({*places, *bound, "ops"})) -> bool:
                words = {getattr(item, "attr", getattr(item, "id", "")) for item in ast.walk(node)}
                return not words.isdisjoint(COMPARERS) and not words.isdisjoint(names)

            for place, statements in straight_lines(repository.module(path), is_read):
                for item in _in_test(repository, places, path, place, statements):
                    found.setdefault((item.wrapper_path, item.wrapper.name, item.plain_text), item)
    return list(found.values())


def _in_test(
    repository: Repository,
    places: Mapping[str, list[str]],
    path: str,
    place: ast.FunctionDef,
    statements: list[ast.stmt],
) -> Iterator[Equivalent]:
    test = TestCode(path, place, repository.module(path))
    calls = [item for statement in statements for item in ast.walk(statement) if isinstance(item, ast.Call)]
    if not any(called_name(call) in COMPARERS for call in calls):
        return
    for call in {ast.unparse(item): item for item in calls if _may_compare(item)}.values():
        name = called_name(call)
        elsewhere = sorted(set(places.get(name, ())) - {path}, key=lambda other: (folder_distance(path, other), other))
        fast = definition(repository, elsewhere[0], name) if elsewhere else None
        wrapper_path = elsewhere[0] if elsewhere else path
        if fast is None:
            fast = _direct(repository, path, call)
            wrapper_path = path
        given = _given(call, fast) if fast is not None else None
        if fast is None or given is None:
            continue
        expected = _expectation(statements, name, frozenset(given))
        if expected is not None:
            direct = f"\n\n{ast.unparse(fast)}\n" if wrapper_path == path else ""
            made = _equivalent(fast, wrapper_path, given, expected, test, direct)
            yield replace(made, inputs=_inputs(statements, call, made, given))


def _inputs(statements: list[ast.stmt], call: ast.Call, made: Equivalent, given: Mapping[str, str]) -> tuple[str, ...]:
    """The values of the wrapper's arguments in the test; nothing if they are not told."""
    values = [*call.args, *(item.value for item in call.keywords)]
    order = [given[item.id] for item in values if isinstance(item, ast.Name)]
    for inlined in call_examples(statements, frozenset({called_name(call)})):
        told = [*inlined.args, *(item.value for item in inlined.keywords)]
        if len(told) == len(order) and not any(isinstance(item, ast.Name) for item in told):
            shown = dict(zip(order, map(ast.unparse, told), strict=True))
            return tuple(shown[name] for name in made.shared)
    return ()


def _may_compare(call: ast.Call) -> bool:
    """Whether all arguments of a call are variables, as `_given` needs them."""
    values = [*call.args, *(item.value for item in call.keywords)]
    return bool(values) and all(isinstance(item, ast.Name) for item in values)


def _direct(repository: Repository, path: str, call: ast.Call) -> ast.FunctionDef | None:
    """A function around a binding that a test calls without a wrapper."""
    chain = chain_of(call.func)
    meant = repository.names.meaning(path, chain) if chain else None
    names = [item.id for item in call.args if isinstance(item, ast.Name)]
    if meant is None or call.keywords or not names or len(names) < len(call.args) or len(set(names)) < len(names):
        return None
    if not meant[1] and ":" not in meant[0].target:
        return None
    given = ", ".join(names)
    made = ast.parse(f"def call_{chain[-1]}({given}):\n    return {ast.unparse(call.func)}({given})").body[0]
    assert isinstance(made, ast.FunctionDef)
    made.lineno, made.end_lineno = call.lineno, call.end_lineno
    return made


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


@dataclass(frozen=True)
class TestCode:
    """A function of a test file in which a wrapper is compared."""

    path: str
    place: ast.FunctionDef
    module: ast.Module | None

    def local_code(self, expression: ast.AST) -> str:
        """What an expression needs of the test itself: functions and imports inside it, and methods of its class."""
        local = {item.name: item for item in self.place.body if isinstance(item, ast.FunctionDef)}
        wanted = {item.id for item in ast.walk(expression) if isinstance(item, ast.Name)}
        found: dict[str, ast.stmt] = {}
        while wanted - found.keys():
            name = sorted(wanted - found.keys())[0]
            node = local.get(name) or method(self.module, name)
            found[name] = node or ast.Pass()
            wanted |= {item.id for item in ast.walk(node) if isinstance(item, ast.Name)} if node else set()
        imports = [
            node
            for node in self.place.body
            if isinstance(node, (ast.Import, ast.ImportFrom))
            and wanted & {one.asname or one.name for one in node.names}
        ]
        kept = [*imports, *(node for node in found.values() if not isinstance(node, ast.Pass))]
        return "".join(f"\n\n{ast.unparse(node)}\n" for node in kept)


class Unbound(ast.NodeTransformer):
    """`self.plain(x)` and `TestCase.plain(x)` as `plain(x)`, where that is a method of a test's class."""

    def __init__(self, module: ast.Module | None):
        self._module = module
        self._owners = (
            {"self", "cls"} | {item.name for item in module.body if isinstance(item, ast.ClassDef)} if module else set()
        )

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        owned = isinstance(node.value, ast.Name) and node.value.id in self._owners
        return ast.Name(node.attr, node.ctx) if owned and method(self._module, node.attr) is not None else node


def _equivalent(
    fast: Definition, wrapper_path: str, given: dict[str, str], expected: ast.expr, test: TestCode, wrapper_text: str
) -> Equivalent:
    variables = {argument: variable for variable, argument in given.items()}
    order = [name for name, _ in arguments_of(fast) or [] if name in variables]
    others = {item.id for item in ast.walk(expected) if isinstance(item, ast.Name)} - given.keys()
    if others.isdisjoint(order):
        expected, names = _Renamed(given).visit(copy.deepcopy(expected)), tuple(order)
    else:  # a name of the test would mean an argument
        names = tuple(variables[name] for name in order)
    expression = Unbound(test.module).visit(copy.deepcopy(expected))
    text = f"\n\ndef expected_{fast.name}({', '.join(names)}):\n    return {ast.unparse(expression)}\n"
    plain = ast.parse(text).body[0]
    assert isinstance(plain, ast.FunctionDef)
    plain.lineno, plain.end_lineno = test.place.lineno, test.place.end_lineno
    evidence = f"the expectation of {test.place.name} in {test.path}"
    text = test.local_code(expression) + text
    return Equivalent(fast, wrapper_path, plain, test.path, tuple(order), evidence, text, wrapper_text, names)
