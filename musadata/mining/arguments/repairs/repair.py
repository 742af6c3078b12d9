"""Corrections of a failed attempt: the error message usually names both the actual and the expected size."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import nn

from musadata.mining.arguments.attempts import Attempt, Draw, configuration, fields_of, integers, shrunk, with_draw
from musadata.mining.arguments.guesses import ACTIVATIONS, guess_by_name, guess_config
from musadata.mining.arguments.head_sizes import fit_exactly
from musadata.mining.arguments.repairs.flattening import repair_flattened
from musadata.mining.arguments.repairs.guards import repair_guarded
from musadata.mining.arguments.repairs.kinds import as_list, as_tuple, repair_kinds
from musadata.mining.arguments.repairs.layers import repair_derived, repair_layers
from musadata.mining.arguments.repairs.parameters import Parameters, asserted_values, repair_named
from musadata.mining.arguments.repairs.ranks import JOINED, RANK, UNPACK, change_rank, is_of_rank, unpack
from musadata.mining.arguments.stated_sizes import LARGEST, resize

WANTS_INTEGERS = re.compile(
    r"Long|indices|torch\.int64|must be (a )?integer|tensors used as indices|int tensor|one_hot|Class values must be"
    r"|dtype int32(/| or )int64",
    re.I,
)
WANTS_FLOATS = re.compile(r"not implemented for 'Long'|expected.*Float|must be floating|can only be .*floating", re.I)
AXIS_REFUSED = re.compile(r"Dimension out of range \(expected to be in range of \[-?\d+, -?\d+\], but got (\d{2,})\)")
WANTS_SHARES = re.compile(
    r"between 0 and 1|index out of range in self|input value should be|must be (>=? ?0|positive)|non-?negative"
    r"|values <0|>= 0 && \w+ <= 1",
    re.I,
)
SHARES = re.compile(r"0\.\d+|\((0\.\d+,? ?)+\)")
ABSENT_FIELD = re.compile(r"SimpleNamespace' object has no attribute '(\w+)'")
ABSENT_KEY = re.compile(r"^KeyError: '(\w+)'")
DIVIDE = re.compile(r"divisible|invalid for input of size|must be a multiple|%")
NOT_A_SEQUENCE = re.compile(
    r"not iterable|not subscriptable|has no len|cannot unpack|must be (a )?(tuple|list|Iterable)(?! of ints)"
    r"|called with an iterable"
)
TYPES = re.compile(r"supported between instances|os\.PathLike|\): argument '|for argument #")  # are what these list
OPTIONS = re.compile(
    r"(?:one of|options|supported|choose from|either|should be|must be|valid|expected|available)\b(.{3,200})",
    re.I | re.DOTALL,
)
ABSENT = re.compile(r"'(?:int|float|bool|tuple)' object has no attribute '(\w+)'")
LACKING = re.compile(r"'(?:int|float|str|bool|tuple|NoneType|Identity)' object has no attribute '(\w+)'")
ASSIGNED = re.compile(r"cannot assign '(?:int|float|bool|tuple)' object to (?:buffer|parameter)")
TARGET = re.compile(r"Expected target size (?:torch\.Size\()?\[[\d, ]+\]\)?, got (?:torch\.Size\()?\[([\d, ]+)\]")
OF_ROWS = re.compile(r"0D or 1D target tensor expected|1D target tensor expects 2D input")
WANTS_CLASSES = re.compile(r"class probabilities, got Long|ignore_index is not supported for floating point target")
# A sum with a shortcut, whose channels or features differ.
SHORTCUT = re.compile(
    r"of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton dimension [12]"
)
WHOLE_WANTED = re.compile(r"integer|'int'|tuple of ints|int,|type\(s\) for (?:&|\||<<|>>)")
OVERFLOWS = re.compile(r"can't allocate memory|too many activations")
SMALLER = (12, 6, 3)  # sizes of a module whose activations are too large
ROWS = 18  # of features, each with a target
COUNTS = (1, 3, 4, 5, 8, 16, 32)  # of items in a sequence
IMAGE_SIDE = 32
ITEMS_TAKEN = re.compile(r"\bfor (\w+(?:, \w+)+) in\b")
CLASS_GIVEN = re.compile(r"must be Tensor, not (\w+)")  # where a layer was made of what should have called it
MODULES_WANTED = re.compile(r"is not a Module subclass|ModuleList.extend should be called")
MODULE_WANTED = re.compile(r"not callable|is not a Module subclass|has no attribute")


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
    is_of_operands = operands and JOINED not in error
    yield from sorted(found, key=lambda other: _changes_others(attempt, other, operands)) if is_of_operands else found


def _changes_others(attempt: Attempt, other: Attempt, operands: Sequence[int]) -> bool:
    """Whether a variant changes inputs, but none of the operands."""
    if other.init != attempt.init or len(other.draws) != len(attempt.draws):
        return False
    return all(other.draws[number] == attempt.draws[number] for number in operands)


def _variants(attempt: Attempt, error: str, line: str, known: Parameters, operands: Sequence[int]) -> Iterator[Attempt]:
    yield from fit_exactly(attempt, error)
    yield from _whole_channels(attempt, error)
    yield from repair_flattened(attempt, error)
    yield from repair_derived(attempt, error, known)
    yield from _choose_stated(attempt, error)
    yield from _give_classes(attempt, error)
    yield from _give_axis(attempt, error)
    yield from repair_kinds(attempt, error, line, known)
    yield from _give_attributes(attempt, error, known)
    if "input too large" in error:
        yield from _smaller(attempt)
    if OVERFLOWS.search(error):
        yield from (shrunk(attempt, ceiling) for ceiling in SMALLER)
    yield from repair_guarded(attempt, error, line, known)
    yield from repair_named(attempt, error, line, known, operands)
    if not operands:
        yield from repair_layers(attempt, error, line, known)
    words = set(re.findall(r"\w+", line))
    named = [place for place, item in enumerate(known.forward[: len(attempt.draws)]) if item.name in words]
    ranked = change_rank(attempt, f"{error} {line}" if "Assert" in error else error, line, [*operands, *named])
    if UNPACK.search(error):  # its numbers are no sizes
        yield from unpack(attempt, error, line, operands or named)
    else:
        if is_of_rank(error):
            yield from ranked
        shortcut = SHORTCUT.search(error)
        if shortcut:
            yield from _alike(attempt, int(shortcut[1]), int(shortcut[2]))
        yield from resize(attempt, error, line)
        if operands:
            yield from repair_layers(attempt, error, line, known)
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


def _whole_channels(attempt: Attempt, error: str) -> Iterator[Attempt]:
    """A whole number in place of a share, by whose name nobody could tell that a convolution's channels follow it."""
    for place, text in enumerate(attempt.init) if "channels must be divisible by groups" in error else ():
        for other in _whole(text):
            yield replace(attempt, init=(*attempt.init[:place], other, *attempt.init[place + 1 :]))


def _whole(text: str) -> Iterator[str]:
    """A width for a share, scales of an image for several, and a configuration with one of these: several first."""
    if SHARES.fullmatch(text):
        yield re.sub(r"0\.\d+", "2", text) if text.startswith("(") else "24"
    fields = fields_of(text)
    for name in sorted(fields, key=lambda name: not fields[name].startswith("(")):
        yield from (configuration(text, {**fields, name: other}) for other in _whole(fields[name]))


def _choose_stated(attempt: Attempt, error: str) -> Iterator[Attempt]:
    """One of the options that a message lists, in place of a string of the constructor that it calls none of them."""
    for number, text in enumerate(attempt.init):
        if text.startswith("'") and re.search(rf"\b{re.escape(text[1:-1])}\b", error):
            for option in _stated_options(error):
                if repr(option) != text:
                    yield replace(attempt, init=(*attempt.init[:number], repr(option), *attempt.init[number + 1 :]))


def _give_attributes(attempt: Attempt, error: str, known: Parameters) -> Iterator[Attempt]:
    """An object with all attributes that the code reads, in place of an argument that lacks one of them."""
    lacking = LACKING.search(error)
    for place, item in enumerate(known.init[: len(attempt.init)]):
        if lacking and lacking[1] in known.facts.reads(item.name):
            config = guess_config(item.name, known.facts, 0, sure=True)
            if config:
                yield replace(attempt, init=(*attempt.init[:place], config, *attempt.init[place + 1 :]))


def _give_classes(attempt: Attempt, error: str) -> Iterator[Attempt]:
    """The number of the right class for each item, in place of a target that is shaped like the scores."""
    if OF_ROWS.search(error):
        yield from _give_rows(attempt, error)
    stated = TARGET.search(error)
    if stated is None and not WANTS_CLASSES.search(error):
        return
    for number, draw in reversed(list(enumerate(attempt.draws[1:], 1))):
        got = tuple(map(int, re.findall(r"\d+", stated[1]))) if stated else draw.shape
        if draw.shape == got and len(got) > 1:
            yield with_draw(attempt, number, Draw("randint", (got[0], *got[2:]), got[1], "int64"))


def _give_rows(attempt: Attempt, error: str) -> Iterator[Attempt]:
    """Rows of features with the class of each, or with whether two of them are alike, the last input first."""
    width = next((draw.shape[-1] for draw in attempt.draws if draw.shape), 1)
    draws = tuple(replace(draw, shape=(ROWS, draw.shape[-1])) if draw.shape else draw for draw in attempt.draws)
    targets = (Draw("sign", (ROWS,)), Draw("randint", (ROWS,), width, "int64"))
    for number in range(len(draws) - 1, 0, -1):
        for target in targets[:: 1 if "multi-target" not in error or len(draws) > 2 else -1]:
            yield replace(attempt, draws=(*draws[:number], target, *draws[number + 1 :]))


def _give_axis(attempt: Attempt, error: str) -> Iterator[Attempt]:
    """The number of an axis, in place of a width."""
    refused = AXIS_REFUSED.search(error)
    for place, text in enumerate(attempt.init):
        if refused and text == refused[1]:
            for axis in ("1", "-1"):
                yield replace(attempt, init=(*attempt.init[:place], axis, *attempt.init[place + 1 :]))


def _smaller(attempt: Attempt) -> Iterator[Attempt]:
    """Smaller batches, and then smaller images, where an input has too many elements."""
    batch = attempt.draws[0].shape[0] if attempt.draws and attempt.draws[0].shape else 1
    draws = tuple(
        replace(draw, shape=(1, *draw.shape[1:])) if len(draw.shape) > 1 and draw.shape[0] == batch else draw
        for draw in attempt.draws
    )
    if batch > 1:
        yield replace(attempt, draws=draws)
    halved = tuple(
        replace(draw, shape=(*draw.shape[:2], *(max(1, size // 2) for size in draw.shape[2:]))) for draw in draws
    )
    if halved != draws:
        yield replace(attempt, draws=halved)


def _other_values(text: str, error: str, line: str) -> Iterator[str]:
    """Another value, or a configuration with another one; fields that the failing line names come first."""
    fields = fields_of(text)
    if not fields:
        yield from _other_expressions(text, error, line)
        return
    absent = re.search(ABSENT_FIELD if text.startswith("S") else ABSENT_KEY, error)
    if absent and absent[1] not in fields:
        yield configuration(text, {**fields, absent[1]: guess_by_name(absent[1])})
    words = set(re.findall(r"\w+", f"{line} {error}"))
    indexed = re.findall(r"(\w+)\[", line)
    for name in sorted(fields, key=lambda name: name not in words and not any(word in name for word in indexed)):
        asserted = error.startswith("AssertionError") and name in words
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


def _alike(attempt: Attempt, *sizes: int) -> Iterator[Attempt]:
    """One argument of the constructor, and the inputs of the same size, changed to the other size of a sum."""
    values = attempt.values()
    for old, new in (sizes[::-1], sizes):
        for slot in range(attempt.init_count()):
            if values[slot] == old and new <= LARGEST:
                changed = attempt.with_values((*values[:slot], new, *values[slot + 1 :]))
                shapes = [tuple(new if size == old else size for size in draw.shape) for draw in changed.draws]
                pairs = zip(changed.draws, shapes, strict=True)
                yield replace(changed, draws=tuple(replace(draw, shape=shape) for draw, shape in pairs))


def _change_dtype(attempt: Attempt, error: str) -> Iterator[Attempt]:
    if "out of range in self" in error:  # of a table whose rows numbers are cut to
        for number, draw in enumerate(attempt.draws):
            if draw.kind in ("randn", "rand"):
                yield from (with_draw(attempt, number, Draw("randint", draw.shape, high, "int64")) for high in (4, 2))
    if WANTS_SHARES.search(error):  # a small share is index 0 as well, if it is cut to a whole number
        yield replace(attempt, draws=tuple(_share(draw) for draw in attempt.draws))
    if WANTS_INTEGERS.search(error) and "embedding" in error:
        yield from _tokens(attempt)
    for number, draw in enumerate(attempt.draws):
        if WANTS_INTEGERS.search(error) and draw.kind in ("randn", "rand"):
            yield with_draw(attempt, number, Draw("randint", draw.shape, 8, "int64"))
        if WANTS_FLOATS.search(error) and draw.kind == "randint":
            yield with_draw(attempt, number, Draw("randn", draw.shape))
        if "out of range" in error and draw.kind == "randint" and draw.high > 2:
            yield with_draw(attempt, number, replace(draw, high=2))
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
    if MODULES_WANTED.search(error) and text[:1] in "([0123456789":
        yield "[nn.Linear(24, 24), nn.ReLU()]"
    made = CLASS_GIVEN.search(error)
    if made and re.search(rf"nn\.{made[1]}\b(?!\()", text):
        yield re.sub(rf"nn\.{made[1]}\b(?!\()", f"nn.{made[1]}()", text)
    if not text.startswith(("nn.", "SimpleNamespace")):
        yield from (repr(found) for found in _stated_options(error) if repr(found) != text)
    if _wants_tensor(error) and re.match(r"[\dTF(]", text):
        size = max([24, *integers(text)])
        tables = (f"torch.rand({size}, {size})", f"torch.rand({size})")
        yield from tables[::-1] if "unsqueeze" in error else tables
    elif text.isdigit():
        yield from _other_numbers(text, error)
    elif text.startswith("torch."):
        if re.search(r"\bTensor\b", error):
            yield "24"
        if RANK.search(error):
            yield from (other for other in ("torch.rand(24, 24)", "torch.rand(24)") if other != text)
    elif text.startswith("("):
        yield from _other_tuples(text, error, line)
    elif text.startswith("["):
        yield from (as_list(other) for other in _other_tuples(as_tuple(text), error, line) if other.startswith("("))
    elif text.startswith("nn."):
        yield from _other_modules(text, error)
    elif text == "None":
        yield from ("24",) if "NoneType" in error else ()
        yield from ("torch.rand(24, 24)",) if "NoneType" in error or "'weight' must be" in error else ()
    elif text.startswith("'"):
        yield from _other_strings(text, error)
    elif re.fullmatch(r"\d*\.\d+", text):
        if NOT_A_SEQUENCE.search(error) or "float' has no len" in error:
            yield f"({text}, {text})"
        if "float" in error and WHOLE_WANTED.search(error):
            yield "2"
            yield "1"


def _other_tuples(text: str, error: str, line: str) -> Iterator[str]:
    """What may be wanted in place of a tuple of numbers."""
    items = integers(text)
    if NOT_A_SEQUENCE.search(error) and items and not text.startswith("(("):  # of what a loop takes from it
        taken = ITEMS_TAKEN.search(line)
        steps = (1, 3, 5) if items[0] == 1 else (items[0],) * (len(taken[1].split(",")) if taken else 3)
        yield f"({f'{steps}, ' * len(items)})"
    if "float" in error and re.search(r"\d\.", text):
        yield re.sub(r"\d*\.\d+", "2", text)
    wants_int = "int" in error and ("tuple" in error or "list" in error)
    if wants_int or "'tuple' and" in error or "single integer value" in error:
        yield str(items[0]) if items else "1"
    if len(items) > 1 and re.search(r"expected 4D|or 4D \(batched\)", error):  # the shape of an image that is tried out
        yield f"(1, {items[0]}, {max(items[-1], IMAGE_SIDE)}, {max(items[-1], IMAGE_SIDE)})"
    if re.search(r"unpack|index out of range|items|length|\(unbatched\)", error):
        item = text.strip("()").split(",")[0]
        yield from (f"({f'{item}, ' * count})" for count in COUNTS if text.count(",") != count)


def _other_modules(text: str, error: str) -> Iterator[str]:
    """What may be wanted in place of a module, or of its class."""
    if text == "nn.LayerNorm" and "normalized_shape" in error:  # of images
        yield "nn.BatchNorm2d"
    bare = text.split("(")[0]
    if text == bare and re.search(rf"(not |got \(){bare.removeprefix('nn.')}\b", error):  # which was called
        yield f"F.{bare.removeprefix('nn.').lower()}"
        yield f"{bare}()"
    if "unexpected keyword" in error or "positional argument" in error:
        yield "nn.Identity"
        yield "nn.ReLU"
        yield f"{bare}()" if "Linear" not in bare else "nn.Identity()"
    if MODULE_WANTED.search(error):
        yield from (f"{bare}()",) if text == bare and bare in ACTIVATIONS else ()
        yield "nn.Identity()"
    if "unsupported operand" in error and re.search(rf"'{bare.removeprefix('nn.')}'|'type'", error):  # a number
        yield "24"


def _other_strings(text: str, error: str) -> Iterator[str]:
    """What may be wanted in place of a string."""
    if not error.startswith(("RuntimeError", "AttributeError")):  # which name operators and classes
        yield from (repr(found) for found in re.findall(r"'([\w-]+)'", error)[:6] if repr(found) != text)
    if "'str' object is not callable" in error:
        yield from ("nn.GELU", "nn.GELU()")
    if "str" in error:
        yield "24"


def _other_numbers(text: str, error: str) -> Iterator[str]:
    """What may be wanted in place of a whole number."""
    if f"{text} is not a valid value for reduction" in error:
        yield from ("'mean'", "'none'")
    if "must be bool" in error:
        yield from ("False", "True")
    if NOT_A_SEQUENCE.search(error):
        yield f"({text}, {text})"
        yield f"({text}, {text}, {text})"
    if DIVIDE.search(error):
        yield from (str(int(text) * 2), "24", "48", "64", "1") if int(text) else ("1",)
    if MODULE_WANTED.search(error):
        yield "nn.Identity()"
        yield "nn.ReLU"
    if "NoneType" in error or "must be Tensor, not int" in error:
        yield "None"


def _wants_tensor(error: str) -> bool:
    """Whether a message says that a plain value is used as tensors are used, and modules are not."""
    found = ABSENT.search(error)
    name = found[1] if found else ""
    of_tensors = hasattr(torch.Tensor, name) and (not hasattr(nn.Module, name) or name in ("to", "float"))
    return of_tensors or ASSIGNED.search(error) is not None


def _stated_options(error: str) -> list[str]:
    """The values that a message lists: "must be one of ['add', 'cat']", "should be sum/mean/none"."""
    listed = OPTIONS.search(error)
    if listed is None or TYPES.search(error):
        return []
    quoted = re.findall(r"['\"`]([\w.-]+)['\"`]", listed[1])
    plain = re.findall(r"[A-Za-z]\w*(?=\s*[/|,])|(?<=[/|])\s*[A-Za-z]\w*", listed[1])
    return [item.strip() for item in (quoted or plain)][:6]
