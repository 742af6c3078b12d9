"""Launches that come several times in the same order, as host functions: a convolution with its norm, or a whole block.

Such a function takes the tensors that its launches read from outside, those of the model's lists by the place of the
first of them, and the sizes in which its calls differ.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from musadata.compiler.emission.launch import filled, results_text
from musadata.compiler.emission.repeated_launches import INDEXED, Launch, Statement
from musadata.compiler.ir.scalar import free_name

SHORT_BLOCKS, LONGEST_BLOCK = (3, 4, 5, 6, 9), 28  # launches
LEAST_SAVED = 100  # characters
MOST_RETURNED = 2
MOST_BLOCKS = 12
_TYPES = {"tensor": "const Tensor&", "int": "int", "double": "double"}
Argument = tuple[str, ...]


def fold_blocks(
    statements: Sequence[Statement], wanted: str, kind_of: Callable[[str], str], taken: Collection[str]
) -> tuple[list[Statement], list[str]]:
    """The statements with repeated ones as calls, and the texts of the functions that are called.

    `wanted` is the text that follows, `kind_of` says what a name stands for: tensor, int or double. Long blocks call
    short ones; of several limits for the short ones, the one counts that makes the text shortest.
    """
    tried = [_fold(statements, wanted, kind_of, taken, short) for short in SHORT_BLOCKS]
    return min(tried, key=lambda folded: sum(map(_length, folded[0])) + sum(map(len, folded[1])))


def _length(statement: Statement) -> int:
    return len(statement.text) if isinstance(statement, Launch) else sum(map(len, statement))


def _fold(
    statements: Sequence[Statement], wanted: str, kind_of: Callable[[str], str], taken: Collection[str], short: int
) -> tuple[list[Statement], list[str]]:
    """The same for one limit for short blocks."""
    current, functions, names = list(statements), list[str](), {*taken}
    for longest in (short, LONGEST_BLOCK):
        for _ in range(MOST_BLOCKS):
            readers = _readers(current, wanted)
            blocks = [_Block(current, places, length, kind_of) for places, length in _repeated(current, longest)]
            useful = [block for block in blocks if block.returned(readers)]
            best = max(useful, key=lambda block: block.saved, default=None)
            if best is None or best.saved < LEAST_SAVED:
                break
            function, current = best.fold(names)
            functions.append(function)
    return current, functions


def _readers(statements: Sequence[Statement], wanted: str) -> dict[str, list[int]]:
    """The places at which each name is read."""
    found: dict[str, list[int]] = {}
    texts = [" ".join(s.arguments) if isinstance(s, Launch) else "\n".join(s) for s in statements]
    for place, text in enumerate((*texts, wanted)):
        for name in set(re.findall(r"[A-Za-z_]\w*", text)):
            found.setdefault(name, []).append(place)
    return found


def _repeated(statements: Sequence[Statement], longest: int) -> Iterator[tuple[list[int], int]]:
    """Where sequences start that are the same but for what they are given, and how long they are."""
    functions = [s.function if isinstance(s, Launch) and s.outputs else "" for s in statements]
    for length in range(2, min(longest, len(statements) // 2) + 1):
        groups: dict[tuple[object, ...], list[int]] = {}
        called = [tuple(functions[start : start + length]) for start in range(len(statements) - length + 1)]
        times = Counter(called)
        for start, names in enumerate(called):
            if times[names] < 2 or "" in names:
                continue
            signature = _signature([s for s in statements[start : start + length] if isinstance(s, Launch)])
            if signature is None:
                continue
            places = groups.setdefault(signature, [])
            if not places or places[-1] + length <= start:
                places.append(start)
        yield from ((places, length) for places in groups.values() if len(places) > 1)


def _signature(launches: Sequence[Launch]) -> tuple[object, ...] | None:
    """What sequences of launches have in common that one function can stand for; None if none can."""
    arguments = _arguments(launches)
    if any(one[0] == "text" for ones in arguments for one in ones):
        return None
    fixed = (tuple(one if one[0] in ("made", "listed") else ("given",) for one in ones) for ones in arguments)
    same = [one for ones in arguments for one in ones if one[0] == "name"]
    order = tuple(same.index(one) for one in same)
    return tuple((launch.function, ones) for launch, ones in zip(launches, fixed, strict=True)), order


def _arguments(launches: Sequence[Launch]) -> list[list[Argument]]:
    """Each argument: made by the block, listed (how far after the first of its list), a name, a number or a text."""
    made = {name: (str(i), str(j)) for i, launch in enumerate(launches) for j, name in enumerate(launch.outputs)}
    first = _first_listed(launches)

    def argument(text: str) -> Argument:
        if text in made:
            return "made", *made[text]
        if match := INDEXED.fullmatch(text):
            return "listed", match[1], str(int(match[2]) - first[match[1].lstrip("&")])
        if text.isdigit():
            return "number", text
        return ("name" if text.isidentifier() else "text"), text

    return [[argument(text) for text in launch.arguments] for launch in launches]


def _first_listed(launches: Sequence[Launch]) -> dict[str, int]:
    """The first element of each list that is read."""
    matches = [m for launch in launches for text in launch.arguments if (m := INDEXED.fullmatch(text))]
    lists = {match[1].lstrip("&") for match in matches}
    return {one: min(int(m[2]) for m in matches if m[1].lstrip("&") == one) for one in sorted(lists)}


@dataclass(frozen=True)
class _Parameter:
    """What calls pass: its type and name in the function, and each call's argument."""

    type: str
    name: str
    values: tuple[str, ...]


class _Block:
    """A function for the launches of several places."""

    def __init__(self, statements: Sequence[Statement], places: list[int], length: int, kind_of: Callable[[str], str]):
        self._statements, self._places, self._length, self._kind_of = statements, places, length, kind_of
        self._members: list[list[Launch]] = [
            [s for s in statements[place : place + length] if isinstance(s, Launch)] for place in places
        ]
        self._returned: list[tuple[int, int]] = []

    def returned(self, readers: dict[str, list[int]]) -> bool:
        """Find the results that are read outside; whether they are few enough."""
        found: set[tuple[int, int]] = set()
        for start, launches in zip(self._places, self._members, strict=True):
            inside = range(start, start + self._length)
            for offset, launch in enumerate(launches):
                for number, name in enumerate(launch.outputs):
                    if any(place not in inside for place in readers.get(name, ())):
                        found.add((offset, number))
        self._returned = sorted(found)
        return 0 < len(found) <= MOST_RETURNED

    @property
    def saved(self) -> int:
        """Characters that the function saves."""
        function, calls = self._write("block_name")
        before = sum(len(launch.text) + 5 for launches in self._members for launch in launches)
        return before - len(function) - sum(len(call.text) + 5 for call in calls)

    def fold(self, taken: set[str]) -> tuple[str, list[Statement]]:
        """The function, and all statements with calls of it."""
        plain = [re.sub(r"^launch_|<.*|\d+", "", launch.function) for launch in self._members[0]]
        first, last = plain[0].split("_to_")[0], plain[-1].split("_to_")[-1]
        base = f"{first}_to_{last}" if first != last else f"{first}_block"
        name = free_name(taken, base)
        taken.add(name)
        function, calls = self._write(name)
        folded: list[Statement] = []
        place = 0
        while place < len(self._statements):
            if place in self._places:
                folded.append(calls[self._places.index(place)])
                place += self._length
            else:
                folded.append(self._statements[place])
                place += 1
        return function, folded

    def _write(self, name: str) -> tuple[str, list[Launch]]:
        first = self._members[0]
        self._names = {output for launch in first for output in launch.outputs}
        self._parameters: dict[tuple[str, ...], _Parameter] = {}
        lists = {one: self._list(one) for one in _first_listed(first)}
        arguments = [_arguments(launches) for launches in self._members]
        body: list[str] = []
        for offset, launch in enumerate(first):
            columns = zip(*(ones[offset] for ones in arguments), strict=True)
            texts = tuple(self._argument(column) for column in columns)
            body += Launch(launch.function, texts, launch.outputs).text.splitlines()
        results = [first[offset].outputs[number] for offset, number in self._returned]
        kind, result = results_text(results)
        if len(results) == 1 and (last := len(first) - 1, 0) == self._returned[0] and len(first[last].outputs) == 1:
            start = next(i for i in reversed(range(len(body))) if body[i].startswith("auto "))
            body[start] = body[start].replace(f"auto {results[0]} =", "return", 1)
        else:
            body.append(f"return {result};")
        parameters = [*self._parameters.values(), *lists.values()]
        head, given = f"{kind} {name}(", [f"{one.type} {one.name}" for one in parameters]
        listed = ", ".join(given)
        head += listed if len(head) + len(listed) < 108 else f"\n    {filled(given, 100)}"
        function = f"{head}) {{\n" + "".join(f"    {line}\n" for line in body) + "}\n"
        calls = [
            Launch(
                name,
                tuple(one.values[number] for one in parameters),
                tuple(launches[offset].outputs[place] for offset, place in self._returned),
            )
            for number, launches in enumerate(self._members)
        ]
        return function, calls

    def _list(self, name: str) -> _Parameter:
        starts = tuple(f"&{name}[{_first_listed(launches)[name]}]" for launches in self._members)
        return _Parameter("const Tensor*", name, starts)

    def _argument(self, column: Sequence[Argument]) -> str:
        """An argument in the function's own text."""
        first = column[0]
        if first[0] == "made":
            return self._members[0][int(first[1])].outputs[int(first[2])]
        if first[0] == "listed":
            return f"{first[1]}[{first[2]}]"
        values = tuple(one[1] for one in column)
        if first[0] == "number" and len(set(values)) == 1:
            return values[0]
        if values not in self._parameters:
            kinds = {"int" if one[0] == "number" else self._kind_of(one[1]) for one in column}
            kind = "tensor" if kinds == {"tensor"} else "double" if "double" in kinds else "int"
            base = "input" if kind == "tensor" else re.sub(r"\d+$", "", values[0]) or "size"
            name = free_name(self._names, base)
            self._names.add(name)
            self._parameters[values] = _Parameter(_TYPES[kind], name, values)
        return self._parameters[values].name
