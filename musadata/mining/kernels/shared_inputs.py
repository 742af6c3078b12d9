"""Finding equivalents in tests by what both sides of a comparison share: the statements that make their inputs.

`compared_slices` reads the inputs of a comparison off the test. Here any statements may make them, such as a helper of
another file that returns lists of arguments: they run as a program in the sandbox when inputs are searched.
"""

import ast
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import cache

from musadata.mining.kernels.compared_slices import (
    MAX_STATEMENTS,
    ComparisonReader,
    Side,
    comparisons,
    drawn_sizes,
)
from musadata.mining.kernels.comparisons import TestCode
from musadata.mining.kernels.equivalents import Equivalent, arguments_of, definition
from musadata.mining.kernels.helper_inlining import RANDOM
from musadata.mining.kernels.repository import Repository
from musadata.mining.kernels.usage import first_of
from musadata.mining.slicing.evidence import called_name

INPUTS = "MusadataInputs"  # the module that is appended to a test to make its inputs
MAX_INPUTS = 12
MAX_LINES = 400  # of one test
CONSTANT = (ast.Constant, ast.Tuple, ast.List, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop, ast.expr_context)


def find_shared(
    repository: Repository, wrappers: frozenset[str], known: frozenset[str], places: Mapping[str, list[str]]
) -> list[Equivalent]:
    """Comparisons of a kernel's result with what PyTorch computes from the same values.

    Args:
        wrappers: names of functions and classes that call a kernel.
        known: those of them that have an equivalent already.
        places: every function and class on top level, by name: the files that define it.
    """
    found: dict[str, Equivalent] = {}

    @cache
    def arity(name: str) -> int:
        nodes = [node for path in places.get(name, ()) if (node := definition(repository, path, name)) is not None]
        return next((sum(needed for _, needed in told) for node in nodes if (told := arguments_of(node))), 0)

    for reader, place, statements in comparisons(repository, wrappers):
        prepared = reader.prepared(place, statements)
        lines = list(_spread([*_unset(reader.module, place, prepared), *_lines(prepared)], arity))
        for item in _Comparisons(reader, place, lines).pairs() if len(lines) <= MAX_LINES else ():
            if item.wrapper.name.removeprefix("call_") not in known:
                found.setdefault(item.plain_text + item.wrapper_text, item)
    return list(found.values())


class _Comparisons:
    """The comparisons of one function of a test.

    Args:
        lines: its statements, loops for one iteration.
    """

    def __init__(self, reader: ComparisonReader, place: ast.FunctionDef, lines: Sequence[ast.stmt]):
        self._reader, self._place, self._lines = reader, place, lines
        self._stored = [_stored(line) for line in lines]
        self._loaded = list(map(_loaded, lines))
        flat = [(line, None) for line in lines]
        self._changed = [reader.changed(flat, number) for number in range(len(lines))]
        self._native = {number for number, line in enumerate(lines) if reader.is_fast(line)}
        self._constant = _constants(lines, self._stored, self._loaded)

    def pairs(self) -> Iterator[Equivalent]:
        for number, line in enumerate(self._lines):
            for sides in self._reader.sides(line):
                for fast, plain in (sides, sides[::-1]):
                    item = self._pair(number, fast, plain)
                    if item is not None:
                        yield item

    def _pair(self, end: int, fast: ast.expr, plain: ast.expr) -> Equivalent | None:
        if self._reader.is_fast(plain):
            return None
        ours, theirs = (self._needed(end, _loaded(side)) for side in (fast, plain))
        kernels = [*(self._lines[number] for number in sorted(ours & self._native)), fast]
        names = [name for node in kernels for call in _calls(node) if (name := self._reader.fast_name(call))]
        if not names or theirs & self._native:
            return None
        shared, wanted = self._cut(end, (ours & theirs) - self._constant, fast, plain)
        own = [sorted(self._needed(end, _loaded(side), shared)) for side in (fast, plain)]
        parts = [*(self._lines[number] for number in {*own[0], *own[1]}), fast, plain]
        drawn = any(called_name(call) in RANDOM for part in parts for call in _calls(part))
        sizes = self._sizes(shared, wanted)
        inputs = tuple(name for name in wanted if name not in sizes)
        if drawn or max(map(len, own)) > MAX_STATEMENTS or not 0 < len(inputs) <= MAX_INPUTS:
            return None
        made = [self._side(numbers, side, sizes) for numbers, side in zip(own, (fast, plain), strict=True)]
        found = self._reader.equivalent(self._place, names[-1], inputs, *made)
        return replace(found, program=self._program(end, inputs, shared))

    def _cut(self, end: int, shared: set[int], fast: ast.expr, plain: ast.expr) -> tuple[set[int], dict[str, None]]:
        """The shared statements that make the inputs, and the variables that they hand to both sides.

        A variable that one side alone reads, such as a copy of the other side's input, is made by each side itself.
        """
        while True:
            first, second = (
                dict.fromkeys(self._inputs(sorted(self._needed(end, _loaded(side), shared)), side, shared))
                for side in (fast, plain)
            )
            sizes = self._sizes(shared, first | second)
            alone = {name for name in first.keys() ^ second.keys() if name not in sizes}
            moved = {number for number in shared if self._stored[number] & alone}
            if not moved:
                return shared, first | second
            shared = shared - moved

    def _needed(self, end: int, names: set[str], given: Set[int] = frozenset()) -> set[int]:
        """The statements before `end` that variables depend on, but for `given` ones and what these depend on."""
        needed, found = set(names), set[int]()
        for number in range(end - 1, -1, -1):
            if not (self._stored[number] | self._changed[number]) & needed:
                continue
            if number in given:
                needed -= self._stored[number]
                continue
            found.add(number)
            if not isinstance(self._lines[number], (ast.If, ast.AugAssign)):
                needed -= self._stored[number]
            needed |= self._loaded[number]
        return found

    def _inputs(self, numbers: list[int], result: ast.expr, shared: set[int]) -> Iterator[str]:
        """The variables of shared statements that a side reads."""
        bound = {name for number in shared for name in self._stored[number]}
        own: set[str] = set()
        for number in numbers:
            yield from sorted((self._loaded[number] & bound) - own)
            own |= self._stored[number]
        yield from sorted((_loaded(result) & bound) - own)

    def _sizes(self, shared: set[int], inputs: Mapping[str, None]) -> dict[str, str]:
        """The variables that are sizes of an input, each with the expression that reads it from the input."""
        found: dict[str, str] = {}
        for number in sorted(shared):
            if self._stored[number] <= inputs.keys():
                for name, text in drawn_sizes(self._lines[number]):
                    found.setdefault(name, text)
        return found

    def _side(self, numbers: list[int], result: ast.expr, sizes: Mapping[str, str]) -> Side:
        kept = [number for number in numbers if not self._stored[number] or not self._stored[number] <= sizes.keys()]
        read = {name for number in kept for name in self._loaded[number]} | _loaded(result)
        stated = ast.parse("\n".join(f"{name} = {sizes[name]}" for name in sorted(read & sizes.keys()))).body
        return Side((*stated, *(self._lines[number] for number in kept)), (), result)

    def _program(self, end: int, inputs: tuple[str, ...], shared: set[int]) -> str:
        """The text of a module that returns the inputs, to be appended to the test."""
        allowed = shared | self._constant
        numbers = sorted(self._needed(end, set(inputs)) & allowed)
        made = ast.parse(
            f"class {INPUTS}(torch.nn.Module):\n    def forward(self):\n        return [{', '.join(inputs)}]"
        )
        function = made.body[0].body[0]  # type: ignore[attr-defined]
        function.body[:0] = [copy.deepcopy(self._lines[number]) for number in numbers]
        code = TestCode(self._reader.path, self._place, self._reader.module)
        text = ast.unparse(ast.fix_missing_locations(made))
        return f"\n\nimport torch\n{code.local_code(made)}\n\n{text}\n"


def _calls(node: ast.AST) -> list[ast.Call]:
    return [item for item in ast.walk(node) if isinstance(item, ast.Call)]


def _loaded(node: ast.AST) -> set[str]:
    """The variables that code reads; of `x += y` also the one that it changes."""
    changed = {
        item.target.id
        for item in ast.walk(node)
        if isinstance(item, ast.AugAssign) and isinstance(item.target, ast.Name)
    }
    return changed | {
        item.id for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Load)
    }


def _stored(line: ast.stmt) -> set[str]:
    """The variables that a statement binds, blocks included."""
    return {item.id for item in ast.walk(line) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)}


def _constants(lines: Sequence[ast.stmt], stored: Sequence[set[str]], loaded: Sequence[set[str]]) -> set[int]:
    """The statements that assign constants: sizes and types."""
    names, found = set[str](), set[int]()
    for number, line in enumerate(lines):
        value = line.value if isinstance(line, ast.Assign) else None
        plain = value is not None and all(_is_constant(item) for item in ast.walk(value))
        if plain and loaded[number] - {"torch"} <= names:
            names |= stored[number]
            found.add(number)
    return found


def _is_constant(node: ast.AST) -> bool:
    named = isinstance(node, ast.Attribute) and ast.unparse(node).startswith("torch.")
    return named or isinstance(node, (*CONSTANT, ast.Name))


def _lines(statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run, loops for one iteration."""
    for statement in statements:
        match statement:
            case ast.For(target=target, iter=values, body=body):
                first = first_of(values) or ast.Constant(0)
                yield ast.fix_missing_locations(ast.copy_location(ast.Assign([target], first), statement))
                yield from _lines(body)
            case ast.With(body=body) | ast.Try(body=body):
                yield from _lines(body)
            case ast.If(body=body, orelse=[]):
                yield from _lines(body)
            case ast.FunctionDef() | ast.Import() | ast.ImportFrom():
                continue
            case _:
                yield statement


def _spread(lines: Sequence[ast.stmt], arity: Callable[[str], int]) -> Iterator[ast.stmt]:
    """The statements, in which `f(*args)` is `f(args_0, args_1)`, and what binds `args` binds these as well."""
    spread: dict[str, list[ast.Name]] = {}
    for call in [item for line in lines for item in _calls(line)]:
        match call.args:
            case [ast.Starred(value=ast.Name(id=name))] if count := arity(called_name(call)):
                spread.setdefault(name, [ast.Name(f"{name}_{place}", ast.Load()) for place in range(count)])
    for line in lines:
        for call in _calls(line):
            match call.args:
                case [ast.Starred(value=ast.Name(id=name))] if name in spread:
                    call.args = list(spread[name])
        yield line
        for name in sorted(_stored(line) & spread.keys()):
            parts = ", ".join(item.id for item in spread[name])
            yield ast.copy_location(ast.parse(f"{parts}, *_ = {name}").body[0], line)


def _unset(module: ast.Module | None, place: ast.FunctionDef, statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Assignments of a helper's parameters to what a test of the same file calls it with."""
    stored = {name for line in statements for name in _stored(line)}
    names = [item.arg for item in place.args.args if item.arg not in ("self", "cls")]
    calls = [call for call in _calls(module) if called_name(call) == place.name] if module else []
    shown = dict(zip(names, calls[0].args, strict=False)) if calls else {}
    shown |= {item.arg: item.value for item in calls[0].keywords if item.arg} if calls else {}
    for name in names:
        value = ast.Constant("cpu") if "device" in name else shown.get(name)
        if name not in stored and value is not None:
            yield ast.fix_missing_locations(ast.Assign([ast.Name(name, ast.Store())], copy.deepcopy(value), lineno=1))
