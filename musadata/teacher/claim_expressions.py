"""Claims written as expressions over the facts, evaluated by us: `shape("x")[-1] % 4 == 0`.

Whoever wrote a sentence can say in such an expression what it claims, whatever its words are. The names are in
`NAMES`; beside them there is Python's arithmetic, comparison, `and`, `or`, `not`, indexing and loops over a `range`.
Nothing is compiled or imported, and a step costs from a budget, so any text is evaluated in bounded time.
"""

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from musadata.records import TensorFact
from musadata.syntax import parse_expression
from musadata.teacher.grounding.facts import Facts, base_name, is_contiguous
from musadata.tracing.roofline import tensor_bytes

_MOST_STEPS = 50_000
_LONGEST = 600
_LARGEST = 10**30
_MOST_ITEMS = 10_000
_NEAR = 0.01
_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "sqrt": math.sqrt,
    "log": math.log,
    "exp": math.exp,
    "prod": math.prod,
    "ceil_div": lambda a, b: -(-a // b),
    "near": lambda a, b, within=_NEAR: abs(a - b) <= within * max(abs(a), abs(b)),
    **{function.__name__: function for function in (min, max, abs, sum, all, any, len, range, sorted, int, round)},
}


class CannotEvaluate(ValueError):
    """The text is no such expression, or names what the facts do not have."""


def evaluate_claim(text: str, facts: Sequence[Facts]) -> bool:
    """Whether a claim holds; raises `CannotEvaluate` where it names no fact or is not readable."""
    if len(text) > _LONGEST:
        raise CannotEvaluate("too long")
    evaluation = _Evaluation(_names(facts))
    try:
        value = evaluation.value(parse_expression(text.strip()).body, {})
    except CannotEvaluate:
        raise
    except Exception as error:  # of foreign text: a wrong type, an index out of range, a division by zero
        raise CannotEvaluate(f"{type(error).__name__}: {error}") from None
    if not isinstance(value, bool):
        raise CannotEvaluate("neither true nor false")
    if not evaluation.used:
        raise CannotEvaluate("names no fact")
    return value


def _names(facts: Sequence[Facts]) -> dict[str, Callable[..., Any]]:
    """What an expression may say of the set of shapes `set`, 1 by default."""

    def of(number: int) -> Facts:
        return facts[range(1, len(facts) + 1).index(number)]

    def tensor(name: str, number: int) -> TensorFact:
        return of(number).by_name[name]

    def argument(name: str, key: str, number: int) -> Any:
        pairs = (part.partition("=") for part in _split(tensor(name, number).arguments))
        value = ast.literal_eval({name: value for name, _, value in pairs}[key])
        return tuple(value) if isinstance(value, list) else value  # as a list in an expression is

    def bounds(name: str, number: int) -> tuple[int, int]:
        return of(number).spans[name]

    return {
        "shape": lambda name, set=1: tensor(name, set).shape,
        "stride": lambda name, set=1: tensor(name, set).stride,
        "dtype": lambda name, set=1: tensor(name, set).dtype,
        "numel": lambda name, set=1: math.prod(tensor(name, set).shape),
        "nbytes": lambda name, set=1: tensor_bytes(tensor(name, set)),
        "contiguous": lambda name, set=1: is_contiguous(tensor(name, set)),
        "operator": lambda name, set=1: base_name(tensor(name, set).operator),
        "operands": lambda name, set=1: tensor(name, set).operands,
        "argument": lambda name, key, set=1: argument(name, key, set),
        "lowest": lambda name, set=1: bounds(name, set)[0],
        "highest": lambda name, set=1: bounds(name, set)[1],
        "operators": lambda set=1: tuple(base_name(name) for name in of(set).trace.operators),
        "flops": lambda set=1: of(set).trace.flops,
        "traffic": lambda set=1: of(set).trace.bytes,
        "intensity": lambda set=1: of(set).trace.intensity,
        "bound": lambda set=1: of(set).trace.bound.value,
    }


NAMES = tuple(_names(()))


def _split(arguments: str) -> list[str]:
    """`dim=[1, 2], keepdim=True` at its outer commas."""
    parts, depth = [""], 0
    for character in arguments:
        depth += (character in "[(") - (character in "])")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


@dataclass
class _Evaluation:
    """One expression, step by step."""

    facts: Mapping[str, Callable[..., Any]]
    used: set[str] = field(default_factory=set)
    steps: int = 0

    def value(self, node: ast.expr, names: Mapping[str, Any]) -> Any:
        self._spend(1)
        match node:
            case ast.Constant(value=bool() | int() | float() | str() as constant):
                return constant
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return tuple(self.value(part, names) for part in parts)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -self.value(inner, names)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return not self.value(inner, names)
            case ast.BoolOp(op=joined, values=parts):
                return (all if isinstance(joined, ast.And) else any)(self.value(part, names) for part in parts)
            case ast.BinOp(left=left, op=sign, right=right):
                return self._binary(sign, self.value(left, names), self.value(right, names))
            case ast.Compare(left=left, ops=signs, comparators=others):
                values = [self.value(part, names) for part in (left, *others)]
                return all(_COMPARE[type(sign)](*values[at : at + 2]) for at, sign in enumerate(signs))
            case ast.Subscript(value=inner, slice=ast.Slice(lower=first, upper=last, step=None)):
                ends = [self.value(end, names) if end else None for end in (first, last)]
                return self.value(inner, names)[ends[0] : ends[1]]
            case ast.Subscript(value=inner, slice=index):
                return self.value(inner, names)[self.value(index, names)]
            case ast.GeneratorExp(elt=part, generators=loops) | ast.ListComp(elt=part, generators=loops):
                return tuple(self._loop(part, loops, names))
            case ast.Call(func=ast.Name(id=name), args=parts, keywords=options):
                keywords = {option.arg or "": self.value(option.value, names) for option in options}
                return self._call(name, [self.value(part, names) for part in parts], keywords)
        raise CannotEvaluate(f"{type(node).__name__} is not allowed")

    def _spend(self, steps: int) -> None:
        self.steps += steps
        if self.steps > _MOST_STEPS:
            raise CannotEvaluate("too many steps")

    def _binary(self, sign: ast.operator, left: Any, right: Any) -> Any:
        if isinstance(sign, ast.Pow):
            if abs(right) > 64 or abs(left) > 10**6:
                raise CannotEvaluate("too large")
            return left**right
        if any(isinstance(side, str) or abs(side) > _LARGEST for side in (left, right)):
            raise CannotEvaluate("too large")
        return _BINARY[type(sign)](left, right)

    def _loop(self, part: ast.expr, loops: Sequence[ast.comprehension], names: Mapping[str, Any]) -> Iterator[Any]:
        if not loops:
            yield self.value(part, names)
            return
        loop, *inner = loops
        if not isinstance(loop.target, ast.Name):
            raise CannotEvaluate("one variable a loop")
        for one in self.value(loop.iter, names):
            known = {**names, loop.target.id: one}
            if all(self.value(condition, known) for condition in loop.ifs):
                yield from self._loop(part, inner, known)

    def _call(self, name: str, values: list[Any], options: dict[str, Any]) -> Any:
        if name in self.facts:
            self.used.add(name)
            return self.facts[name](*values, **options)
        if name not in _FUNCTIONS or options:
            raise CannotEvaluate(f"{name} is not known")
        self._spend(sum(len(value) for value in values if isinstance(value, tuple | range)))  # it goes through them
        found = _FUNCTIONS[name](*values)
        if isinstance(found, range) and len(found) > _MOST_ITEMS:
            raise CannotEvaluate("too many items")
        return found
