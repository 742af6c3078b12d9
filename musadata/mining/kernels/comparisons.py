"""Finding equivalents in tests: both sides of a comparison as functions of the tensors that the test draws.

A side may be any straight-line code: several statements, results written to an argument, calls through a helper.
"""

import ast
import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from musadata.mining.kernels.equivalents import Equivalent, arguments_of, method
from musadata.mining.kernels.extension_names import chain_of
from musadata.mining.kernels.helper_inlining import RANDOM
from musadata.mining.kernels.repository import Definition, Repository, wrapper_kind
from musadata.mining.kernels.usage import straight_lines
from musadata.mining.slicing.evidence import called_name, flat_statements

COMPARERS = frozenset({"allclose", "assert_close", "assert_allclose", "assertTensorsEqual", "assert_equal", "isclose"})
TESTS = re.compile(r"test|bench|check|compare")
MAX_TESTS = 200  # test files of one repository that are read
FACTORIES = frozenset({"zeros", "ones", "empty", "full", "arange", "linspace", "tensor", "eye"})
DIFFERENCES = frozenset({"abs", "norm"})
KEEPS_SHAPE = RANDOM | {"float", "half", "bfloat16", "to", "type", "clone", "abs", "exp", "sigmoid", "mul", "clamp"}
MAX_STATEMENTS = 40  # of one side

MAX_ORIGINS = 6  # assignments that are followed back

Wrapper = tuple[Definition, str]
Flat = Sequence[tuple[ast.stmt, ast.expr | None]]


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


@dataclass(frozen=True)
class Side:
    """What one side of a comparison needs: its statements, and the places of those that draw its inputs."""

    statements: tuple[ast.stmt, ...]
    drawn: tuple[int, ...]
    result: ast.expr

    def calls(self) -> list[ast.Call]:
        return [
            item for node in (*self.statements, self.result) for item in ast.walk(node) if isinstance(item, ast.Call)
        ]


def find_compared(repository: Repository, wrappers: Mapping[str, Wrapper], known: frozenset[str]) -> list[Equivalent]:
    """Comparisons of code that calls a kernel with code that does not, in the order of the tests.

    Args:
        wrappers: functions and classes that call a kernel, with their files.
        known: those of them that have an equivalent already.
    """
    found: dict[str, Equivalent] = {}
    for reader, place, statements in comparisons(repository, wrappers):
        for item in reader.pairs(place, statements):
            if item.wrapper.name.removeprefix("call_") not in known:
                found.setdefault(item.plain_text + item.wrapper_text, item)
    return list(found.values())


def comparisons(
    repository: Repository, wrappers: Mapping[str, Wrapper]
) -> Iterator[tuple["_Comparisons", ast.FunctionDef, list[ast.stmt]]]:
    """Every function of a test that compares something and calls a kernel, with its statements."""
    tests = [path for path in repository.python_paths if TESTS.search(path.lower())][:MAX_TESTS]
    scripts = [path for path in repository.python_paths if path not in tests and repository.names.of(path)]
    for path in [*tests, *scripts]:
        words = COMPARERS | DIFFERENCES if path in tests else COMPARERS
        if any(name in repository.text(path) for name in words):
            reader = _Comparisons(repository, path, wrappers)
            for place, statements in straight_lines(repository.module(path), reader.is_read):
                yield reader, place, statements


class _Comparisons:
    """Reads the comparisons of one test file."""

    def __init__(self, repository: Repository, path: str, wrappers: Mapping[str, Wrapper]):
        self._repository, self.path = repository, path
        self.module = repository.module(path)
        self._functions = {
            node.name: node for node in (self.module.body if self.module else ()) if isinstance(node, ast.FunctionDef)
        }
        self._bound = {name.partition(".")[0].removesuffix("()") for name in repository.names.of(path)}
        self._wrappers = wrappers
        self._comparers = COMPARERS | {name for name, node in self._functions.items() if _compares(node)}

    def is_read(self, node: ast.AST) -> bool:
        words = {getattr(item, "attr", getattr(item, "id", "")) for item in ast.walk(node)}
        return not words.isdisjoint(self._comparers | DIFFERENCES) and not words.isdisjoint(
            self._wrappers.keys() | self._bound
        )

    def pairs(self, place: ast.FunctionDef, statements: list[ast.stmt]) -> Iterator[Equivalent]:
        flat = list(flat_statements(self.prepared(statements)))
        for number, (statement, _) in enumerate(flat):
            for first, second in self.sides(statement):
                sides = [self._slice(flat, number, side) for side in (first, second)]
                for fast, plain in (sides, sides[::-1]):
                    item = self._equivalent(place, flat, fast, plain)
                    if item is not None:
                        yield item

    def prepared(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """A test's statements, in which methods are called by name."""
        unbound = Unbound(self.module)
        found = [unbound.visit(copy.deepcopy(one)) for item in statements for one in _each(item)]
        return list(map(ast.fix_missing_locations, found))

    def sides(self, statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
        """The pairs of expressions that a statement compares."""
        for call in [item for item in ast.walk(statement) if isinstance(item, ast.Call)]:
            if called_name(call) in self._comparers and len(call.args) > 1:
                yield call.args[0], call.args[1]
            elif called_name(call) in DIFFERENCES and isinstance(statement, (ast.Assert, ast.Assign, ast.Expr)):
                whole = call.args[0] if call.args else getattr(call.func, "value", None)
                if isinstance(whole, ast.BinOp) and isinstance(whole.op, ast.Sub):
                    yield whole.left, whole.right

    def _slice(self, flat: Flat, end: int, result: ast.expr) -> Side | None:
        """The statements before `end` that `result` depends on; None if there are too many, or an object is needed."""
        needed, kept, drawn = self.names(result), list[ast.stmt](), list[int]()
        written, sizes, sized = set[str](), dict[str, str](), set[str]()
        for number in range(end - 1, -1, -1):
            statement, _ = flat[number]
            bound, changed = _bound(statement), self.changed(flat, number)
            if (not bound & needed and not (changed & needed) - written) or _tracks_gradients(statement):
                continue
            if len(bound) == 1 and _draws(statement) and not self.is_fast(statement):
                drawn.append(number)
                needed -= bound
                sizes |= dict(drawn_sizes(statement))
                continue
            if bound & needed <= sizes.keys() and not changed:
                sized |= bound & needed
                needed -= bound
                continue
            kept.append(_rebinding(statement))
            written |= changed if isinstance(statement, ast.Expr) else set()
            loaded = self.names(statement, loaded=True)
            written |= (loaded - needed) if _likens(statement) else set()  # only shape and type are read
            needed = (needed - bound) | loaded
        if len(kept) > MAX_STATEMENTS or "self" in needed or not drawn:
            return None
        stated = [f"{name} = {sizes[name]}" for name in sorted(sized | (needed & sizes.keys()))]
        return Side((*ast.parse("\n".join(stated)).body, *kept[::-1]), tuple(sorted(drawn)), result)

    def names(self, node: ast.AST, *, loaded: bool = False) -> set[str]:
        found = {
            item.id
            for item in ast.walk(node)
            if isinstance(item, ast.Name) and not (loaded and isinstance(item.ctx, ast.Store))
        }
        return found - self._bound - self._functions.keys()

    def is_fast(self, node: ast.AST) -> bool:
        return any(self.fast_name(item) for item in ast.walk(node) if isinstance(item, ast.Call))

    def fast_name(self, call: ast.Call) -> str:
        """The wrapper or binding that a call means; "" if none."""
        if called_name(call) in self._wrappers:
            return called_name(call)
        chain = chain_of(call.func)
        meant = self._repository.names.meaning(self.path, chain) if chain else None
        return chain[-1].removesuffix("()") if meant is not None and (meant[1] or ":" in meant[0].target) else ""

    def changed(self, flat: Flat, number: int) -> set[str]:
        """The variables that a statement changes without binding them.

        A call of a kernel changes what was allocated for it, and reads what was drawn or computed.
        """
        statement, _ = flat[number]
        if isinstance(statement, (ast.AugAssign, ast.Assign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            parts = [item for item in targets if isinstance(item, (ast.Subscript, ast.Attribute))]
            return {item.id for part in parts for item in ast.walk(part) if isinstance(item, ast.Name)}
        if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
            return set()
        found: set[str] = set()
        for call in [item for item in ast.walk(statement) if isinstance(item, ast.Call)]:
            given = [item.value for item in call.keywords if item.arg == "out"]
            if self.fast_name(call):
                given += [item for item in call.args if not self._is_drawn(flat, number, getattr(item, "id", ""))]
            if isinstance(call.func, ast.Attribute) and call.func.attr.endswith("_"):
                given.append(call.func.value)
            found |= {item.id for item in given if isinstance(item, ast.Name)}
        return found

    def _is_drawn(self, flat: Flat, end: int, name: str, depth: int = MAX_ORIGINS) -> bool:
        """Whether a variable holds random numbers before `end`, or what is computed of them."""
        for number in range(end - 1, -1, -1):
            statement, _ = flat[number]
            if name in _bound(statement):
                read = self.names(statement, loaded=True) if depth and not _likens(statement) else ()
                return _draws(statement) or any(self._is_drawn(flat, number, one, depth - 1) for one in sorted(read))
        return False

    def _equivalent(
        self, place: ast.FunctionDef, flat: Flat, fast: Side | None, plain: Side | None
    ) -> Equivalent | None:
        if fast is None or plain is None or fast.drawn != plain.drawn:
            return None
        names = [name for call in fast.calls() if (name := self.fast_name(call))]
        if not names or any(self.fast_name(call) == names[-1] for call in plain.calls()):
            return None
        inputs = {name: value for number in fast.drawn for name, value in self._drawn(flat[number])}
        if len(inputs) < len(fast.drawn):
            return None
        made = self.equivalent(place, names[-1], tuple(inputs), fast, plain)
        return replace(made, inputs=tuple(ast.unparse(inputs[name]) for name in made.plain_names or made.shared))

    def equivalent(
        self, place: ast.FunctionDef, name: str, inputs: tuple[str, ...], fast: Side, plain: Side
    ) -> Equivalent:
        """Both sides of a comparison as functions of the same inputs."""
        code = TestCode(self.path, place, self.module)
        made = [_function(f"call_{name}", inputs, fast), _function(f"expected_{name}", inputs, plain)]
        texts = [code.local_code(node) + f"\n\n{ast.unparse(node)}\n" for node in made]
        for node in made:
            node.lineno, node.end_lineno = place.lineno, place.end_lineno
        evidence = f"the comparison in {place.name} of {self.path}"
        given = self._given(name, inputs, fast)
        if given:
            wrapper, path = self._wrappers[name]
            shared, values = tuple(given), tuple(given.values())
            return Equivalent(wrapper, path, made[1], self.path, shared, evidence, texts[1], plain_names=values)
        return Equivalent(made[0], self.path, made[1], self.path, inputs, evidence, texts[1], texts[0])

    def _given(self, name: str, inputs: tuple[str, ...], fast: Side) -> dict[str, str]:
        """Argument of a wrapper -> input, where a side does nothing but call it with the inputs; else nothing."""
        calls, node = fast.calls(), self._wrappers[name][0] if name in self._wrappers else None
        if node is None or len(calls) != 1 or len(fast.statements) > 1 or wrapper_kind(node) in ("module", "class"):
            return {}
        values = dict(zip((name for name, _ in arguments_of(node) or ()), calls[0].args, strict=False))
        values |= {item.arg: item.value for item in calls[0].keywords if item.arg}
        given = {argument: value.id for argument, value in values.items() if isinstance(value, ast.Name)}
        is_whole = sorted(given.values()) == sorted(inputs) and len(given) == len(calls[0].args + calls[0].keywords)
        return given if is_whole else {}

    def _drawn(self, item: tuple[ast.stmt, ast.expr | None]) -> Iterator[tuple[str, ast.expr]]:
        statement, value = item
        for name in _bound(statement):
            if value is not None:
                yield name, value


def _each(statement: ast.stmt) -> list[ast.stmt]:
    """`x, y = f(), g()` as two assignments."""
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(values):
            if all(isinstance(value, ast.Call) for value in values):
                pairs = zip(names, values, strict=True)
                return [ast.copy_location(ast.Assign([name], value), statement) for name, value in pairs]
    return [statement]


def _compares(node: ast.FunctionDef) -> bool:
    """Whether a function compares its first two arguments."""
    first = [item.arg for item in node.args.args[:2]]
    for call in [item for item in ast.walk(node) if isinstance(item, ast.Call)]:
        if called_name(call) in COMPARERS | DIFFERENCES:
            named = {item.id for item in ast.walk(call) if isinstance(item, ast.Name)}
            if len(first) == 2 and named >= set(first):
                return True
    return False


def _bound(statement: ast.stmt) -> set[str]:
    """The variables that a statement binds."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    targets += [statement.target] if isinstance(statement, (ast.AugAssign, ast.AnnAssign)) else []
    plain = [item for target in targets for item in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return {item.id for item in plain if isinstance(item, ast.Name)}


def _draws(statement: ast.stmt) -> bool:
    """Whether a statement assigns random numbers."""
    if not isinstance(statement, ast.Assign):
        return False
    return any(isinstance(item, ast.Call) and called_name(item) in RANDOM for item in ast.walk(statement.value))


def drawn_sizes(statement: ast.stmt) -> Iterator[tuple[str, str]]:
    """The variables that are sizes of a drawn tensor, each with the expression that reads it from the tensor."""
    calls = [item for item in ast.walk(statement) if isinstance(item, ast.Call)]
    drawing = [item for item in calls if called_name(item) in RANDOM]
    if not isinstance(statement, ast.Assign) or len(drawing) != 1 or not {*map(called_name, calls)} <= KEEPS_SHAPE:
        return
    listed = [item for item in drawing[0].args if isinstance(item, (ast.Tuple, ast.List))]
    sizes = listed[0].elts if listed else [] if called_name(drawing[0]) == "randint" else drawing[0].args
    for name in _bound(statement):
        for place, item in enumerate(sizes):
            if isinstance(item, ast.Name):
                yield item.id, f"{name}.shape[{place}]"


def _likens(statement: ast.stmt) -> bool:
    """Whether a statement makes a tensor like another one."""
    value = statement.value if isinstance(statement, ast.Assign) else None
    return isinstance(value, ast.Call) and called_name(value).endswith("_like")


def _tracks_gradients(statement: ast.stmt) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(item, ast.Attribute) and item.attr == "requires_grad" for item in targets)


def _rebinding(statement: ast.stmt) -> ast.stmt:
    """`x += y` as `x = x + y`: an input stays what it is."""
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        value = ast.BinOp(ast.Name(statement.target.id, ast.Load()), statement.op, statement.value)
        return ast.fix_missing_locations(ast.copy_location(ast.Assign([statement.target], value), statement))
    return statement


def _function(name: str, inputs: tuple[str, ...], side: Side) -> ast.FunctionDef:
    """A side of a comparison as a function; tensors that it makes itself are where its first input is."""
    made = ast.parse(f"def {name}({', '.join(inputs)}):\n    pass").body[0]
    assert isinstance(made, ast.FunctionDef)
    placed = _Placed(inputs[0])
    made.body = [placed.visit(copy.deepcopy(item)) for item in (*side.statements, ast.Return(side.result))]
    ast.fix_missing_locations(made)
    return made


class _Placed(ast.NodeTransformer):
    """Tensors that are made without a device are made where a given one is."""

    def __init__(self, name: str):
        self._name = name

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        made = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "torch"
        if made and called_name(node) in FACTORIES:
            node.keywords.append(ast.keyword("device", ast.parse(f"{self._name}.device", mode="eval").body))
        return node
