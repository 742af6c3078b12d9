"""Corrections of a failed attempt: the error message usually names both the actual and the expected size."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from torch import nn

from musadata.mining.arguments.attempts import Attempt, Draw, configuration, fields_of, integers, shrunk, with_draw
from musadata.mining.arguments.facts import LAYERS
from musadata.mining.arguments.growth import TooLarge
from musadata.mining.arguments.guesses import ACTIVATIONS, guess_by_name
from musadata.mining.arguments.repairs.parameters import Parameters, asserted_values, repair_named
from musadata.mining.arguments.repairs.ranks import change_rank, is_of_rank
from musadata.mining.arguments.stated_sizes import LARGEST, resize
from musadata.mining.reading.messages import Said, type_of

OF_KINDS = ("TypeError", "AttributeError")  # of errors that are about the kind of a value
SMALLER = (12, 6, 3)  # sizes of a module whose activations are too large
COUNTS = (1, 3, 4, 5, 8, 16, 32)  # of items in a sequence
ITEMS_TAKEN = re.compile(r"\bfor (\w+(?:, \w+)+) in\b")


def repair(
    attempt: Attempt, error: str, line: str, known: Parameters, operands: Sequence[int] = ()
) -> Iterator[Attempt]:
    """Variants of a failed attempt that its error message suggests, likeliest first.

    Args:
        error: type and message of the exception.
        line: the text of the reference that raised it, "" if unknown.
        known: the parameters of the module.
        operands: the inputs that this text reads; variants that change none of them come last.
    """
    found = _variants(attempt, error, line, known, operands)
    is_of_operands = operands and not Said.RANKS.read(error)
    yield from sorted(found, key=lambda other: _changes_others(attempt, other, operands)) if is_of_operands else found


def _changes_others(attempt: Attempt, other: Attempt, operands: Sequence[int]) -> bool:
    """Whether a variant changes inputs, but none of the operands."""
    if other.init != attempt.init or len(other.draws) != len(attempt.draws):
        return False
    return all(other.draws[number] == attempt.draws[number] for number in operands)


def _variants(attempt: Attempt, error: str, line: str, known: Parameters, operands: Sequence[int]) -> Iterator[Attempt]:
    if type_of(error) == TooLarge.__name__ or Said.LARGE.read(error):
        yield from (shrunk(attempt, ceiling) for ceiling in SMALLER)
    yield from repair_named(attempt, error, line, known)
    lacking = Said.REQUIRED.read(error) if not known.init and not attempt.init else None  # of a layer that gets `*args`
    if lacking:
        yield replace(attempt, init=tuple(guess_by_name(name) for name in re.findall(r"'(\w+)'", lacking[0])))
    words = set(re.findall(r"\w+", line))
    named = [place for place, item in enumerate(known.forward[: len(attempt.draws)]) if item.name in words]
    ranked = change_rank(attempt, f"{error} {line}" if "Assert" in error else error, line, [*operands, *named])
    if not Said.UNPACK.read(error):  # its numbers are no sizes
        if is_of_rank(error):
            yield from ranked
        yield from resize(attempt, error)
        yield from _match_sizes(attempt, error)
    yield from ranked
    yield from _change_dtype(attempt, error)
    names = [item.name for item in known.init]
    indexed = re.findall(r"(\w+)\[", line)

    def is_far(
        place: int,
    ) -> tuple[bool, bool]:  # from the failing line; configurations have fields like what it indexes
        is_named = place >= len(names) or names[place] in words
        is_indexed = place < len(names) and names[place] in indexed
        return not is_named, not (is_indexed or any(word in attempt.init[place] for word in indexed))

    read = sorted(range(len(attempt.init)), key=is_far)
    for number in read:
        for other in dict.fromkeys(_other_values(attempt.init[number], error, line)):
            yield replace(attempt, init=(*attempt.init[:number], other, *attempt.init[number + 1 :]))


def _other_values(text: str, error: str, line: str) -> Iterator[str]:
    """Another value, or a configuration with another one; fields that the failing line names come first."""
    fields = fields_of(text)
    if not fields:
        yield from _other_expressions(text, error, line)
        return
    lacking = Said.ATTRIBUTE.read(error)
    of_object = lacking["name"] if lacking and lacking["holder"] == "SimpleNamespace" else ""
    absent = of_object if text.startswith("S") else error.split("'")[1] if error.startswith("KeyError: '") else ""
    if absent and absent not in fields:
        yield configuration(text, {**fields, absent: guess_by_name(absent)})
    words = set(re.findall(r"\w+", f"{line} {error}"))
    indexed = re.findall(r"(\w+)\[", line)
    for name in sorted(fields, key=lambda name: name not in words and not any(word in name for word in indexed)):
        asserted = type_of(error) == "AssertionError" and name in words
        stated = list(asserted_values(line, name, fields[name])) if asserted else []
        for other in stated or _other_values(fields[name], error, line):
            yield configuration(text, {**fields, name: other})


def _match_sizes(attempt: Attempt, error: str) -> Iterator[Attempt]:
    """Replace one size in the message by another size in the message: in inputs first, then in the constructor."""
    spaced = re.sub(r"(?<=\d)x(?=\d)", " x ", error)  # the numbers of "(4x24 and 36x24)"
    numbers = list(dict.fromkeys(int(text) for text in re.findall(r"(?<![\w.])\d+(?![\w.]*\d*\.)", spaced)))
    values = attempt.values()
    first_input = attempt.init_count()
    order = [*range(first_input, len(values)), *range(first_input)]
    for slot in order:
        if values[slot] not in numbers:
            continue
        for number in numbers:
            if number != values[slot] and 2 <= number <= LARGEST and (slot >= first_input or number > 4):
                yield attempt.with_values((*values[:slot], number, *values[slot + 1 :]))


def _change_dtype(attempt: Attempt, error: str) -> Iterator[Attempt]:
    wants_integers, is_range = Said.INTEGERS.read(error), "out of range" in error
    if Said.SHARES.read(error):  # a small share is index 0 as well, if it is cut to a whole number
        for number, draw in enumerate(attempt.draws):
            if is_range and draw.kind in ("randn", "rand"):
                yield from (with_draw(attempt, number, Draw("randint", draw.shape, high, "int64")) for high in (4, 2))
            if is_range and draw.kind == "randint" and draw.high > 2:
                yield with_draw(attempt, number, replace(draw, high=2))
        yield replace(attempt, draws=tuple(_share(draw) for draw in attempt.draws))
    if wants_integers and "embedding" in error:
        yield from _tokens(attempt)
    for number, draw in enumerate(attempt.draws):
        if wants_integers and draw.kind in ("randn", "rand"):
            yield with_draw(attempt, number, Draw("randint", draw.shape, 8, "int64"))
        if Said.FLOATS.read(error) and draw.kind == "randint":
            yield with_draw(attempt, number, Draw("randn", draw.shape))
        if "bool" in error.lower() and draw.kind != "bool":
            yield with_draw(attempt, number, Draw("bool", draw.shape, dtype="bool"))


def _tokens(attempt: Attempt) -> Iterator[Attempt]:
    """Inputs as a batch of sequences of tokens, which an embedding mostly gets: one of them, then all."""
    floats = {number: draw for number, draw in enumerate(attempt.draws) if draw.kind in ("randn", "rand")}
    tokens = {number: Draw("randint", draw.shape[:2], 8, "int64") for number, draw in floats.items()}
    for number, draw in floats.items():
        if len(draw.shape) > 1:
            yield with_draw(attempt, number, tokens[number])
    if len(floats) > 1:
        yield replace(attempt, draws=tuple(tokens.get(number, draw) for number, draw in enumerate(attempt.draws)))


def _share(draw: Draw) -> Draw:
    """Numbers from 0 to 1 in place of normal ones."""
    return replace(draw, kind="rand") if draw.kind == "randn" else draw


def _other_expressions(text: str, error: str, line: str) -> Iterator[str]:
    """What may be wanted in place of an argument, by what it is now."""
    if text.isdigit():
        yield from _other_numbers(text, error)
    elif text.startswith("("):
        yield from _other_tuples(text, error, line)
    elif text.startswith("["):
        yield from (f"[{other[1:-1].strip().removesuffix(',')}]" for other in _other_tuples(text, error, line))
    elif text.startswith("nn."):
        if type_of(error) in OF_KINDS:
            lacking = Said.ATTRIBUTE.read(error)
            name = lacking["name"] if lacking else None
            yield from (f"{text}()",) if text in ACTIVATIONS else ()
            yield from (
                layer for layer in LAYERS.values() if name and layer != text and hasattr(eval(layer, {"nn": nn}), name)
            )
            yield "nn.Identity()"
    elif text.startswith("'"):
        if type_of(error) not in ("RuntimeError", "AttributeError"):  # which name operators and classes
            yield from (repr(found) for found in re.findall(r"'([\w-]+)'", error)[:6] if repr(found) != text)
    elif re.fullmatch(r"\d*\.\d+", text) and Said.SEQUENCE.read(error):
        yield f"({text}, {text})"


def _other_tuples(text: str, error: str, line: str) -> Iterator[str]:
    """What may be wanted in place of a sequence of numbers."""
    items = integers(text)
    if Said.SEQUENCE.read(error) and items and not text.startswith(("((", "[(")):  # of what a loop takes from it
        taken = ITEMS_TAKEN.search(line)
        steps = (1, 3, 5) if items[0] == 1 else (items[0],) * (len(taken[1].split(",")) if taken else 3)
        yield f"({f'{steps}, ' * len(items)})"
    if text.startswith("(") and type_of(error) in (*OF_KINDS, "RuntimeError"):
        yield str(items[0]) if items else "1"
    if type_of(error) in ("IndexError", "ValueError", "AssertionError", "RuntimeError"):
        inner = getattr(ast.parse(text, mode="eval").body, "elts", ())
        yield from (f"({f'{ast.unparse(inner[0])}, ' * count})" for count in COUNTS if inner and len(inner) != count)


def _other_numbers(text: str, error: str) -> Iterator[str]:
    """What may be wanted in place of a whole number."""
    if Said.SEQUENCE.read(error):
        yield f"({text}, {text})"
        yield f"({text}, {text}, {text})"
    if Said.DIVIDES.read(error):
        yield from (str(int(text) * 2), "24", "48", "64", "1") if int(text) else ("1",)
    if type_of(error) in OF_KINDS:
        yield "nn.Identity()"
        yield "nn.ReLU"
        yield "None"
