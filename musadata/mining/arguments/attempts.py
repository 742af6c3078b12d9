"""A candidate for the arguments of a module: constructor arguments and inputs, whose sizes can be edited by slot."""

import ast
import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

SMALLEST_WIDTH = 16  # of inputs; smaller numbers are counts


@dataclass(frozen=True)
class Draw:
    """How one input is drawn: `randn`, `rand`, `randint` (below `high`), `sign` (±1), `bool`, or `literal`.

    `lengths`: those of padded sequences, from `high` down to 1.
    """

    kind: str
    shape: tuple[int, ...] = ()
    high: int = 0
    dtype: str = "float32"
    literal: str = ""

    def text(self) -> str:
        """The Python expression of the draw."""
        if self.kind == "literal":
            return self.literal
        sizes = ", ".join(map(str, self.shape))
        shape = f"({sizes},)" if len(self.shape) == 1 else f"({sizes})"
        dtype = f", dtype=torch.{self.dtype}" if self.dtype not in ("float32", "int64", "bool") else ""
        if self.kind == "randint":
            return f"torch.randint(0, {self.high}, {shape}{dtype})"
        if self.kind == "lengths":
            return f"torch.linspace({self.high}, 1, {sizes}).long()"
        if self.kind == "sign":
            one = ("2", "1") if self.dtype == "int64" else ("2.0", "1.0")
            return f"torch.randint(0, 2, {shape}) * {one[0]} - {one[1]}"
        if self.kind == "bool":
            return f"torch.rand({sizes or '()'}) > 0.5"
        return f"torch.{self.kind}({sizes or '()'}{dtype})"

    def draw(self, torch: Any) -> Any:
        """A value of it, from torch's global generator."""
        return eval(self.text(), {"torch": torch})  # text that is written above, inside the sandbox

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def is_bounded(self) -> bool:
        """Whether `high` is one of its sizes."""
        return self.kind in ("randint", "lengths")


@dataclass(frozen=True)
class Attempt:
    """Constructor arguments as expressions, and inputs. `evidence` says where they were found."""

    init: tuple[str, ...]
    draws: tuple[Draw, ...]
    evidence: str = "names"

    def values(self) -> tuple[int, ...]:
        """Every size in it: integers of the constructor arguments first, then each input's shape and bound."""
        found = [value for text in self.init for value in integers(text)]
        for draw in self.draws:
            found += [*draw.shape, *([draw.high] if draw.is_bounded else [])]
        return tuple(found)

    def batch(self) -> int:
        """The first size of the first input that has others; 0 without one."""
        return next((draw.shape[0] for draw in self.draws if len(draw.shape) > 1), 0)

    def init_count(self) -> int:
        """How many of `values()` belong to the constructor."""
        return sum(len(integers(text)) for text in self.init)

    def with_values(self, values: tuple[int, ...]) -> "Attempt":
        """The same attempt with other sizes, in the order of `values()`."""
        rest = list(values)
        init = tuple(with_integers(text, rest) for text in self.init)
        draws = []
        for draw in self.draws:
            shape = tuple(rest.pop(0) for _ in draw.shape)
            draws.append(replace(draw, shape=shape, high=rest.pop(0) if draw.is_bounded else draw.high))
        return replace(self, init=init, draws=tuple(draws))

    def bound_slots(self) -> frozenset[int]:
        """Slots of `values()` that are upper bounds of integers instead of sizes of tensors."""
        place, found = self.init_count(), []
        for draw in self.draws:
            place += len(draw.shape)
            found += [place] if draw.kind == "randint" else []
            place += draw.is_bounded
        return frozenset(found)


def shrunk(attempt: Attempt, ceiling: int) -> Attempt:
    """The attempt with each size halved until it is no more than `ceiling`, equal sizes alike."""

    def halve(value: int) -> int:
        while value > ceiling:
            value //= 2
        return value

    return attempt.with_values(tuple(halve(value) for value in attempt.values()))


def with_fewer_rows(attempt: Attempt, count: int) -> Attempt:
    """The attempt with every size above `count` that only leads an input's shape set to it: kernels fix inner sizes."""
    inner = {size for draw in attempt.draws for size in draw.shape[1:]}
    leading = {draw.shape[0] for draw in attempt.draws if len(draw.shape) > 1 and draw.shape[0] > count} - inner
    return attempt.with_values(tuple(count if value in leading else value for value in attempt.values()))


def with_draw(attempt: Attempt, number: int, draw: Draw) -> Attempt:
    """The attempt with another draw in this place."""
    return replace(attempt, draws=(*attempt.draws[:number], draw, *attempt.draws[number + 1 :]))


def with_init(attempt: Attempt, init: tuple[str, ...]) -> Attempt:
    """The attempt with other constructor arguments, and inputs as wide as the one that was a width of theirs."""
    pairs = [(old, new) for old, new in zip(attempt.init, init, strict=False) if old.isdigit() and new.isdigit()]
    kept = {old for old, new in pairs if old == new}
    wider = {int(old): int(new) for old, new in pairs if old not in kept and int(old) >= SMALLEST_WIDTH}
    if not wider:
        return replace(attempt, init=init)
    shapes = [(*draw.shape[:1], *(wider.get(size, size) for size in draw.shape[1:])) for draw in attempt.draws]
    draws = tuple(replace(draw, shape=shape) for draw, shape in zip(attempt.draws, shapes, strict=True))
    return replace(attempt, init=init, draws=draws)


def integers(text: str) -> list[int]:
    """The whole numbers written in an expression, in order."""
    return [value for value, _, _ in _integers(text)]


@lru_cache(maxsize=4096)
def _integers(text: str) -> tuple[tuple[int, int, int], ...]:
    """Value, start and end of each whole number in an expression."""
    nodes = ast.walk(ast.parse(text, mode="eval"))
    constants = [item for item in nodes if isinstance(item, ast.Constant) and type(item.value) is int]
    constants.sort(key=lambda item: (item.lineno, item.col_offset))
    return tuple((item.value, item.col_offset, item.end_col_offset) for item in constants)  # type: ignore[misc]


def with_integers(text: str, values: list[int]) -> str:
    """The expression with its whole numbers replaced by the first ones of `values`, which are removed from the list."""
    constants = _integers(text)
    fresh = [values.pop(0) for _ in constants]
    made = text.encode()  # in which the places count bytes
    for (_, start, end), value in reversed(list(zip(constants, fresh, strict=True))):
        made = made[:start] + str(value).encode() + made[end:]
    return made.decode()


def fields_of(text: str) -> dict[str, str]:
    """The fields of an expression for a configuration, an object or a dictionary; {} for any other expression."""
    if not text.startswith(("SimpleNamespace(", "{")):
        return {}
    made = ast.parse(text, mode="eval").body
    if isinstance(made, ast.Call):
        return {item.arg or "": ast.unparse(item.value) for item in made.keywords}
    pairs = zip(made.keys, made.values, strict=True) if isinstance(made, ast.Dict) else ()
    return {str(key.value): ast.unparse(value) for key, value in pairs if isinstance(key, ast.Constant)}


def configuration(text: str, fields: dict[str, str]) -> str:
    """An expression of the same kind with these fields."""
    if text.startswith("{"):
        return "{" + ", ".join(f"{name!r}: {value}" for name, value in fields.items()) + "}"
    return f"SimpleNamespace({', '.join(f'{name}={value}' for name, value in fields.items())})"
