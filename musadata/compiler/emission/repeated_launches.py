"""Host statements that launch kernels, with layers that repeat written as loops."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from musadata.compiler.ir.code import (
    Assign,
    Binary,
    Body,
    Braces,
    Declare,
    Element,
    Expression,
    Invoke,
    Loop,
    Name,
    Number,
    Statement,
    Unary,
    code,
    names_of,
)
from musadata.compiler.ir.scalar import free_name

LONGEST_PERIOD = 48  # launches of one layer
MOST_TABLES = 6  # of values that follow no rule, in one loop
Values = tuple[Expression, ...]


def write_launches(statements: Sequence[Statement], result: Statement, names: Collection[str]) -> list[Statement]:
    """All statements. `result` is the one that follows them, `names` are all names in use."""
    taken = {*names}
    written: list[Statement] = []
    place = 0
    while place < len(statements):
        loop = _best_loop(statements, place, result)
        if loop is not None:
            written += loop.write(taken)
            place += loop.period * loop.times
        else:
            written.append(statements[place])
            place += 1
    return written


def read_in(statements: Sequence[Statement]) -> frozenset[str]:
    """The names that statements read, and those that are declared inside of them."""
    return names_of(tuple(one.arguments if isinstance(one, Invoke) else one for one in statements))


def _best_loop(statements: Sequence[Statement], start: int, result: Statement) -> "_Loop | None":
    """The loop from a place on that takes the place of most launches."""
    best: _Loop | None = None
    longest = min(LONGEST_PERIOD, (len(statements) - start) // 2)
    for period in range(1, longest + 1):
        times = _repetitions(statements, start, period)
        saved = best.period * (best.times - 1) if best else 0
        for fewer in range(times, 1, -1):
            if period * (fewer - 1) <= saved or (fewer == 2 and period < 6):
                break
            body = [one for one in statements[start : start + period * fewer] if isinstance(one, Invoke)]
            loop = _Loop(body, period, fewer)
            if loop.is_sound(read_in((*statements[start + period * fewer :], result))):
                best = loop
                break
    return best


def _repetitions(statements: Sequence[Statement], start: int, period: int) -> int:
    """How often the first `period` launches are followed by launches of the same kinds."""
    place = start
    while place < len(statements):
        statement, pattern = statements[place], statements[start + (place - start) % period]
        if not (isinstance(statement, Invoke) and isinstance(pattern, Invoke) and _form(statement) == _form(pattern)):
            break
        place += 1
    return (place - start) // period


def _form(call: Invoke) -> tuple[str, ...]:
    """The function, and what kind each argument is of."""
    return (call.function, *map(_kind, call.arguments))


def _kind(argument: Expression) -> str:
    match argument:
        case Number():
            return "#"
        case Element(array) | Unary("&", Element(array)):
            return f"{'&' if isinstance(argument, Unary) else ''}{array}"
    return "name"


class _Loop:
    """`times` rounds of `period` launches each.

    A tensor that a launch reads is made in its own round, or in the round before (it is carried then), or before all.
    """

    def __init__(self, launches: Sequence[Invoke], period: int, times: int):
        self._launches, self.period, self.times = launches, period, times
        self._made: dict[Expression, tuple[int, int, int]] = {
            name: (place // period, place % period, number)
            for place, launch in enumerate(launches)
            for number, name in enumerate(launch.outputs)
        }
        self._carried: dict[tuple[Expression, tuple[int, int]], Name] = {}  # (first, place in the round): variable
        self._tables: dict[Values, Name] = {}
        self._escaping: list[Name] = []

    def is_sound(self, later: Collection[str]) -> bool:
        """Whether one text does for all rounds, and only results of the last round are read after the loop."""
        self._escaping = [name for name in self._made if isinstance(name, Name) and name.name in later]
        if any(self._made[name][0] != self.times - 1 for name in self._escaping):
            return False
        kinds = {values: self._kind_of(values) for values in chain.from_iterable(self._columns())}
        return "" not in kinds.values() and list(kinds.values()).count("table") <= MOST_TABLES

    def _columns(self) -> Iterator[list[Values]]:
        """For each launch of a round the values of its arguments, over all rounds."""
        for offset in range(self.period):
            rounds = self._launches[offset :: self.period]
            yield list(zip(*(launch.arguments for launch in rounds), strict=True))

    def _kind_of(self, values: Values) -> str:
        """How an argument is written: same, inner, carried, step or table; "" if there is no way."""
        if any(value in self._made for value in values):
            places = [self._made.get(value) for value in values]
            if all(place is not None and place[0] == number for number, place in enumerate(places)):
                return "inner" if len({place[1:] for place in places if place}) == 1 else ""
            before = [place is not None and place[0] == number for number, place in enumerate(places[1:])]
            is_same = len({place[1:] for place in places[1:] if place}) == 1
            return "carried" if places[0] is None and all(before) and is_same else ""
        if len(set(values)) == 1:
            return "same"
        if _stepped(values, Name("")) is not None:
            return "step"
        return "table" if all(_is_size(value) for value in values) else ""

    def write(self, taken: set[str]) -> Body:
        body: list[Statement] = []
        variable = _fresh("layer", taken)
        for offset, columns in enumerate(self._columns()):
            arguments = tuple(self._argument(values, variable, taken) for values in columns)
            body.append(replace(self._launches[offset], arguments=arguments))
        ends = {name: self._first_name(self._made[name][1:]) for name in self._escaping}
        carried = {name: first for (first, _), name in self._carried.items()}
        sources = {name: self._first_name(place) for (_, place), name in self._carried.items()} | ends
        body += [Assign(name, "=", made) for name, made in sources.items()]
        return (
            *(Declare("int", ((name, Braces(values)),), sizes=("",)) for values, name in self._tables.items()),
            *(Declare("Tensor", ((name, first),), "") for name, first in carried.items()),
            *(Declare("Tensor", ((name, None),), "") for name in ends if name not in carried),
            Loop("int", ((variable, code(0)),), variable < self.times, None, tuple(body)),
        )

    def _first_name(self, place: tuple[int, int]) -> Name:
        """What a result is called in the first round."""
        offset, number = place
        return self._launches[offset].outputs[number]

    def _argument(self, values: Values, variable: Name, taken: set[str]) -> Expression:
        kind = self._kind_of(values)
        if kind in ("same", "inner"):
            return values[0]
        if kind == "step":
            stepped = _stepped(values, variable)
            assert stepped is not None
            return stepped
        if kind == "table":
            if values not in self._tables:
                self._tables[values] = _fresh("sizes", taken)
            return self._tables[values][variable]
        place = self._made[values[1]][1:]
        key = (values[0], place)
        if key not in self._carried:
            last = self._launches[(self.times - 1) * self.period + place[0]].outputs[place[1]]
            is_free = last not in self._carried.values()
            self._carried[key] = last if is_free else _fresh(f"{last}_before", taken)
        return self._carried[key]


def _stepped(values: Values, variable: Name) -> Expression | None:
    """Numbers, or places in a list, that grow by the same step each time, by the number of the round; None if they do
    not."""
    match values[0]:
        case Element(array) | Unary("&", Element(array)) as first:
            places = [value.operand if isinstance(value, Unary) else value for value in values]
            found = _stepped(tuple(one.place if isinstance(one, Element) else one for one in places), variable)
            place = found and array[found]
            return Unary("&", place) if place and isinstance(first, Unary) else place
    numbers = [value.value for value in values if isinstance(value, Number) and value.value is not None]
    step = numbers[1] - numbers[0] if len(numbers) == len(values) else 0
    if not step or numbers != [numbers[0] + index * step for index in range(len(numbers))]:
        return None
    moved: Expression = variable if abs(step) == 1 else code(abs(step)) * variable
    return moved if numbers[0] == 0 and step > 0 else Binary(code(numbers[0]), "+" if step > 0 else "-", moved)


def _is_size(value: Expression) -> bool:
    return isinstance(value, Number) or (isinstance(value, Name) and ("size" in value.name or "out_" in value.name))


def _fresh(name: str, taken: set[str]) -> Name:
    found = free_name(taken, name)
    taken.add(found)
    return Name(found)
