"""A small interpreter of Python's arithmetic, comparisons, indexing and loops over a `range`, for foreign text.

Nothing is compiled or imported, and a step costs from a budget, so any text is evaluated in bounded time.
"""

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from musadata.syntax import parse_expression

_MOST_STEPS = 50_000
_LONGEST = 1000
_LARGEST = 10**30
_MOST_ITEMS = 10_000_000
_CHEAP = 32  # items that a comparison looks at in the time of a step
_NEAR = 0.01
_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.RShift: operator.rshift,
}


def _is_near(a: float, b: float, within: float = _NEAR) -> bool:
    return abs(a - b) <= within * max(abs(a), abs(b))


def _is_equal(a: Any, b: Any) -> bool:
    """Equality, for figures that are not whole as they are told: rounded."""
    both = isinstance(a, int | float) and isinstance(b, int | float)
    return _is_near(a, b) if both and (isinstance(a, float) or isinstance(b, float)) else bool(a == b)


def _is_in(a: Any, b: Any) -> bool:
    if isinstance(b, range) and not isinstance(a, int):
        return False  # Python would look at each
    return bool(a in b)


_COMPARE: dict[type, Callable[[Any, Any], bool]] = {
    ast.Eq: _is_equal,
    ast.NotEq: lambda a, b: not _is_equal(a, b),
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: _is_in(a, b),
    ast.NotIn: lambda a, b: not _is_in(a, b),
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "sqrt": math.sqrt,
    "log": math.log,
    "log2": math.log2,
    "exp": math.exp,
    "prod": math.prod,
    "ceil_div": lambda a, b: -(-a // b),
    "near": _is_near,
    "count": lambda items, item: items.count(item),
    "tuple": tuple,
    "windows": lambda size, kernel, stride=1, padding=0, dilation=1: (
        (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    ),
    **{function.__name__: function for function in (min, max, abs, sum, all, any, len, range, sorted, int, round)},
}


class CannotEvaluate(ValueError):
    """The text is no such expression, or names what is not known."""


@dataclass
class Evaluation:
    """One expression, step by step.

    Attributes:
        functions: what it may call beside `FUNCTIONS`.
        looked_up: the calls of these, each with its last result.
        figures: the numbers that were read.
    """

    functions: Mapping[str, Callable[..., Any]]
    looked_up: dict[ast.Call, object] = field(default_factory=dict)
    figures: set[int | float] = field(default_factory=set)
    steps: int = 0

    def of(self, text: str, names: Mapping[str, Any] | None = None) -> Any:
        """The value of a text.

        Raises:
            CannotEvaluate: it is too long, no such expression, or takes too many steps; or a call in it fails.
        """
        if len(text) > _LONGEST:
            raise CannotEvaluate("too long")
        try:
            return self.value(parse_expression(text.strip()).body, names or {})
        except CannotEvaluate:
            raise
        except Exception as error:  # of foreign text: a wrong type, an index out of range, a division by zero
            raise CannotEvaluate(f"{type(error).__name__}: {error}") from None

    def value(self, node: ast.expr, names: Mapping[str, Any]) -> Any:
        self._spend(1)
        match node:
            case ast.Constant(value=int() | float() as figure):
                self.figures.add(figure)
                return figure
            case ast.Constant(value=str() | None as constant):
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
            case ast.IfExp(test=test, body=then, orelse=otherwise):
                return self.value(then if self.value(test, names) else otherwise, names)
            case ast.BinOp(left=left, op=sign, right=right):
                return self._binary(sign, self.value(left, names), self.value(right, names))
            case ast.Compare(left=left, ops=signs, comparators=others):
                values = [self.value(part, names) for part in (left, *others)]
                self._spend(sum(len(value) for value in values if isinstance(value, tuple | str)) // _CHEAP)
                return all(_COMPARE[type(sign)](*values[at : at + 2]) for at, sign in enumerate(signs))
            case ast.Subscript(value=inner, slice=ast.Slice(lower=first, upper=last, step=None)):
                ends = [self.value(end, names) if end else None for end in (first, last)]
                return self.value(inner, names)[ends[0] : ends[1]]
            case ast.Subscript(value=inner, slice=index):
                return self.value(inner, names)[self.value(index, names)]
            case ast.GeneratorExp(elt=part, generators=loops) | ast.ListComp(elt=part, generators=loops):
                return tuple(self._loop(part, loops, names))
            case ast.Call(func=ast.Name(id=name), args=parts, keywords=options) as call:
                match name, parts:
                    case "all" | "any", [ast.GeneratorExp(elt=part, generators=loops)]:  # as far as they need it
                        return FUNCTIONS[name](self._loop(part, loops, names))
                keywords = {option.arg or "": self.value(option.value, names) for option in options}
                return self._call(call, name, [self.value(part, names) for part in parts], keywords)
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
        if isinstance(left, tuple) and isinstance(right, tuple) and isinstance(sign, ast.Add):
            self._spend(len(left) + len(right))
            return left + right
        if any(not isinstance(side, int | float) or abs(side) > _LARGEST for side in (left, right)):
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

    def _call(self, node: ast.Call, name: str, values: list[Any], options: dict[str, Any]) -> Any:
        if name in self.functions:
            found = self.looked_up[node] = self.functions[name](*values, **options)
            return found
        if name not in FUNCTIONS:
            raise CannotEvaluate(f"{name} is not known")
        self._spend(sum(len(value) for value in values if isinstance(value, tuple | range | str)))  # it goes through
        found = FUNCTIONS[name](*values, **options)
        if isinstance(found, range) and len(found) > _MOST_ITEMS:
            raise CannotEvaluate("too many items")
        return tuple(found) if isinstance(found, list) else found
