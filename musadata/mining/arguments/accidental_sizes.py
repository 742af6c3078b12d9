"""Sizes that are equal by accident.

A module of images whose scale is `(1, C, 1, 1)` runs with a sequence as well if its batch is as large as C is. So an
input whose first size hangs on the constructor gets a batch of its own, where the module runs so.
"""

from collections.abc import Iterator
from dataclasses import replace

from musadata.mining.arguments.attempt_execution import AttemptRunner
from musadata.mining.arguments.attempts import Attempt, Draw

MAX_TRIALS = 2  # for each size
MAX_RANK = 5
SMALL, LARGE = 8, 16


def without_accidents(runner: AttemptRunner, attempt: Attempt) -> Attempt:
    """The attempt with sizes that differ, and with a batch where one was missing, where the module runs so."""
    attempt = separate(runner, attempt)
    trial = next(filter(runner.works, _with_batches(attempt)), None)
    return attempt if trial is None else separate(runner, trial)


def separate(runner: AttemptRunner, attempt: Attempt, *, alone: bool = False) -> Attempt:
    """Give dimensions different sizes that are equal by accident; `alone`: only those on which nothing else hangs."""
    bounds, leading = attempt.bound_slots(), leading_slots(attempt)
    for slot in range(attempt.init_count(), len(attempt.values())):
        values = attempt.values()
        apart = {slot, *bounds, *(leading if slot in leading else ())}  # batches are equal on purpose
        others = [value for place, value in enumerate(values) if place not in apart]
        if slot in bounds or values[slot] < 2 or values[slot] not in others:
            continue
        sets = [(slot,), *_sets(attempt, slot)] if not alone and _is_square(attempt, slot) else [(slot,)]
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


def _may_change(draw: Draw) -> bool:
    return draw.kind in ("randn", "rand") and len(draw.shape) > 1


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
