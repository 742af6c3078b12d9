"""Examples of a class in use: how it is constructed and called in its docstring, in tests and elsewhere."""

import ast
import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from musadata.mining.reading.dotted_names import last_name

Node = TypeVar("Node", bound=ast.expr)
MAX_EXAMPLES = 6
MAX_NODES = 200  # of an expression that stands for a variable
PROMPT = re.compile(r"^\s*(>>>|\.\.\.) ?(.*)$")


@dataclass(frozen=True)
class Example:
    """One construction, and one call of the instance; every argument is a self-contained expression.

    `names`: what the constructor's arguments read of the repository, with the file of each.
    """

    init: tuple[str, ...] = ()
    init_keywords: tuple[tuple[str, str], ...] = ()
    inputs: tuple[str, ...] = ()
    input_keywords: tuple[tuple[str, str], ...] = ()
    evidence: str = "docstring"
    names: tuple[tuple[str, str], ...] = ()


@dataclass
class _Scene:
    """State while reading example code: the expression of each variable, and the variables that hold instances."""

    class_name: str
    variables: dict[str, ast.expr] = field(default_factory=dict)
    instances: dict[str, list[ast.Call]] = field(default_factory=dict)


def docstring_examples(text: str, class_name: str) -> list[Example]:
    """Examples in a docstring's `>>>` lines."""
    lines = [found.groups() for found in map(PROMPT.match, text.splitlines()) if found]
    statements: list[ast.stmt] = []
    source = ""
    for prompt, line in lines:
        if prompt == ">>>":
            statements += _parse(source)
            source = ""
        source += line + "\n"
    statements += _parse(source)
    return read_examples(statements, class_name, "docstring")


def _parse(source: str) -> list[ast.stmt]:
    try:
        return ast.parse(source).body
    except (SyntaxError, ValueError):
        return []


def read_examples(
    statements: Iterable[ast.stmt], class_name: str, evidence: str, variables: Mapping[str, ast.expr] | None = None
) -> list[Example]:
    """Constructions of `class_name` and calls of the results, in straight-line code.

    `variables`: expressions of names that are bound before.
    """
    scene = _Scene(class_name, dict(variables or {}))
    found: list[Example] = []
    constructed: list[ast.Call] = []
    for call in _calls(statements, scene):
        if _names_class(call, class_name):
            constructed.append(_inline(call, scene))
        found += [_example(item, _inline(call, scene), evidence) for item in _constructions_of(call, scene)]
    if not found:
        found = [_example(call, None, evidence) for call in constructed]
    return [item for number, item in enumerate(found) if item not in found[:number]][:MAX_EXAMPLES]


def _calls(statements: Iterable[ast.stmt], scene: _Scene) -> Iterator[ast.Call]:
    """Every call; the scene holds the assignments of all statements before it."""
    for statement in _unrolled(statements, scene):
        yield from [item for item in ast.walk(statement) if isinstance(item, ast.Call)]
        if isinstance(statement, ast.Assign):
            _assign(statement, scene)


def _unrolled(statements: Iterable[ast.stmt], scene: _Scene) -> Iterator[ast.stmt]:
    """The statements, with each loop replaced by its first iteration, and each condition by the branch it takes."""
    for statement in statements:
        if isinstance(statement, ast.For):
            _bind(statement.target, _first_item(_inline(statement.iter, scene)), scene)
            yield from _unrolled(statement.body, scene)
        elif isinstance(statement, ast.If):
            taken = _is_true(_inline(statement.test, scene))
            yield from _unrolled(statement.body if taken else statement.orelse, scene)
        elif isinstance(statement, ast.With):
            yield from _unrolled(statement.body, scene)
        else:
            yield statement


def _first_item(values: ast.expr) -> ast.expr:
    """The first of the values that a loop runs over: of a list, `range`, `enumerate`, `zip`, `product`; else item 0."""
    if isinstance(values, (ast.List, ast.Tuple)) and values.elts:
        return values.elts[0]
    name = last_name(values.func) if isinstance(values, ast.Call) else ""
    given = [item for item in values.args if not isinstance(item, ast.Starred)] if isinstance(values, ast.Call) else []
    spread = (
        [item.value for item in values.args if isinstance(item, ast.Starred)] if isinstance(values, ast.Call) else []
    )
    given += [inner for item in spread if isinstance(item, (ast.List, ast.Tuple)) for inner in item.elts]
    if name in ("zip", "product") and given:
        return ast.Tuple([_first_item(item) for item in given], ast.Load())
    if name == "enumerate" and given:
        return ast.Tuple([ast.Constant(0), _first_item(given[0])], ast.Load())
    if name == "range":
        return given[0] if len(given) > 1 else ast.Constant(0)
    return ast.Subscript(values, ast.Constant(0), ast.Load())


def _bind(target: ast.expr, value: ast.expr, scene: _Scene) -> None:
    """Bind the variables of a loop."""
    if isinstance(target, ast.Name):
        scene.variables[target.id] = value
    elif isinstance(target, (ast.Tuple, ast.List)):
        for number, item in enumerate(target.elts):
            _bind(item, _part(value, number), scene)


def _is_true(test: ast.expr) -> bool:
    """The value of a condition of constants; a condition of anything else is taken for true."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return not _is_true(test.operand) or not _is_constant(test.operand)
    if isinstance(test, ast.BoolOp):
        answers = [_is_true(item) for item in test.values]
        return all(answers) if isinstance(test.op, ast.And) else any(answers)
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)):
        left, right = test.left, test.comparators[0]
        equal = isinstance(test.ops[0], (ast.Eq, ast.Is))
        return (ast.dump(left) == ast.dump(right)) is equal if _is_constant(left, right) else True
    return bool(test.value) if isinstance(test, ast.Constant) else True


def _is_constant(*nodes: ast.expr) -> bool:
    """Whether expressions are values, or names of values such as `torch.float32`."""
    return all(isinstance(node, ast.Constant) or ast.unparse(node).startswith("torch.") for node in nodes)


def _names_class(call: ast.Call, class_name: str) -> bool:
    return class_name == last_name(call.func)


def _constructions_of(call: ast.Call, scene: _Scene) -> list[ast.Call]:
    """The constructions behind a call of an instance: `m(x)`, or `nn.ReLU()(x)`.

    Documentation shows several ways to construct `m` and then one call; the first way is the plainest.
    """
    if isinstance(call.func, ast.Name):
        return scene.instances.get(call.func.id, [])
    if isinstance(call.func, ast.Call) and _names_class(call.func, scene.class_name):
        return [_inline(call.func, scene)]
    return []


def _assign(statement: ast.Assign, scene: _Scene) -> None:
    for target in statement.targets:
        if isinstance(target, ast.Name):
            value = statement.value if _is_large(statement.value) else _inline(statement.value, scene)
            if _is_large(value):  # such as data that is typed in; copied for each use, it takes minutes
                scene.variables.pop(target.id, None)
                continue
            if isinstance(value, ast.Call) and _names_class(value, scene.class_name):
                scene.instances.setdefault(target.id, []).append(value)
            else:
                scene.instances.pop(target.id, None)
            scene.variables[target.id] = value
        elif isinstance(target, ast.Tuple):
            for number, name in enumerate(target.elts):
                if isinstance(name, ast.Name):
                    scene.variables[name.id] = _inline(_part(statement.value, number), scene)


def _is_large(value: ast.expr) -> bool:
    return sum(1 for _ in islice(ast.walk(value), MAX_NODES)) == MAX_NODES


def _part(value: ast.expr, number: int) -> ast.expr:
    """The expression of one element of an unpacked value."""
    if isinstance(value, ast.Tuple) and number < len(value.elts):
        return value.elts[number]
    return ast.Subscript(value, ast.Constant(number), ast.Load())


BINDING = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)  # names of their own
# Methods that only set device, dtype or mode; a reference runs where its caller puts it.
PLACING = frozenset({"cuda", "cpu", "to", "eval", "train"})


class _Inliner(ast.NodeTransformer):
    def __init__(self, variables: dict[str, ast.expr]):
        self._variables = variables

    def visit(self, node: ast.AST) -> Any:
        if not isinstance(node, BINDING):
            return super().visit(node)
        inner = list(ast.walk(node))
        bound = {item.id for item in inner if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)}
        bound |= {item.arg for item in inner if isinstance(item, ast.arg)}
        return _Inliner({name: value for name, value in self._variables.items() if name not in bound}).generic_visit(
            node
        )

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy.deepcopy(self._variables.get(node.id, node))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in PLACING and isinstance(node.func.value, ast.Call):
            return node.func.value
        return node


def _inline(node: Node, scene: _Scene) -> Node:
    inlined: Node = _Inliner(scene.variables).visit(copy.deepcopy(node))
    return inlined


def _example(construction: ast.Call, call: ast.Call | None, evidence: str) -> Example:
    def positional(node: ast.Call | None) -> tuple[str, ...]:
        return tuple(ast.unparse(item) for item in (node.args if node else []))

    def keywords(node: ast.Call | None) -> tuple[tuple[str, str], ...]:
        return tuple((item.arg or "**", ast.unparse(item.value)) for item in (node.keywords if node else []))

    return Example(positional(construction), keywords(construction), positional(call), keywords(call), evidence)


def call_examples(statements: Iterable[ast.stmt], names: frozenset[str]) -> list[ast.Call]:
    """Calls of functions in straight-line code, with known variables inlined."""
    scene = _Scene("")
    return [_inline(call, scene) for call in _calls(statements, scene) if called_name(call) in names]


def called_name(call: ast.Call) -> str:
    """The function's name; of `Function.apply(x)` that of the class."""
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr == "apply":
        function = function.value
    return last_name(function)
