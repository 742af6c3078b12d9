"""Corrections of a failed attempt by the parameters that its error names: options, optional inputs, assertions."""

import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from musadata.mining.arguments.attempts import Attempt, Draw, integers
from musadata.mining.arguments.defaults import default_text
from musadata.mining.arguments.facts import Facts
from musadata.mining.arguments.guesses import guess_value
from musadata.mining.arguments.input_shapes import draw_input
from musadata.mining.reading.handed_names import handed_names
from musadata.mining.reading.messages import Said, type_of

# Where something is not given.
MISSING = ("AssertionError", "TypeError", "ValueError", "AttributeError", "NotImplementedError")
LENGTHS = ("64", "8")  # that code counts with
TENSOR = "torch.rand(24, 24)"
USUAL = (1, 2, 3, 4, 8, 5, 16)
MAX_OF_ASSERTION = 8  # values tried for one parameter
SIDES = (32, 64, 16, 8, 4, 2, 1)
INPUT = (5, 18, 24)


@dataclass(frozen=True)
class Parameters:
    """What the module's constructor and its `forward` take, and what its code says of that."""

    init: Sequence[inspect.Parameter]
    forward: Sequence[inspect.Parameter]
    facts: Facts
    source: str


def repair_named(attempt: Attempt, error: str, line: str, known: Parameters) -> Iterator[Attempt]:
    """Variants of a failed attempt in which a parameter that the error or its line names has another value.

    Args:
        error, line: see `musadata.mining.arguments.repairs.repair.repair`.
    """
    words = set(re.findall(r"\w+", f"{line} {error}"))
    if type_of(error) == "NotImplementedError":  # an option that the code has no branch for
        words |= known.facts.options.keys()
    if type_of(error) == "AssertionError":
        yield from _satisfy(attempt, line, known)
    if type_of(error) in MISSING or Said.NONE.read(error):
        handed = handed_names(known.source)
        others = {name for word in words for name in handed.get(word, ())}  # an inner call has names of its own
        lacking = Said.ATTRIBUTE.read(error)
        name = (lacking["name"] or "") if lacking and lacking["holder"] in ("NoneType", "list") else ""
        yield from _give_options(attempt, words | others, known, TENSOR if hasattr(torch.Tensor, name) else "")
        yield from _give_inputs(attempt, words, others, error, known)


def _satisfy(attempt: Attempt, line: str, known: Parameters) -> Iterator[Attempt]:
    """Other numbers for the parameters that a failed assertion compares; inputs one longer or shorter for a `%`."""
    words = re.findall(r"\w+", line)
    others = [int(text) for text in attempt.init if text.isdigit()]
    for place, (item, text) in enumerate(zip(known.init, attempt.init, strict=False)):
        if item.name in words:
            yield from (_with_init(attempt, place, other) for other in asserted_values(line, item.name, text, others))
    for number, draw in enumerate(attempt.draws):
        if re.search(r"shape|size|\b[HhWw]\b", line) and len(draw.shape) > 3:  # of an image, or of what is left of it
            for side in dict.fromkeys([draw.shape[-1], *SIDES]):
                square = replace(draw, shape=(*draw.shape[:2], *(side for _ in draw.shape[2:])))
                yield replace(attempt, draws=(*attempt.draws[:number], square, *attempt.draws[number + 1 :]))


def asserted_values(line: str, name: str, text: str, others: Sequence[int] = ()) -> list[str]:
    """Expressions that may satisfy an assertion on `name` in place of `text`, likeliest first."""
    if text in ("True", "False"):
        return [str(text == "False")]
    length = re.search(rf"len\([\w.]*\b{name}\) *== *(\d)", line)
    kind = re.search(rf"\b{name}\)? *(?:,|==|is) *(list|tuple)\b", line)
    items = [str(item) for item in integers(text)]
    if items and (length or kind):
        count = int(length[1]) if length else max(2, len(items))
        inside = ", ".join((items * count)[:count])
        wanted = f"[{inside}]" if kind and kind[1] == "list" else f"({inside},)" if count == 1 else f"({inside})"
        return [wanted] if wanted != text else []
    if not text.isdigit():
        return []
    stated = [int(found) for found in re.findall(r"(?<![\w.])\d+(?![\w.])", line)]
    near = [value for number in stated for value in (number, number + 1, number - 1, 2 * number, number * number)]
    values = dict.fromkeys([sum(stated), *near, *USUAL, *others])
    return [str(value) for value in values if value > 0 and str(value) != text][:MAX_OF_ASSERTION]


def _give_options(attempt: Attempt, words: set[str], known: Parameters, tensor: str) -> Iterator[Attempt]:
    """A value for an optional parameter of the constructor that is None or False by default.

    `tensor`: an expression for one where the code uses it so; else "".
    """
    for place, item in enumerate(known.init):
        is_open = item.default in (None, False) or (tensor and item.default == [])
        is_given = place < len(attempt.init) and attempt.init[place] != default_text(item.default)
        if item.name not in words or is_given or not is_open:
            continue
        between = [default_text(other.default) for other in known.init[len(attempt.init) : place]]
        if None not in between:
            value = "True" if item.default is False else tensor or guess_value(item, 0, known.facts)
            yield replace(attempt, init=(*attempt.init[:place], *map(str, between), value, *attempt.init[place + 1 :]))


def _give_inputs(
    attempt: Attempt, words: set[str], others: set[str], error: str, known: Parameters
) -> Iterator[Attempt]:
    """An input for an optional parameter of `forward`: shaped like another one, or a mask of its first dimensions.

    `others`: names under which an inner call was handed those of `words`; they come first.
    """
    shapes = [draw.shape for draw in attempt.draws if draw.shape] or [INPUT]
    pairs = [(*shape[:2], shape[1]) for shape in shapes[:1] if len(shape) == 3]  # a mask of each token's neighbours
    names = {item.name for item in known.forward}
    named = words | others
    if Said.NONE.read(error) and not named.intersection(names):
        named = names
    for place, item in sorted(enumerate(known.forward), key=lambda pair: pair[1].name not in others):
        is_given = place < len(attempt.draws) and attempt.draws[place].literal != "None"
        if item.name not in named or is_given or item.default is not None or item.kind > 1:
            continue
        between = [default_text(other.default) for other in known.forward[len(attempt.draws) : place]]
        if None not in between:
            filled = tuple(Draw("literal", literal=str(text), dtype="") for text in between)
            near = [*pairs, shapes[-1]] if "mask" in item.name else [shapes[-1]]
            is_counted = Said.NONE.read(error) and not Said.ATTRIBUTE.read(error)
            numbers = [Draw("literal", literal=text, dtype="") for text in LENGTHS] if is_counted else []
            own = dict.fromkeys([*near, shapes[0][:2], shapes[0][:1]])
            for drawn in (*(draw_input(item.name, shape, known.source) for shape in own), *numbers):
                draws = (*attempt.draws, *filled)
                yield replace(attempt, draws=(*draws[:place], drawn, *draws[place + 1 :]))


def _with_init(attempt: Attempt, place: int, text: str) -> Attempt:
    return replace(attempt, init=(*attempt.init[:place], text, *attempt.init[place + 1 :]))
