"""Values of arithmetic in the notation of reasoning, and the steps of index formulas."""

import ast
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache

from musadata.syntax import parse_expression

_LONGEST = 400
_LARGEST_POWER = 64
_MOST_DIGITS = 10**40
_ROUNDED_UP = ("ceil", "ceil_div", "ceildiv", "cdiv", "div_up")
IRRATIONAL: dict[str, Callable[[float], float]] = {
    "sqrt": math.sqrt,
    "ln": math.log,
    "log2": math.log2,
    "exp": math.exp,
}
_OPERATIONS: dict[type, Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: Fraction(a // b),
    ast.Mod: lambda a, b: a % b,
}


class NoValue(ValueError):
    """The text is no arithmetic, or too large."""


@lru_cache(maxsize=4096)
def parse(text: str) -> ast.expr | None:
    """The syntax tree of an expression; None if the text is not one."""
    if len(text) > _LONGEST:
        return None
    for sign, python in (("⌈", " ceil("), ("⌊", " floor("), ("⌉", ")"), ("⌋", ")"), ("^", "**"), (" mod ", " % ")):
        text = text.replace(sign, python)
    try:
        return parse_expression(text.strip()).body
    except (SyntaxError, ValueError):
        return None


def evaluate(text: str, names: Mapping[str, Fraction] | None = None) -> Fraction | None:
    """The exact value of an expression; None if the text is not one or a name in it has no value."""
    if text.isdecimal() and len(text) < _LONGEST:  # most are
        return Fraction(int(text))
    tree = parse(text)
    try:
        return _value(tree, names or {}) if tree is not None else None
    except (NoValue, ZeroDivisionError, OverflowError):
        return None


def _value(node: ast.expr, names: Mapping[str, Fraction]) -> Fraction:
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return Fraction(number)
        case ast.Constant(value=float(number)) if math.isfinite(number):
            return Fraction(str(number))
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_value(inner, names)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            base, power = _value(left, names), _value(right, names)
            if power.denominator != 1 or abs(power) > _LARGEST_POWER or abs(base) > 10**6:
                raise NoValue
            return _small(Fraction(base ** int(power)))
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATIONS:
            return _small(_OPERATIONS[type(operator)](_value(left, names), _value(right, names)))
        case ast.Call(func=ast.Name(id=name), args=[inner], keywords=[]) if name in ("ceil", "floor"):
            return Fraction(getattr(math, name)(_value(inner, names)))
        case ast.Call(func=ast.Name(id=name), args=[inner], keywords=[]) if name in IRRATIONAL:
            return _irrational(name, _value(inner, names))
        case ast.Call(func=ast.Name(id=name), args=[first, second], keywords=[]):
            a, b = _value(first, names), _value(second, names)
            if name in _ROUNDED_UP and b:
                return Fraction(math.ceil(a / b))
            if name in ("min", "max"):
                return min(a, b) if name == "min" else max(a, b)
    raise NoValue


def _irrational(name: str, value: Fraction) -> Fraction:
    if abs(value) > 10**15:
        raise NoValue
    try:
        return Fraction(IRRATIONAL[name](float(value)))
    except ValueError:
        raise NoValue from None


def _small(value: Fraction) -> Fraction:
    if abs(value.numerator) > _MOST_DIGITS or value.denominator > _MOST_DIGITS:
        raise NoValue
    return value


def numbers_in(text: str) -> list[Fraction]:
    """The literals of an expression."""
    tree = parse(text)
    literals = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)] if tree else []
    return [Fraction(str(node.value)) for node in literals if isinstance(node.value, int | float)]


def linear_steps(text: str) -> tuple[dict[str, Fraction], Fraction] | None:
    """Of `n * 768 + k * 256 + 3` the factor of each name, and what is added; None if it is not of that form."""
    tree = parse(text)
    try:
        return _linear(tree) if tree is not None else None
    except (NoValue, ZeroDivisionError):
        return None


def _linear(node: ast.expr) -> tuple[dict[str, Fraction], Fraction]:
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as operator, right=right):
            sign = 1 if isinstance(operator, ast.Add) else -1
            (factors, rest), (others, more) = _linear(left), _linear(right)
            factors = dict(factors)
            for name, factor in others.items():
                factors[name] = factors.get(name, Fraction(0)) + sign * factor
            return factors, rest + sign * more
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            for inner, other in ((left, right), (right, left)):
                number = _number(other)
                if number is not None:
                    factors, rest = _linear(inner)
                    return {name: value * number for name, value in factors.items()}, rest * number
        case ast.Name() | ast.Attribute() | ast.Subscript():
            return {ast.unparse(node): Fraction(1)}, Fraction(0)
    number = _number(node)
    if number is None:
        raise NoValue
    return {}, number


def _number(node: ast.expr) -> Fraction | None:
    try:
        return _value(node, {})
    except (NoValue, ZeroDivisionError):
        return None


def split_steps(text: str) -> tuple[int, int] | None:
    """Of `(i / 64) % 8` the divisor and the modulus; 1 or 0 where there is none; None if it is not of that form."""
    tree = parse(text)
    match tree:
        case ast.BinOp(left=inner, op=ast.Mod(), right=ast.Constant(value=int(size))):
            divisor = _divisor(inner)
            return (divisor, size) if divisor else None
        case ast.BinOp(op=ast.Div() | ast.FloorDiv()):
            divisor = _divisor(tree)
            return (divisor, 0) if divisor else None
        case ast.Call(func=ast.Name(id="floor"), args=[ast.BinOp() as inner]):
            divisor = _divisor(inner)
            return (divisor, 0) if divisor else None
    return None


def _divisor(node: ast.expr) -> int:
    match node:
        case ast.Name() | ast.Attribute() | ast.Subscript():
            return 1
        case ast.BinOp(left=ast.Name(), op=ast.Div() | ast.FloorDiv(), right=ast.Constant(value=int(divisor))):
            return divisor
        case ast.Call(func=ast.Name(id="floor"), args=[inner]):
            return _divisor(inner)
    return 0
