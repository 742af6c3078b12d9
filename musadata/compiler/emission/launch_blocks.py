"""Launches that come several times in the same order, as host functions: a convolution with its norm, or a whole block.

Such a function takes the tensors that its launches read from outside, those of the model's lists by the place of the
first of them, and the sizes in which its calls differ.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from musadata.compiler.emission.launch import returning
from musadata.compiler.ir.code import (
    Element,
    Expression,
    Function,
    Invoke,
    Name,
    Number,
    Parameter,
    Statement,
    Unary,
    names_of,
)
from musadata.compiler.ir.printing import text_of
from musadata.compiler.ir.scalar import free_name

SHORT_BLOCKS, LONGEST_BLOCK = (3, 4, 5, 6, 9), 28  # launches
LEAST_SAVED = 100  # characters
MOST_RETURNED = 2
MOST_BLOCKS = 12
_TYPES = {"tensor": "const Tensor&", "int": "int", "double": "double"}
Place = tuple[int, int]  # of a result: its launch in the block, and which of the launch's results it is
Argument = tuple[str, Expression | Place]  # made by the block, listed (how far after the first of its list), or given


def fold_blocks(
    statements: Sequence[Statement], result: Statement, kind_of: Callable[[str], str], taken: Collection[str]
) -> tuple[list[Statement], list[Function]]:
    """The statements with repeated ones as calls, and the functions that are called.

    `result` is the statement that follows, `kind_of` says what a name stands for: tensor, int or double. Long blocks
    call short ones; of several limits for the short ones, the one counts that makes the text shortest.
    """
    tried = [_fold(statements, result, kind_of, taken, short) for short in SHORT_BLOCKS]
    return min(tried, key=lambda folded: sum(map(_length, folded[0])) + sum(len(one.text) for one in folded[1]))


def _length(statement: Statement) -> int:
    text = text_of(statement)
    return len(text) - (1 if isinstance(statement, Invoke) else text.count("\n"))


def _fold(
    statements: Sequence[Statement],
    result: Statement,
    kind_of: Callable[[str], str],
    taken: Collection[str],
    short: int,
) -> tuple[list[Statement], list[Function]]:
    """The same for one limit for short blocks."""
    current, functions, names = list(statements), list[Function](), {*taken}
    for longest in (short, LONGEST_BLOCK):
        for _ in range(MOST_BLOCKS):
            readers: dict[str, list[int]] = {}  # the places at which each name is read
            for place, statement in enumerate((*current, result)):
                for read in names_of(statement.arguments if isinstance(statement, Invoke) else statement):
                    readers.setdefault(read, []).append(place)
            blocks = [_Block(current, places, length, kind_of) for places, length in _repeated(current, longest)]
            useful = [block for block in blocks if block.returned(readers)]
            best = max(useful, key=lambda block: block.saved, default=None)
            if best is None or best.saved < LEAST_SAVED:
                break
            function, current = best.fold(names)
            functions.append(function)
    return current, functions


def _repeated(statements: Sequence[Statement], longest: int) -> Iterator[tuple[list[int], int]]:
    """Where sequences start that are the same but for what they are given, and how long they are."""
    functions = [s.function if isinstance(s, Invoke) and s.outputs else "" for s in statements]
    for length in range(2, min(longest, len(statements) // 2) + 1):
        groups: dict[object, list[int]] = {}
        called = [tuple(functions[start : start + length]) for start in range(len(statements) - length + 1)]
        times = Counter(called)
        for start, names in enumerate(called):
            if times[names] < 2 or "" in names:
                continue
            signature = _signature([s for s in statements[start : start + length] if isinstance(s, Invoke)])
            places = groups.setdefault(signature, [])
            if not places or places[-1] + length <= start:
                places.append(start)
        yield from ((places, length) for places in groups.values() if len(places) > 1)


def _signature(launches: Sequence[Invoke]) -> object:
    """What sequences of launches have in common that one function can stand for."""
    arguments = _arguments(launches)
    fixed = [tuple(("given",) if one[0] == "given" else one for one in ones) for ones in arguments]
    same = [one for ones in arguments for one in ones if one[0] == "given" and isinstance(one[1], Name)]
    order = tuple(map(same.index, same))
    return tuple((launch.function, ones) for launch, ones in zip(launches, fixed, strict=True)), order


def _arguments(launches: Sequence[Invoke]) -> list[list[Argument]]:
    made = {name: (i, j) for i, launch in enumerate(launches) for j, name in enumerate(launch.outputs)}
    first = _first_listed(launches)

    def argument(value: Expression) -> Argument:
        if isinstance(value, Name) and value in made:
            return "made", made[value]
        element = _listed(value)
        if element is None:
            return "given", value
        offset = element.array[_place(element) - first[element.array]]
        return "listed", offset if value == element else Unary("&", offset)

    return [[argument(value) for value in launch.arguments] for launch in launches]


def _listed(value: Expression) -> Element | None:
    """The element of a list of the model's tensors that an argument is, or points to."""
    value = value.operand if isinstance(value, Unary) else value
    return value if isinstance(value, Element) else None


def _place(element: Element) -> int:
    assert isinstance(element.place, Number)
    return int(element.place.digits)


def _first_listed(launches: Sequence[Invoke]) -> dict[Expression, int]:
    """The first element of each list that is read."""
    found = [element for launch in launches for value in launch.arguments if (element := _listed(value))]
    lists = sorted({element.array for element in found}, key=str)
    return {one: min(_place(element) for element in found if element.array == one) for one in lists}


@dataclass(frozen=True)
class _Parameter:
    """What calls pass: its type and name in the function, and each call's argument."""

    type: str
    name: Name
    values: tuple[Expression, ...]


class _Block:
    """A function for the launches of several places."""

    def __init__(self, statements: Sequence[Statement], places: list[int], length: int, kind_of: Callable[[str], str]):
        self._statements, self._places, self._length, self._kind_of = statements, places, length, kind_of
        self._members = [[s for s in statements[at : at + length] if isinstance(s, Invoke)] for at in places]
        self._returned: list[Place] = []

    def returned(self, readers: dict[str, list[int]]) -> bool:
        """Find the results that are read outside; whether they are few enough."""
        found: set[Place] = set()
        for start, launches in zip(self._places, self._members, strict=True):
            inside = range(start, start + self._length)
            for offset, launch in enumerate(launches):
                for number, name in enumerate(launch.outputs):
                    if any(place not in inside for place in readers.get(name.name, ())):
                        found.add((offset, number))
        self._returned = sorted(found)
        return 0 < len(found) <= MOST_RETURNED

    @property
    def saved(self) -> int:
        """Characters that the function saves."""
        function, calls = self._write("block_name")
        before = sum(len(text_of(launch)) + 4 for launches in self._members for launch in launches)
        return before - len(function.text) - sum(len(text_of(call)) + 4 for call in calls)

    def fold(self, taken: set[str]) -> tuple[Function, list[Statement]]:
        """The function, and all statements with calls of it."""
        plain = [re.sub(r"^launch_|<.*|\d+", "", launch.function) for launch in self._members[0]]
        first, last = plain[0].split("_to_")[0], plain[-1].split("_to_")[-1]
        name = free_name(taken, f"{first}_to_{last}" if first != last else f"{first}_block")
        taken.add(name)
        function, calls = self._write(name)
        folded = list(self._statements)
        for place, call in reversed(list(zip(self._places, calls, strict=True))):
            folded[place : place + self._length] = [call]
        return function, folded

    def _write(self, name: str) -> tuple[Function, list[Invoke]]:
        first = self._members[0]
        self._names = {output.name for launch in first for output in launch.outputs}
        self._parameters: dict[tuple[Expression, ...], _Parameter] = {}
        firsts = [_first_listed(launches) for launches in self._members]
        pointers = {array: tuple(Unary("&", array[known[array]]) for known in firsts) for array in firsts[0]}
        arguments = [_arguments(launches) for launches in self._members]
        body: list[Invoke] = []
        for offset, launch in enumerate(first):
            columns = zip(*(ones[offset] for ones in arguments), strict=True)
            body.append(replace(launch, arguments=tuple(map(self._argument, columns))))
        results = [first[offset].outputs[number] for offset, number in self._returned]
        kind, result = returning([one.name for one in results])
        if len(results) == 1 and first[-1].outputs == tuple(results):
            body[-1] = replace(body[-1], outputs=(), returns=True)
            body_of: tuple[Statement, ...] = tuple(body)
        else:
            body_of = (*body, result)
        parameters = list(self._parameters.values())
        parameters += [_Parameter("const Tensor*", Name(str(one)), values) for one, values in pointers.items()]
        calls = [
            Invoke(
                name,
                tuple(one.values[number] for one in parameters),
                tuple(launches[offset].outputs[place] for offset, place in self._returned),
            )
            for number, launches in enumerate(self._members)
        ]
        given = tuple(Parameter(one.type, one.name) for one in parameters)
        return Function(f"{kind} ", Name(name), given, body_of), calls

    def _argument(self, column: Sequence[Argument]) -> Expression:
        """An argument in the function's own text."""
        kind, first = column[0]
        if isinstance(first, tuple):
            return self._members[0][first[0]].outputs[first[1]]
        if kind == "listed":
            return first
        values = tuple(one for _, one in column if isinstance(one, Expression))
        if isinstance(first, Number) and len(set(values)) == 1:
            return first
        if values not in self._parameters:
            kinds = {"int" if isinstance(one, Number) else self._kind_of(str(one)) for one in values}
            kind = "tensor" if kinds == {"tensor"} else "double" if "double" in kinds else "int"
            base = "input" if kind == "tensor" else re.sub(r"\d+$", "", str(first)) or "size"
            name = free_name(self._names, base)
            self._names.add(name)
            self._parameters[values] = _Parameter(_TYPES[kind], Name(name), values)
        return self._parameters[values].name
