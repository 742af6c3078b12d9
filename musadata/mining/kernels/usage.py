"""Examples of calls in a repository's own tests and benchmarks: evidence for the inputs of a kernel."""

import ast
import copy
import re
from collections.abc import Iterator

from musadata.mining.kernels.equivalents import Equivalent, arguments_of
from musadata.mining.kernels.repository import Repository, folder_distance
from musadata.mining.slicing.evidence import MAX_EXAMPLES, Example, call_examples, read_examples

MAX_FILES = 12
MAX_FIXTURES = 3  # fixtures that use fixtures
ON_DEVICE = frozenset({"cuda", "cpu", "requires_grad_", "contiguous", "double", "detach"})
DTYPE = re.compile(r"\bdtype\b|\btorch\.(?:b?float\d*|half|double|u?int\d*|long|bool)\b")
PLACES = frozenset({"device", "requires_grad", "generator", "pin_memory"})


def find_examples(repository: Repository, equivalent: Equivalent) -> list[Example]:
    """Calls of a wrapper, or of its plain version, in tests and benchmarks; those nearest to the wrapper first."""
    names = frozenset({equivalent.wrapper.name, equivalent.plain.name})
    found: list[Example] = []
    for path in _test_files(repository, equivalent.wrapper_path, names):
        for _, statements in straight_lines(repository.module(path)):
            if equivalent.is_module:
                for name in sorted(names):
                    found += read_examples(statements, name, "test")
            else:
                calls = call_examples(statements, names)
                found += [example for call in calls if (example := _example(call, equivalent)) is not None]
    return list(dict.fromkeys(found))[:MAX_EXAMPLES]


def _test_files(repository: Repository, near: str, names: frozenset[str]) -> list[str]:
    paths = [path for path in repository.python_paths if "test" in path.lower() or "bench" in path.lower()]
    using = [path for path in paths if any(name in repository.text(path) for name in names)]
    return sorted(using, key=lambda path: (folder_distance(near, path), path))[:MAX_FILES]


def straight_lines(module: ast.Module | None) -> Iterator[tuple[ast.FunctionDef, list[ast.stmt]]]:
    """Every function with the file's assignments and its body, in which parameters are set to defaults, first
    `parametrize` values, or what the fixture of their name returns."""
    owners = (
        {id(item): node for node in ast.walk(module) if isinstance(node, ast.ClassDef) for item in node.body}
        if module
        else {}
    )
    stated = [node for node in (module.body if module else ()) if isinstance(node, ast.Assign)]
    for node in ast.walk(module) if module else ():
        if isinstance(node, ast.FunctionDef):
            given = _given(node, module, owners.get(id(node)), MAX_FIXTURES)
            statements = map(copy.deepcopy, [*stated, *given, *node.body])
            yield node, [ast.fix_missing_locations(_OnHost().visit(statement)) for statement in statements]


def _given(
    function: ast.FunctionDef, module: ast.Module | None, owner: ast.ClassDef | None, depth: int
) -> list[ast.stmt]:
    """The statements that set the parameters of a test or fixture."""
    values = {name: value for node in (owner, function) if node is not None for name, value in _parameters(node)}
    found: list[ast.stmt] = [ast.Assign([ast.Name(name, ast.Store())], value) for name, value in values.items()]
    for argument in function.args.args if depth else ():
        fixture = None if argument.arg in values else _fixture(argument.arg, module, owner)
        if fixture is not None:
            found += [*_given(fixture, module, owner, depth - 1), *_returning(fixture, argument.arg)]
    return found


def _fixture(name: str, module: ast.Module | None, owner: ast.ClassDef | None) -> ast.FunctionDef | None:
    near = [*(owner.body if owner else ()), *(module.body if module else ())]
    known = [node for node in near if isinstance(node, ast.FunctionDef) and node.name == name]
    return next((node for node in known if any("fixture" in ast.unparse(item) for item in node.decorator_list)), None)


def _returning(fixture: ast.FunctionDef, name: str) -> Iterator[ast.stmt]:
    """The body of a fixture, in which a variable is assigned what it returns. `request.param` is its first value."""
    listed = [item.value for one in fixture.decorator_list if isinstance(one, ast.Call) for item in one.keywords]
    drawn = first_of(listed[0]) if listed else None
    for statement in fixture.body:
        node = copy.deepcopy(statement)
        value = getattr(node, "value", None)
        if isinstance(value, ast.Yield):
            value = value.value
        if isinstance(value, ast.expr) and (isinstance(node, ast.Return) or isinstance(statement, ast.Expr)):
            node = ast.Assign([ast.Name(name, ast.Store())], value)
        yield _Drawn(drawn).visit(node) if drawn is not None else node


class _Drawn(ast.NodeTransformer):
    """`request.param` as a value."""

    def __init__(self, value: ast.expr):
        self._value = value

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        return copy.deepcopy(self._value) if ast.unparse(node) == "request.param" else node


def _parameters(node: ast.FunctionDef | ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.FunctionDef):
        positional = node.args.args[len(node.args.args) - len(node.args.defaults) :]
        yield from ((item.arg, value) for item, value in zip(positional, node.args.defaults, strict=True))
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("parametrize"):
            yield from _parametrized(decorator.args)


def _parametrized(arguments: list[ast.expr]) -> Iterator[tuple[str, ast.expr]]:
    """Names and first values of `parametrize("a, b", [(1, 2), …])`."""
    first = first_of(arguments[1]) if len(arguments) > 1 else None
    if first is None:
        return
    if isinstance(first, ast.Call) and ast.unparse(first.func).endswith("param") and first.args:
        first = ast.Tuple(first.args, ast.Load()) if len(first.args) > 1 else first.args[0]
    named = arguments[0].value if isinstance(arguments[0], ast.Constant) else None
    names = [name.strip() for name in named.split(",")] if isinstance(named, str) else []
    if len(names) > 1 and not isinstance(first, (ast.Tuple, ast.List)):
        first = ast.Tuple([ast.Subscript(first, ast.Constant(place), ast.Load()) for place in range(len(names))])
    values = first.elts if len(names) > 1 and isinstance(first, (ast.Tuple, ast.List)) else [first]
    yield from zip(names, values, strict=False)


def first_of(values: ast.expr) -> ast.expr | None:
    """The first of some values, an expression if they are not written out; None if there is none."""
    if isinstance(values, (ast.List, ast.Tuple)):
        return values.elts[0] if values.elts else None
    return ast.parse(f"next(iter({ast.unparse(values)}))", mode="eval").body


class _OnHost(ast.NodeTransformer):
    """Removes device placement, so that an expression can be evaluated on any machine."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        node.keywords = [item for item in node.keywords if item.arg not in PLACES]
        if isinstance(node.func, ast.Attribute) and node.func.attr == "to":
            node.args = [item for item in node.args if DTYPE.search(ast.unparse(item))]
            return node if node.args or node.keywords else node.func.value
        return node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr in ON_DEVICE else node


def _example(call: ast.Call, equivalent: Equivalent) -> Example | None:
    """The arguments that wrapper and plain version share; None if the call does not show them all."""
    if any(isinstance(item, ast.Starred) for item in call.args):
        return None
    parts = ast.unparse(call.func).split(".")
    called = equivalent.wrapper if equivalent.wrapper.name in parts else equivalent.plain
    given = dict(zip((name for name, _ in arguments_of(called) or []), call.args, strict=False))
    given |= {item.arg: item.value for item in call.keywords if item.arg}
    wanted = equivalent.shared if called is equivalent.wrapper else equivalent.plain_names or equivalent.shared
    if not given.keys() >= set(wanted):
        return None
    return Example(inputs=tuple(ast.unparse(given[name]) for name in wanted), evidence="test")
