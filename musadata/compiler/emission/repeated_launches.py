"""Host statements that launch kernels, with layers that repeat written as loops."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from musadata.compiler.emission.launch import filled
from musadata.compiler.ir.scalar import free_name

LONGEST_PERIOD = 48  # launches of one layer
MOST_TABLES = 6  # of values that follow no rule, in one loop
INDEXED = re.compile(r"(&?(?:weights|buffers))\[(\d+)\]")  # an element of a list, or a pointer to it


@dataclass(frozen=True)
class Launch:
    """A call of a function that launches a kernel: `auto {outputs} = {function}({arguments});`."""

    function: str
    arguments: tuple[str, ...]
    outputs: tuple[str, ...]

    @cached_property
    def kind(self) -> tuple[str, ...]:
        """The function, and what kind each argument is of."""
        kinds = ("#" if a.isdigit() else m[1] if (m := INDEXED.fullmatch(a)) else "name" for a in self.arguments)
        return (self.function, *kinds)

    @property
    def text(self) -> str:
        made = self.outputs[0] if len(self.outputs) == 1 else f"[{', '.join(self.outputs)}]"
        call = f"auto {made} = {self.function}(" if self.outputs else f"{self.function}("
        line = f"{call}{', '.join(self.arguments)});"
        if len(line) <= 108:
            return line
        return f"{call}\n    {filled(self.arguments, 100)});"


Statement = Launch | tuple[str, ...]  # or lines that are as they are


def write_launches(statements: Sequence[Statement], wanted: str, names: Collection[str]) -> list[str]:
    """The lines of all statements. `wanted` is the text that follows them, `names` are all names in use."""
    taken = {*names}
    lines: list[str] = []
    place = 0
    while place < len(statements):
        loop = _best_loop(statements, place, wanted)
        statement = statements[place]
        if loop is not None:
            lines += loop.write(taken)
            place += loop.period * loop.times
        else:
            lines += statement.text.splitlines() if isinstance(statement, Launch) else statement
            place += 1
    return lines


def _best_loop(statements: Sequence[Statement], start: int, wanted: str) -> "_Loop | None":
    """The loop from a place on that takes the place of most launches."""
    best: _Loop | None = None
    longest = min(LONGEST_PERIOD, (len(statements) - start) // 2)
    for period in range(1, longest + 1):
        times = _repetitions(statements, start, period)
        saved = best.period * (best.times - 1) if best else 0
        for fewer in range(times, 1, -1):
            if period * (fewer - 1) <= saved or (fewer == 2 and period < 6):
                break
            body = statements[start : start + period * fewer]
            loop = _Loop(tuple(body), period, fewer)  # type: ignore[arg-type]
            if loop.is_sound(_read_after(statements[start + period * fewer :], wanted)):
                best = loop
                break
    return best


def _repetitions(statements: Sequence[Statement], start: int, period: int) -> int:
    """How often the first `period` launches are followed by launches of the same kinds."""
    place = start
    while place < len(statements):
        statement, pattern = statements[place], statements[start + (place - start) % period]
        if not (isinstance(statement, Launch) and isinstance(pattern, Launch) and statement.kind == pattern.kind):
            break
        place += 1
    return (place - start) // period


def _read_after(statements: Sequence[Statement], wanted: str) -> set[str]:
    texts = (" ".join(s.arguments) if isinstance(s, Launch) else "\n".join(s) for s in statements)
    return {name for text in (*texts, wanted) for name in re.findall(r"[A-Za-z_]\w*", text)}


class _Loop:
    """`times` rounds of `period` launches each.

    A tensor that a launch reads is made in its own round, or in the round before (it is carried then), or before all.
    """

    def __init__(self, launches: tuple[Launch, ...], period: int, times: int):
        self._launches, self.period, self.times = launches, period, times
        self._made = {
            name: (place // period, place % period, number)
            for place, launch in enumerate(launches)
            for number, name in enumerate(launch.outputs)
        }
        self._carried: dict[tuple[str, tuple[int, int]], str] = {}  # (first, place in the round): variable
        self._tables: dict[tuple[str, ...], str] = {}
        self._escaping: list[str] = []

    def is_sound(self, later: set[str]) -> bool:
        """Whether one text does for all rounds, and only results of the last round are read after the loop."""
        self._escaping = [name for name in self._made if name in later]
        if any(self._made[name][0] != self.times - 1 for name in self._escaping):
            return False
        tables = set()
        for values in chain.from_iterable(self._columns()):
            kind = self._kind_of(values)
            if kind == "":
                return False
            if kind == "table":
                tables.add(values)
        return len(tables) <= MOST_TABLES

    def _columns(self) -> Iterator[list[tuple[str, ...]]]:
        """For each launch of a round the values of its arguments, over all rounds."""
        for offset in range(self.period):
            rounds = self._launches[offset :: self.period]
            yield list(zip(*(launch.arguments for launch in rounds), strict=True))

    def _kind_of(self, values: tuple[str, ...]) -> str:
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
        if _steps(values):
            return "step"
        return "table" if not any(INDEXED.fullmatch(value) for value in values) and _are_sizes(values) else ""

    def write(self, taken: set[str]) -> list[str]:
        body: list[str] = []
        variable = _fresh("layer", taken)
        for offset, columns in enumerate(self._columns()):
            first = self._launches[offset]
            arguments = tuple(self._argument(values, variable, taken) for values in columns)
            body += Launch(first.function, arguments, first.outputs).text.splitlines()
        ends = {name: self._first_name(self._made[name][1:]) for name in self._escaping}
        carried = {name: first for (first, _), name in self._carried.items()}
        lines = [f"const int {name}[] = {{{', '.join(values)}}};" for values, name in self._tables.items()]
        lines += [f"Tensor {name} = {first};" for name, first in carried.items()]
        lines += [f"Tensor {name};" for name in ends if name not in carried]
        lines.append(f"for (int {variable} = 0; {variable} < {self.times}; ++{variable}) {{")
        lines += [f"    {line}" for line in body]
        sources = {name: self._first_name(place) for (_, place), name in self._carried.items()} | ends
        lines += [f"    {name} = {made};" for name, made in sources.items()]
        return [*lines, "}"]

    def _first_name(self, place: tuple[int, int]) -> str:
        """What a result is called in the first round."""
        offset, number = place
        return self._launches[offset].outputs[number]

    def _argument(self, values: tuple[str, ...], variable: str, taken: set[str]) -> str:
        kind = self._kind_of(values)
        if kind in ("same", "inner"):
            return values[0]
        if kind == "step":
            match = INDEXED.fullmatch(values[0])
            text = _steps(values).replace("@", variable)
            return f"{match[1]}[{text}]" if match else text
        if kind == "table":
            if values not in self._tables:
                self._tables[values] = _fresh("sizes", taken)
            return f"{self._tables[values]}[{variable}]"
        place = self._made[values[1]][1:]
        key = (values[0], place)
        if key not in self._carried:
            last = self._launches[(self.times - 1) * self.period + place[0]].outputs[place[1]]
            is_free = last not in self._carried.values()
            self._carried[key] = last if is_free else _fresh(f"{last}_before", taken)
        return self._carried[key]


def _steps(values: tuple[str, ...]) -> str:
    """Numbers that grow by the same step each time, as a formula of the round `@`; "" if they do not."""
    matches = [INDEXED.fullmatch(value) for value in values]
    texts = [match[2] if match else value for match, value in zip(matches, values, strict=True)]
    if not all(text.isdigit() for text in texts):
        return ""
    numbers = [int(text) for text in texts]
    step = numbers[1] - numbers[0]
    if any(number != numbers[0] + index * step for index, number in enumerate(numbers)):
        return ""
    moved = "@" if abs(step) == 1 else f"{abs(step)} * @"
    if numbers[0] == 0 and step > 0:
        return moved
    return f"{numbers[0]} {'+' if step > 0 else '-'} {moved}"


def _are_sizes(values: Sequence[str]) -> bool:
    """Whether they are integers or names of sizes."""
    return any(value.isdigit() for value in values) or all("size" in value or "out_" in value for value in values)


def _fresh(name: str, taken: set[str]) -> str:
    found = free_name(taken, name)
    taken.add(found)
    return found
