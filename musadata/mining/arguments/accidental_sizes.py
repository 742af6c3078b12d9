"""Sizes that are equal by accident, and dimensions that fit by accident.

A module of images whose scale has one value for each channel, `(1, C, 1, 1)`, runs with a sequence as well if its batch
is as large as C is: what broadcasts then is not what was meant. So an input whose first size hangs on the constructor
gets a batch of its own, and one with two sizes that cannot differ loses a dimension, where the module runs so.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

from musadata.mining.arguments.attempt_execution import AttemptRunner
from musadata.mining.arguments.attempts import Attempt, Draw, with_draw

MAX_TRIALS = 2  # for each size
MAX_RANK = 5
SINGLE = ("mask", "alpha", "matte", "depth", "disp", "conf", "heatmap", "attention_map")  # images of one channel
SMALL, LARGE = 8, 16


def without_accidents(runner: AttemptRunner, attempt: Attempt, parameters: list[str]) -> Attempt:
    """The attempt with sizes that differ, and with the dimensions that were meant, where the module runs so.

    `parameters`: the names of the inputs.
    """
    attempt = _separate(runner, _without_wide_masks(runner, attempt))
    attempt = _without_accidental_batch(runner, attempt)
    for trial in (*_with_batches(attempt), *_without_squares(attempt)):
        if runner.works(trial):
            attempt = _separate(runner, trial)
            break
    return _single_channels(runner, attempt, parameters)


def with_whole_images(runner: AttemptRunner, attempt: Attempt) -> Attempt:
    """The attempt with images so much larger that each gives a row, where `x.view(-1, 64)` makes one row of several."""
    batch, rows = attempt.batch(), runner.attempt(attempt).rows
    if runner.works(attempt) and len(attempt.draws) == 1 and len(shape := attempt.draws[0].shape) == 4:
        factor = batch // rows if rows and batch % rows == 0 else 1
        root = math.isqrt(factor)
        for tall, wide in [(root, root)] * (root * root == factor) + [(1, factor)] if factor > 1 else ():
            draw = replace(attempt.draws[0], shape=(*shape[:2], shape[2] * tall, shape[3] * wide))
            trial = with_draw(attempt, 0, draw)
            if runner.works(trial) and runner.attempt(trial).rows == batch:
                return trial
    return attempt


def _separate(runner: AttemptRunner, attempt: Attempt) -> Attempt:
    """Give dimensions different sizes that are equal by accident."""
    bounds, leading = attempt.bound_slots(), leading_slots(attempt)
    for slot in range(attempt.init_count(), len(attempt.values())):
        values = attempt.values()
        apart = {slot, *bounds, *(leading if slot in leading else ())}  # batches are equal on purpose
        others = [value for place, value in enumerate(values) if place not in apart]
        if slot in bounds or values[slot] < 2 or values[slot] not in others:
            continue
        sets = [(slot,), *_sets(attempt, slot)] if _is_square(attempt, slot) else [(slot,)]
        trials = (_moved(attempt, slots, size) for slots in sets for size in _other_sizes(values, slot))
        attempt = next((trial for trial in trials if runner.works(trial)), attempt)
    return attempt


def _other_sizes(values: tuple[int, ...], slot: int) -> list[int]:
    """Sizes near one that no slot has; round ones where it is large."""
    size = values[slot]
    steps = (8, 4, 16) if size >= LARGE else (2, 4, 1) if size >= SMALL else (1, 2, 3, -1)
    return [size + step for step in steps if size + step >= 2 and size + step not in values][:MAX_TRIALS]


def _is_square(attempt: Attempt, slot: int) -> bool:
    """Whether another dimension of the same input is as large."""
    return any(draw.shape.count(draw.shape[dim]) > 1 for draw, dim in _dimension(attempt, slot))


def _sets(attempt: Attempt, slot: int) -> Iterator[tuple[int, ...]]:
    """Slots that may have to change with one: the same dimension of all inputs, and a size of the constructor."""
    values, first = attempt.values(), attempt.init_count()
    dim = next(dim for _, dim in _dimension(attempt, slot))
    alike, place = [], first
    for draw in attempt.draws:
        if len(draw.shape) > dim and draw.shape[dim] == values[slot]:
            alike.append(place + dim)
        place += len(draw.shape) + draw.is_bounded
    if len(alike) > 1:
        yield tuple(alike)
    for own in [place for place in range(first) if values[place] == values[slot]][:MAX_TRIALS]:
        yield (own, *alike)


def _dimension(attempt: Attempt, slot: int) -> Iterator[tuple[Draw, int]]:
    """The input to which a slot belongs, and which of its dimensions it is."""
    place = attempt.init_count()
    for draw in attempt.draws:
        if place <= slot < place + len(draw.shape):
            yield draw, slot - place
        place += len(draw.shape) + draw.is_bounded


def _moved(attempt: Attempt, slots: tuple[int, ...], size: int) -> Attempt:
    return attempt.with_values(tuple(size if slot in slots else value for slot, value in enumerate(attempt.values())))


def _without_accidental_batch(runner: AttemptRunner, attempt: Attempt) -> Attempt:
    """The attempt without leading dimensions that had to equal the next one, if the module runs without them.

    They broadcast with something made for a matrix: a recurrent cell's state fits a square batch of sequences.
    """
    draws = tuple(
        replace(draw, shape=draw.shape[1:])
        if len(draw.shape) > 2 and draw.shape[0] == draw.shape[1] > 1 and not draw.is_bounded
        else draw
        for draw in attempt.draws
    )
    trial = replace(attempt, draws=draws)
    return trial if trial != attempt and runner.works(trial) else attempt


def _without_wide_masks(runner: AttemptRunner, attempt: Attempt) -> Attempt:
    """The attempt with the first two dimensions of the first input for a mask of three, if the module runs so.

    Where all sizes are equal, a flag for each of several items fits with one dimension more as well.
    """
    shape = attempt.draws[0].shape
    for number, draw in enumerate(attempt.draws[1:], 1):
        if draw.kind == "bool" and len(draw.shape) == len(shape) == 3 and draw.shape[1:] == shape[:2] and shape[0] > 1:
            trial = with_draw(attempt, number, replace(draw, shape=shape[:2]))
            attempt = trial if runner.works(trial) else attempt
    return attempt


def _with_batches(attempt: Attempt) -> Iterator[Attempt]:
    """The attempt with a batch before the first dimension, where that hangs on the constructor's arguments."""
    sizes = attempt.values()
    given = set(sizes[: attempt.init_count()])
    tied = [
        draw for draw in attempt.draws if _may_change(draw) and draw.shape[0] in given and len(draw.shape) < MAX_RANK
    ]
    if tied and len(tied) == sum(map(_may_change, attempt.draws)) and tied[0].shape[0] > 1:
        batch = next(size for size in range(2, 99) if size not in sizes)
        draws = tuple(replace(draw, shape=(batch, *draw.shape)) if draw in tied else draw for draw in attempt.draws)
        yield replace(attempt, draws=draws)


def _without_squares(attempt: Attempt) -> Iterator[Attempt]:
    """The attempt without a dimension that has to equal another one and an argument of the constructor."""
    given = set(attempt.values()[: attempt.init_count()])
    shapes = {draw.shape for draw in attempt.draws if _may_change(draw)}
    for shape in shapes if len(shapes) == 1 else ():
        for dim in range(1, len(shape) - 1 if len(shape) == 3 else 0):
            if shape[dim] == shape[-1] and shape[dim] in given:
                kept = (*shape[:dim], *shape[dim + 1 :])
                draws = tuple(replace(draw, shape=kept) if _may_change(draw) else draw for draw in attempt.draws)
                yield replace(attempt, draws=draws)


def _may_change(draw: Draw) -> bool:
    return draw.kind in ("randn", "rand") and len(draw.shape) > 1


def _single_channels(runner: AttemptRunner, attempt: Attempt, parameters: list[str]) -> Attempt:
    """One channel in masks and other images that have one, though several broadcast as well."""
    for number, (draw, name) in enumerate(zip(attempt.draws, parameters, strict=False)):
        others = [other for other in attempt.draws if len(other.shape) == 4 and other is not draw]
        named = any(word in name.lower() for word in SINGLE)
        if named and others and len(draw.shape) == 4 and draw.shape[1] > 1:
            trial = with_draw(attempt, number, replace(draw, shape=(draw.shape[0], 1, *draw.shape[2:])))
            attempt = trial if runner.works(trial) else attempt
    return attempt


def leading_slots(attempt: Attempt) -> set[int]:
    """Slots of `values()` that are batches of inputs, and all of lengths, which belong to other inputs.

    So do vectors of classes that have an item for each row.
    """
    batches = {draw.shape[0] for draw in attempt.draws if len(draw.shape) > 1}
    place, found = attempt.init_count(), set()
    for draw in attempt.draws:
        end = place + len(draw.shape) + draw.is_bounded
        is_classes = draw.kind == "randint" and len(draw.shape) == 1 and draw.shape[0] in batches
        is_leading = len(draw.shape) > 1 or is_classes
        found |= set(range(place, end)) if draw.kind == "lengths" else {place} if is_leading else set()
        place = end
    return found
