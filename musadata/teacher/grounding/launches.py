"""How many blocks and threads a program starts, from the arithmetic of its host code and the shapes of a trace."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from musadata.records import Trace
from musadata.teacher.grounding.expressions import evaluate

_STEP = re.compile(
    r"\b(?:int|int64_t|long|size_t|unsigned|auto)\s+(?P<name>\w+)\s*=\s*(?P<value>[^;{}]+);"
    r"|\bdim3\s+(?P<dim>\w+)\s*(?:=\s*dim3)?\s*\((?P<sizes>[^;{}]+)\);"
    r"|\b(?P<kernel>\w+)\s*(?:<[^<>;{}]*>)?\s*<<<(?P<how>[^;{}]*?)>>>"
)
_SIZE = re.compile(r"\b(\w+)\s*\.\s*size\s*\(\s*(-?\d+)\s*\)")
_COUNT = re.compile(r"\b(\w+)\s*\.\s*numel\s*\(\s*\)")
_CAST = re.compile(r"\bstatic_cast\s*<[^<>]*>|\(\s*(?:int|int64_t|size_t|long|unsigned)\s*\)")


@dataclass(frozen=True)
class Launch:
    """One launch; sizes along x, y and z as far as they are given."""

    kernel: str
    blocks: tuple[int, ...]
    threads: tuple[int, ...]

    @property
    def block_count(self) -> int:
        return math.prod(self.blocks)

    @property
    def block_size(self) -> int:
        return math.prod(self.threads)


def find_launches(program: str, trace: Trace, given: Mapping[str, int] | None = None) -> tuple[Launch, ...]:
    """The launches of a program in their order; those whose sizes do not follow from shapes, and from the host's
    arguments that are `given`, are left out."""
    shapes = {fact.name.replace(".", "_"): fact.shape for fact in trace.tensors}
    known: dict[str, tuple[int, ...]] = {name: (number,) for name, number in (given or {}).items()}
    found = []
    for step in _STEP.finditer(program):
        if step["name"] or step["dim"]:
            known.pop(step["name"] or step["dim"], None)
            values = _values(step["value"] or step["sizes"], known, shapes)
            if values:
                known[step["name"] or step["dim"]] = values
            continue
        parts = list(_arguments(step["how"]))
        blocks, threads = (_values(part.removeprefix("dim3"), known, shapes) for part in (*parts, "", "")[:2])
        if blocks and threads:
            found.append(Launch(step["kernel"], blocks, threads))
    return tuple(found)


def _values(
    text: str, known: Mapping[str, tuple[int, ...]], shapes: Mapping[str, tuple[int, ...]]
) -> tuple[int, ...] | None:
    """The whole numbers of an expression, of several between commas, or of a name."""
    text = text.strip()
    if text in known:
        return known[text]
    if text.startswith("(") and text.endswith(")") and len(list(_arguments(text[1:-1]))) > 1:
        text = text[1:-1]
    text = re.sub(r"\b(\w+)\.([xyz])\b", lambda match: _side(match, known), text)
    names = {name: Fraction(values[0]) for name, values in known.items() if len(values) == 1}
    numbers = [evaluate(_as_arithmetic(part, shapes), names) for part in _arguments(text)]
    whole = [int(number) for number in numbers if number is not None and number.denominator == 1]
    return tuple(whole) if whole and len(whole) == len(numbers) else None


def _side(match: re.Match[str], known: Mapping[str, tuple[int, ...]]) -> str:
    """`threads.x` as a number, if `threads` is known."""
    sides, place = known.get(match[1], ()), "xyz".index(match[2])
    return str(sides[place]) if place < len(sides) else match[0]


def _as_arithmetic(text: str, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """C++ over sizes of tensors as arithmetic: division of whole numbers rounds down."""

    def size(match: re.Match[str]) -> str:
        shape, axis = shapes.get(match[1], shapes.get(match[1].removesuffix("_data"), ())), int(match[2])
        return str(shape[axis]) if -len(shape) <= axis < len(shape) else match[0]

    def count(match: re.Match[str]) -> str:
        return str(math.prod(shapes[match[1]])) if match[1] in shapes else match[0]

    text = _CAST.sub("", _COUNT.sub(count, _SIZE.sub(size, text)))
    text = re.sub(r"\b(?:std|at|c10)::(min|max|ceil_div)(?:\s*<[^<>]*>)?", r"\1", text)
    return re.sub(r"(?<=\d)(?:[uU]?[lL]{0,2})\b", "", text).replace("/", "//")


def _arguments(text: str) -> Iterator[str]:
    """What stands between the outer commas."""
    depth, start = 0, 0
    for at, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            yield text[start:at].strip()
            start = at + 1
    yield text[start:].strip()
