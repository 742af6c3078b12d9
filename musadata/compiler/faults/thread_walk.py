"""What threads of a kernel do on their way to a node: its integers, interpreted thread by thread and step by step."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

from musadata.compiler.emission.launch import EmittedKernel
from musadata.compiler.ir.code import (
    Assign,
    Binary,
    Body,
    Choice,
    Declare,
    Function,
    Guard,
    Jump,
    Loop,
    Name,
    Scope,
    Statement,
    evaluate,
    fields_of,
    settle,
    walk,
)

MOST_THREADS, MOST_STEPS = 1024, 512  # that are followed, and rounds of each loop
_INTEGERS = ("int", "int64_t", "bool", "size_t")


@dataclass(frozen=True)
class Visit:
    """The arrival of a thread at a node. `known` are the integers that it has there."""

    block: tuple[int, ...]
    thread: tuple[int, ...]
    known: Mapping[str, int]

    @property
    def told(self) -> str:
        return f"thread {_place(self.thread)} of block {_place(self.block)}"


def _place(sides: tuple[int, ...]) -> str:
    return str(sides[0]) if len(sides) == 1 else f"({', '.join(map(str, sides))})"


def arguments_of(emitted: EmittedKernel, sizes: Mapping[str, int]) -> dict[str, int]:
    """What a kernel's integer parameters are for given sizes."""
    settled = {name: sides[0] for name, sides in settle(emitted.host.setup, sizes).items() if len(sides) == 1}
    known = {**sizes, **settled}
    pairs = zip(emitted.function.parameters, emitted.host.arguments, strict=False)
    given = {one.name.name: evaluate(argument, known) for one, argument in pairs}
    return {**sizes, **{name: value for name, value in given.items() if value is not None}}


def visits(
    emitted: EmittedKernel, function: Function, target: Any, sizes: Mapping[str, int], *, last: bool = False
) -> Iterator[Visit]:
    """Arrivals of threads at a node of a kernel, in the order of blocks, threads and steps; `last`: of its last block
    alone. None where the grid is not known."""
    grid = emitted.host.grid(sizes)
    if grid is None:
        return
    way = _Way(function, target)
    known = arguments_of(emitted, sizes)
    known |= _axes("gridDim", grid) | _axes("blockDim", emitted.threads)
    blocks = [tuple(side - 1 for side in grid)] if last else map(_turned, product(*map(range, reversed(grid))))
    threads = [_turned(thread) for thread in product(*map(range, reversed(emitted.threads)))]
    for block, thread in islice(((block, thread) for block in blocks for thread in threads), MOST_THREADS):
        start = {**known, **_axes("blockIdx", block), **_axes("threadIdx", thread)}
        for found in way.follow(function.body, start):
            yield Visit(block, thread, found)


def _turned(sides: tuple[int, ...]) -> tuple[int, ...]:
    return sides[::-1]


def _axes(name: str, sides: tuple[int, ...]) -> dict[str, int]:
    missing = 1 if name.endswith("Dim") else 0
    return {f"{name}.{axis}": side for axis, side in zip("xyz", (*sides, missing, missing), strict=False)}


class _Way:
    """The way to a node of a function: what of the statements that a thread passes has to be known is found once."""

    def __init__(self, function: Function, target: Any):
        around: list[Any] = []

        def enclose(node: Any) -> bool:
            parts = node if isinstance(node, tuple) else [getattr(node, name) for name in fields_of(node) or ()]
            if node is target or any(map(enclose, parts)):
                around.append(node)
                return True
            return False

        enclose(function.body)
        self._holding = {id(node) for node in around if not isinstance(node, tuple)}
        self._conditions = [node for node in around if isinstance(node, (Choice, Binary))]
        self._assigned: dict[int, frozenset[str]] = {}

    def follow(self, body: Body, known: dict[str, int]) -> Iterator[dict[str, int]]:
        """The integers that are known at each arrival at the node in these statements."""
        for one in body:
            if id(one) in self._holding:
                yield from self._enter(one, known)
                return
            match one:
                case Declare(kind, variables) if kind in _INTEGERS:
                    found = {name.name: None if value is None else evaluate(value, known) for name, value in variables}
                    known = {name: value for name, value in (known | found).items() if value is not None}
                case Guard(condition, (Jump("return" | "continue"),)) if evaluate(condition, known):
                    return
                case Declare():
                    pass
                case _ if changed := self._changed(one) & known.keys():
                    known = {name: value for name, value in known.items() if name not in changed}

    def _changed(self, one: Statement) -> frozenset[str]:
        if id(one) not in self._assigned:
            targets = [part.target for part in walk(one) if isinstance(part, Assign)]
            self._assigned[id(one)] = frozenset(target.name for target in targets if isinstance(target, Name))
        return self._assigned[id(one)]

    def _holds(self, body: Body) -> bool:
        return any(id(one) in self._holding for one in body)

    def _enter(self, one: Statement, known: dict[str, int]) -> Iterator[dict[str, int]]:
        match one:
            case Guard(condition, body, otherwise) if id(condition) not in self._holding:
                holds = evaluate(condition, known)
                if holds is None or bool(holds) == self._holds(body):
                    yield from self.follow(body if self._holds(body) else otherwise, known)
            case Loop(_, variables, condition, step, body) if self._holds(body):
                value = evaluate(one.first, known) if len(variables) == 1 else None
                for _ in range(MOST_STEPS):
                    now = known | {one.name: value} if value is not None else known
                    if value is None or not evaluate(condition, now):
                        return
                    yield from self.follow(body, now)
                    by = 1 if step is None else evaluate(step, now)
                    value = None if by is None else value + by
            case Scope(body):
                yield from self.follow(body, known)
            case _ if self._is_reached(known):
                yield known

    def _is_reached(self, known: Mapping[str, int]) -> bool:
        """Whether the conditions inside of expressions let a thread come to the node."""
        for part in self._conditions:
            match part:
                case Choice(condition, yes) if id(condition) not in self._holding:
                    holds = evaluate(condition, known)
                    if holds is not None and bool(holds) != (id(yes) in self._holding):
                        return False
                case Binary(left, "&&", right) if id(right) in self._holding and evaluate(left, known) == 0:
                    return False
        return True
