"""How many instructions a kernel issues at given sizes, counted on its tree: loops by their trips, calls by what nvcc
makes of them.

The counts of functions are those of nvcc's code for sm_90 at full accuracy, rounded; a division of integers by a value
that is only known at run time takes about twenty, of which half are done once for each divisor. Counters of unrolled
loops are numbers, arrays of a thread are registers, and what nobody reads is not computed.
"""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from musadata.compiler.ir.code import (
    Apply,
    Assign,
    Binary,
    Body,
    Choice,
    Declare,
    Element,
    Expression,
    Function,
    Guard,
    Loop,
    Name,
    Number,
    Scope,
    names_of,
    walk,
)

_DIVISION, _BY_CONSTANT, _OF_FLOATS = 10, 5, 9
_FUNCTIONS = {"expf": 6, "exp": 40, "logf": 12, "log1pf": 18, "expm1f": 20, "tanhf": 20, "erff": 24, "powf": 50}
_FUNCTIONS |= {"sqrtf": 8, "rsqrtf": 3, "sinf": 25, "cosf": 25, "fmaxf": 1, "fminf": 1, "fabsf": 1, "static_cast": 1}
_FUNCTIONS |= {"half2float": 1, "float2half": 1, "bfloat162float": 1, "float2bfloat16": 1}
_SHUFFLES, _OTHER = 10, 2  # of a value over a warp; of a function that is not listed
_POWERS = frozenset(1 << power for power in range(24))  # to divide by them is to multiply
_HELD = 1.5  # of an element of a row in registers: its conversion, and a share of its vector
_FLOATS = ("float", "double", "half", "bfloat16")


def instructions(function: Function, sizes: Mapping[str, int], threads: int, trips: int, inner: int) -> float:
    """Instructions of all threads of a launch. Each thread comes to `trips` points; `inner` are the steps of a loop
    whose end does not follow from the sizes."""
    return threads * _Count(function, sizes, trips, inner).body(function.body)


class _Count:
    def __init__(self, function: Function, sizes: Mapping[str, int], trips: int, inner: int):
        self._sizes, self._trips, self._inner = sizes, trips, inner
        declared = [one for one in walk(function.body) if isinstance(one, Declare)]
        self._floats = {name for one in declared if _is_float(one.kind) for name in _declared(one)}
        self._floats |= {one.name.name for one in function.parameters if _is_float(one.kind)}
        self._unrolled = {one.name for one in walk(function.body) if isinstance(one, Loop) and one.unroll}
        own = [one for one in declared if one.sizes and all(isinstance(side, int) for side in one.sizes)]
        self._arrays = {one.name: math.prod(map(int, one.sizes)) for one in own if "__shared__" not in one.prefix}
        named = Counter(one.name for one in walk(function.body) if isinstance(one, Name))
        self._unread = {name for one in declared for name in _declared(one) if named[name] == 1}

    def body(self, body: Body) -> float:
        return sum(map(self.statement, body))

    def statement(self, node: Any) -> float:
        match node:
            case Loop():
                moving = _changed(node)
                fixed = [one for one in node.body if isinstance(one, Declare) and not moving & _declared(one)]
                turns = self.turns(node)
                steps = self._inner
                if turns is None:  # of loops in each other, all steps are of the outermost one, but for unrolled ones
                    shares = [self.turns(one) or 1 for one in node.body if isinstance(one, Loop) and one.unroll]
                    turns, self._inner = -(-steps // max(shares, default=1)), 1
                each = self.body(tuple(one for one in node.body if one not in fixed))
                self._inner = steps
                test = 0 if node.unroll else self.expression(node.condition) + 1
                return self.body(tuple(fixed)) + turns * (test + each)
            case Guard():
                return self.expression(node.condition) + self.body(node.body) + self.body(node.otherwise)
            case Scope():
                return self.body(node.body)
            case Assign():
                joins = 0 if node.sign == "=" else 1
                return joins + self.expression(node.target) + self.expression(node.value)
            case Declare() if _declared(node) <= self._unread:
                return 0
        return self.expression(node)

    def turns(self, loop: Loop) -> int | None:
        """How often a thread goes through a loop; None where that does not follow from the sizes."""
        start, limit = loop.variables[0][1], self.value(getattr(loop.condition, "right", None))
        if start is not None and any("blockIdx" in name for name in names_of(start)):
            return self._trips
        if limit is None:
            return None
        return max(0, -(-(limit - (self.value(start) or 0)) // (self.value(loop.step) or 1)))

    def value(self, node: Any) -> int | None:
        """The number that an expression of sizes is; None where something else is in it."""
        match node:
            case Number():
                return node.value
            case Name(name):
                return self._sizes.get(name)
            case Binary(left, sign, right):
                one, other = self.value(left), self.value(right)
                if one is None or other is None or sign not in "+-*/":
                    return None
                return {"+": one + other, "-": one - other, "*": one * other, "/": one // (other or 1)}[sign]
        inner = getattr(node, "inner", None)
        return self.value(inner) if inner is not None else None

    def expression(self, node: Any) -> float:
        return sum(self._own(one) for one in walk(node))

    def _own(self, node: Any) -> float:
        match node:
            case Binary(left, sign, right) if self._is_number(node) or (
                sign in "+-" and (self._is_number(left) or self._is_number(right))
            ):
                return 0  # in an address it is part of the instruction
            case Element(Name(name), _) if name in self._arrays:
                return 0
            case Apply(function, (Name(name), *_)) if function.startswith("load_row<"):
                return _HELD * self._arrays.get(name, 1)
            case Binary(_, "/" | "%", right):
                if self._is_float(node):
                    return 1 if isinstance(right, Number) and right.whole in _POWERS else _OF_FLOATS
                return _BY_CONSTANT if isinstance(right, Number) else _DIVISION
            case Binary(left, "+" | "-", right):
                return 0 if any(isinstance(side, Binary) and side.sign == "*" for side in (left, right)) else 1
            case Apply(function, _):
                name = function.partition("<")[0].removeprefix("__").removesuffix("_rn")
                return _SHUFFLES if name.startswith(("warp_", "block_")) else _FUNCTIONS.get(name, _OTHER)
            case Binary() | Choice() | Element():
                return 1
        return 0

    def _is_number(self, node: Expression) -> bool:
        """Whether it depends on counters of unrolled loops alone."""
        names = names_of(node)
        return bool(names) and names <= self._unrolled

    def _is_float(self, node: Binary) -> bool:
        return any(isinstance(one, (Apply, Element)) or _name(one) in self._floats for one in walk(node))


def _is_float(kind: str) -> bool:
    return any(word in kind for word in _FLOATS) and "*" not in kind


def _declared(node: Declare) -> set[str]:
    return {name.name for name, _ in node.variables}


def _changed(loop: Loop) -> set[str]:
    """What is another value in another turn; nvcc computes the rest before the loop."""
    moving = {loop.name}
    moving |= {name for one in walk(loop.body) if isinstance(one, Assign) for name in names_of(one.target)}
    moving |= {one.name for one in walk(loop.body) if isinstance(one, Loop)}
    for one in walk(loop.body):
        if isinstance(one, Declare) and any(value is None or _varies(value, moving) for _, value in one.variables):
            moving |= _declared(one)
    return moving


def _varies(value: Expression, moving: set[str]) -> bool:
    return bool(names_of(value) & moving) or any(isinstance(one, Element) for one in walk(value))


def _name(node: Any) -> str:
    return node.name if isinstance(node, Name) else ""
