"""Choosing sizes that make a good task: modest, mutually distinct, not all powers of two.

A working attempt does not say which of its sizes depend on each other. So sizes are changed group by group, and a
change is kept only if the module still runs.
"""

import hashlib
import math
import re
from collections.abc import Iterator
from dataclasses import replace

from musadata.mining.arguments.accidental_sizes import separate, without_accidents
from musadata.mining.arguments.attempt_execution import AttemptRunner
from musadata.mining.arguments.attempts import Attempt, with_draw
from musadata.mining.arguments.guesses import ACTIVATIONS, guess_by_name

MAX_ELEMENTS = 1 << 16  # inputs and outputs together
MAX_PARAMETERS = 1 << 20
MIN_ELEMENTS = 1 << 10
MAX_OPERATIONS = 3_000_000  # multiply-adds, of a few rows
MAX_OF_WIDTHS = 8_000_000  # of the fewest rows
MODEL_WIDTH = 64  # of the constructor's: those from here on are not only a test's
MIN_SIDE = 6  # of an image that is shrunk: of a smaller one a convolution sees little but its padding
POSITIVE_NAMES = re.compile(r"target|label|prob|var|mask|weight|std|sigma|rate|scale")
GUESSED = frozenset({24, 36})  # widths in `musadata.mining.arguments.guesses`
Sizes = dict[int, tuple[tuple[int, ...], ...]]
# By rank, then by dimension: sizes to choose from.
TARGETS: Sizes = {
    1: ((1500, 2100, 1800, 2500),),
    2: ((24, 40, 18, 30, 52), (160, 136, 192, 144, 176)),
    3: ((4, 6, 5, 7), (40, 24, 48, 56, 32), (96, 112, 80, 128, 72)),
    4: ((3, 4, 2, 5), (8, 12, 6, 16, 10), (16, 20, 24, 28), (24, 32, 20, 28)),
    5: ((2, 3), (4, 6, 8), (8, 10, 6), (10, 12, 8), (16, 14, 12)),
}
# Of dimensions that the constructor's arguments name as well: features and channels as published models have them.
FEATURES, CHANNELS = (256, 384, 320, 512), (64, 48, 96, 80)
WIDTHS: Sizes = {
    1: (FEATURES,),
    2: (TARGETS[2][0], FEATURES),
    3: (TARGETS[3][0], FEATURES, FEATURES),
    4: (TARGETS[4][0], CHANNELS, TARGETS[4][2], FEATURES),
    5: (TARGETS[5][0], (32, 48, 24), *TARGETS[5][2:]),
}


def improve_sizes(runner: AttemptRunner, attempt: Attempt, parameters: list[str], salt: str, unit: int = 1) -> Attempt:
    """A working attempt with better sizes: widths of published models, and few rows.

    Args:
        parameters: the names of the inputs.
        unit: no multiple of it becomes smaller than it; bottlenecks divide widths.
    """
    attempt = _promote(runner, _finite(runner, _both_signs(runner, attempt, parameters)))
    attempt = _retarget(runner, separate(runner, attempt, alone=True), salt, unit)
    return _limit(runner, without_accidents(runner, attempt), unit)


def fill_identities(runner: AttemptRunner, attempt: Attempt, parameters: list[str]) -> Attempt:
    """The attempt with a layer that computes in place of each `nn.Identity()` that was guessed for a block.

    `parameters`: the names of the constructor's arguments. One that is called an activation becomes one.
    """
    shape = next((draw.shape for draw in attempt.draws if len(draw.shape) > 1), ())
    layers = [f"nn.Linear({shape[-1]}, {shape[-1]})"] if shape else []
    layers += [f"nn.Conv2d({shape[1]}, {shape[1]}, 3, padding=1)"] if len(shape) == 4 else []
    for place, (name, text) in enumerate(zip(parameters, attempt.init, strict=False)):
        others = () if guess_by_name(name) in ACTIVATIONS else layers
        for layer in (*others, "nn.GELU()") if text == "nn.Identity()" else ():
            trial = replace(attempt, init=(*attempt.init[:place], layer, *attempt.init[place + 1 :]))
            if runner.works(trial):
                attempt = trial
                break
    return attempt


def _both_signs(runner: AttemptRunner, attempt: Attempt, parameters: list[str]) -> Attempt:
    """Use inputs of both signs unless their names suggest probabilities: positive inputs hide sign errors."""
    for number, draw in enumerate(attempt.draws):
        name = parameters[number] if number < len(parameters) else ""
        if draw.kind == "rand" and not POSITIVE_NAMES.search(name):
            trial = with_draw(attempt, number, replace(draw, kind="randn"))
            if runner.works(trial) and runner.attempt(trial).finite:
                attempt = trial
    return attempt


def _finite(runner: AttemptRunner, attempt: Attempt) -> Attempt:
    """Use shares in place of normal numbers if results are not finite otherwise: of logarithms, roots and inverses."""
    for number, draw in enumerate(attempt.draws):
        trial = with_draw(attempt, number, replace(draw, kind="rand"))
        if draw.kind == "randn" and not runner.attempt(attempt).finite and runner.works(trial):
            attempt = trial
    return attempt


def _promote(runner: AttemptRunner, attempt: Attempt) -> Attempt:
    """Use matrices instead of vectors if the module accepts both: vectors hide a wrong axis."""
    if any(len(draw.shape) != 1 for draw in attempt.draws):
        return attempt
    wider = replace(attempt, draws=tuple(replace(draw, shape=(24, *draw.shape)) for draw in attempt.draws))
    return wider if runner.works(wider) else attempt


def _retarget(runner: AttemptRunner, attempt: Attempt, salt: str, unit: int) -> Attempt:
    """Give each group of equal sizes a new size of its own."""
    for group in _groups(attempt):
        values = attempt.values()
        if min(group) < attempt.init_count() and values[group[0]] >= MODEL_WIDTH:  # as the repository has it
            continue
        for trial in _trials(attempt, group, salt):
            if unit > 1 and values[group[0]] % unit == 0 and trial[group[0]] % unit:
                continue
            if trial == values or runner.works(attempt.with_values(trial)):
                attempt = attempt.with_values(trial)
                break
    return attempt


def _groups(attempt: Attempt) -> list[list[int]]:
    """Groups of slots of equal value: of each size of the inputs, in their order, and of each width that is a guess."""
    values, first_input = attempt.values(), attempt.init_count()
    groups: dict[int, list[int]] = {}
    for slot in [*range(first_input, len(values)), *range(first_input)]:
        if slot >= first_input or values[slot] in groups:
            groups.setdefault(values[slot], []).append(slot)
    alone = [[slot] for slot in groups.pop(1, []) if slot >= first_input]
    groups.pop(0, None)  # no multiple of it is another size
    hidden = [[slot for slot in range(first_input) if values[slot] == width] for width in GUESSED - groups.keys()]
    return [*groups.values(), *alone, *filter(None, hidden)]


def _trials(attempt: Attempt, group: list[int], salt: str) -> Iterator[tuple[int, ...]]:
    values, first_input = attempt.values(), attempt.init_count()
    old = values[group[0]]
    inputs = [slot for slot in group if slot >= first_input]
    if not inputs:
        is_image = any(len(draw.shape) > 3 for draw in attempt.draws)
        sizes = [size for size in (CHANNELS if is_image else FEATURES) if size not in values]
        yield from (tuple(size if slot in group else value for slot, value in enumerate(values)) for size in sizes[:2])
        return
    # A small number in the constructor is more likely a count or a kernel size than a width of equal value.
    sets = [inputs] if old <= 4 else [group, inputs]
    for slots in [item for number, item in enumerate(sets) if item and item not in sets[:number]]:
        is_width = min(slots) < first_input
        target = _target(attempt, inputs[0], salt, WIDTHS if is_width else TARGETS)
        multiples = [max(1, round(target / old)) * old, old * old]
        for size in dict.fromkeys([target, *multiples]):
            if size != old and size <= 4 * target:
                yield tuple(size if slot in slots else value for slot, value in enumerate(values))


def _target(attempt: Attempt, slot: int, salt: str, sizes: Sizes) -> int:
    """A size for the input dimension in this slot, by rank and position, that no other slot has."""
    start = attempt.init_count()
    values = attempt.values()
    taken = set(values) - {values[slot]}
    for number, draw in enumerate(attempt.draws):
        end = start + len(draw.shape)
        if slot < end:
            choices = sizes.get(len(draw.shape), sizes[5])[min(slot - start, 4)]
            turn = _hash(f"{salt}/{number}/{slot - start}") % len(choices)
            ordered = [*choices[turn:], *choices[:turn]]
            return next((size for size in ordered if size not in taken), ordered[0] + 1)
        if draw.is_bounded:
            if slot == end and draw.kind == "randint":
                return 10 + _hash(f"{salt}/{number}/high") % 7
            end += 1
        start = end
    return values[slot]


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def _limit(runner: AttemptRunner, attempt: Attempt, unit: int) -> Attempt:
    """Shrink the largest sizes until the cost is modest, or grow the batch of a tiny task."""
    for _ in range(24):
        result = runner.attempt(attempt)
        if result.elements < MIN_ELEMENTS:
            grown = _scaled(runner, attempt, unit, grow=True)
        elif _is_expensive(runner, attempt, MAX_OPERATIONS):
            grown = _scaled(runner, attempt, unit, grow=False)
        else:
            return attempt
        if grown is None:
            return attempt
        attempt = grown
    return attempt


def _side_slots(attempt: Attempt) -> set[int]:
    """Slots of `values()` that are sides of images and volumes."""
    place, found = attempt.init_count(), set()
    for draw in attempt.draws:
        found |= {place + dim for dim in range(2, len(draw.shape)) if len(draw.shape) > 3}
        place += len(draw.shape) + draw.is_bounded
    return found


def _is_expensive(runner: AttemptRunner, attempt: Attempt, operations: int) -> bool:
    result = runner.attempt(attempt)
    if result.elements > MAX_ELEMENTS or result.parameters > MAX_PARAMETERS:
        return True
    return runner.operations(attempt) > operations


def _scaled(runner: AttemptRunner, attempt: Attempt, unit: int, *, grow: bool) -> Attempt | None:
    values, first_input = attempt.values(), attempt.init_count()
    bounds, sides = attempt.bound_slots(), _side_slots(attempt)
    groups: dict[int, list[int]] = {}
    for slot, value in enumerate(values):
        if slot not in bounds and (value > 4 or slot >= first_input):
            groups.setdefault(value, []).append(slot)
    if grow:
        groups = {value: slots for value, slots in groups.items() if slots[-1] >= first_input}

    def is_width(old: int) -> bool:
        return groups[old][0] < first_input and (groups[old][-1] >= first_input or old >= MODEL_WIDTH)

    def last(old: int) -> tuple[bool, int]:
        """Widths shrink after what is of the inputs alone, large sizes first."""
        return is_width(old) and not grow, old if grow else -old

    for old in sorted(groups, key=last):
        if is_width(old) and not grow and not _is_expensive(runner, attempt, MAX_OF_WIDTHS):
            continue
        for new in _larger(old) if grow else _smaller(old):
            if (unit > 1 and old % unit == 0 and new % unit) or (sides.intersection(groups[old]) and new < MIN_SIDE):
                continue
            if new < 1 + (old > 1) or new == old or (new in values and new > 4) or (grow and new > 4096):
                continue
            trial = attempt.with_values(
                tuple(new if slot in groups[old] else value for slot, value in enumerate(values))
            )
            if runner.works(trial):
                return trial
    return None


def _larger(size: int) -> tuple[int, ...]:
    return 2 * size, 2 * size + 2, 2 * size + 4, 2 * size + 1


def _smaller(size: int) -> list[int]:
    """Sizes of about half another one, round ones first."""
    less = math.ceil(size * 0.6)
    even = less + less % 2
    round_ones = [] if size % 4 else [size // 2, size * 3 // 4]
    found = dict.fromkeys([*round_ones, less, even, even + even % 4, size // 2])
    return [smaller for smaller in found if smaller < size]
