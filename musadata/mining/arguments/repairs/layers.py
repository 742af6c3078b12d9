"""Corrections of the constructor's arguments that a failing layer is made from.

A layer behind others meets what these make of an input, so no size of the input mends it: `self.fc(z)` fails since
`self.fc = nn.Linear(fc_channels, n)` was made for another width.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from musadata.mining.arguments.attempts import Attempt
from musadata.mining.arguments.repairs.parameters import Parameters
from musadata.mining.arguments.stated_sizes import LARGEST, stated_sizes

LAYER = re.compile(r"\bself\.(\w+)")
FIELD = re.compile(r"\b(\w+)(?:=|': )([1-9]\d*)(?=[,)}])")  # of a configuration
OF_INPUTS = re.compile(r"^in(_|put|planes|$)|_in$|^nc$")
SMALLEST_WIDTH = 16  # of the numbers in the code that are taken for widths
MAX_WIDTHS = 3


def repair_layers(attempt: Attempt, error: str, line: str, known: Parameters) -> Iterator[Attempt]:
    """Variants with the width that the failing line's layers meet, then with the widths that the code itself fixes."""
    stated = stated_sizes(error)
    made = _made_from(known.source)
    names = {name for layer in LAYER.findall(line) for name in made.get(layer, ())} if stated else set()
    if stated and not names:  # a layer that a loop or a method was handed
        names = {item.name for item in known.init if OF_INPUTS.search(item.name)}
    slots = list(_slots(attempt, known, names))
    for item in stated:
        for place, name, value in slots:
            width, rest = divmod(value * item.got, item.want)
            if rest == 0 and item.want % value == 0 and 0 < width <= LARGEST:
                yield _with_width(attempt, place, name, width)
    for width in _widths(known.source):
        yield from (_with_width(attempt, place, name, width) for place, name, value in slots if value != width)


def _slots(attempt: Attempt, known: Parameters, names: set[str]) -> Iterator[tuple[int, str, int]]:
    """Place, name and value of each whole number in the constructor's arguments that has one of these names."""
    for place, (item, text) in enumerate(zip(known.init, attempt.init, strict=False)):
        if text.isdigit() and int(text) and item.name in names:
            yield place, "", int(text)
        elif text.startswith(("SimpleNamespace(", "{")):
            fields = dict(FIELD.findall(text))
            yield from ((place, name, int(fields[name])) for name in fields if name in names)


def _with_width(attempt: Attempt, place: int, name: str, width: int) -> Attempt:
    text = re.sub(rf"\b({name}(?:=|': ))\d+(?=[,)}}])", rf"\g<1>{width}", attempt.init[place]) if name else str(width)
    return replace(attempt, init=(*attempt.init[:place], text, *attempt.init[place + 1 :]))


@lru_cache(maxsize=8)
def _made_from(source: str) -> dict[str, frozenset[str]]:
    """Attributes that hold layers -> the names in what they are made from."""
    found: dict[str, frozenset[str]] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            names = frozenset(re.findall(r"[^\W\d]\w*", ast.unparse(node.value)))
            for target in node.targets:
                if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                    found[target.attr] = found.get(target.attr, frozenset()) | names
    return found


@lru_cache(maxsize=8)
def _widths(source: str) -> tuple[int, ...]:
    """The numbers that the code states most often, as widths are stated."""
    values = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    counts = Counter(value for value in values if type(value) is int and SMALLEST_WIDTH <= value <= LARGEST)
    return tuple(value for value, _ in counts.most_common(MAX_WIDTHS))
