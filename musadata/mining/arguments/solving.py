"""Solving for the arguments of a module whose shapes no correction brought together. Runs inside the sandbox.

How the two numbers of an error change with each size shows which size causes it, whatever lies between them: strides,
joins, flattened dimensions, arguments of the constructor. So one size after the other is changed, and where the
difference of the numbers changes with it, the size is sought at which the difference is zero. Where the number of
dimensions is wrong, that of each input is tried. What comes further in the code is gone on with.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from musadata.mining.arguments.attempt_execution import MAX_ELEMENTS, AttemptRunner, Result
from musadata.mining.arguments.attempts import Attempt, with_draw
from musadata.mining.arguments.stated_sizes import LARGEST, stated_sizes
from musadata.mining.reading.messages import Said

REACH = 64  # times the values that are known
MAX_STEPS = 10  # towards the zero of one difference
MAX_CORRECTIONS = 6  # of each failure
MAX_SECOND = 3  # corrections of what these break
MAX_RANK = 5
LENGTH = 6  # of a dimension that is added
Trial = tuple[Attempt, Result]
Corrections = Callable[[Attempt, Result], Iterator[Attempt]]


@dataclass(frozen=True)
class _Coordinate:
    """Slots of `Attempt.values()` that are changed together, in proportion, and the value of the first."""

    slots: tuple[int, ...]
    value: int

    def moved(self, attempt: Attempt, value: int) -> Attempt:
        """The attempt with another value there."""
        values = list(attempt.values())
        for slot in self.slots:
            values[slot] = max(1, round(values[slot] * value / self.value)) if self.value else value
        return attempt.with_values(tuple(values))


def solve(
    runner: AttemptRunner, failures: Sequence[Trial], corrections: Corrections, tries: int
) -> tuple[Attempt | None, list[Trial]]:
    """An attempt that works, and the failures that came further than all before.

    Args:
        failures: where to start from, the best first.
        corrections: what the message of a failure suggests.
        tries: how many attempts are made at most.
    """
    further = [failures[0]]
    known = {_kind(result) for _, result in failures}
    stack = [(result, _trials(runner, attempt, result, corrections)) for attempt, result in reversed(failures)]
    end = runner.tries + tries
    while stack and runner.tries < end:
        failure, trials = stack[-1]
        attempt, result = next(trials, (None, failure))
        if attempt is None:
            stack.pop()
        elif result.ok:
            return attempt, further[1:]
        elif result.progress >= failure.progress and _kind(result) not in known:
            known.add(_kind(result))
            is_next = result.progress > failure.progress  # than whatever else is wrong at the same place
            place = len(stack) - (not is_next)
            stack.insert(place, (result, _trials(runner, attempt, result, corrections)))
        if attempt is not None and result.progress > further[-1][1].progress:
            further.append((attempt, result))
    return None, further[1:]


def _trials(runner: AttemptRunner, attempt: Attempt, failure: Result, corrections: Corrections) -> Iterator[Trial]:
    """Attempts near a failed one, each with its result."""

    def tried(other: Attempt) -> Iterator[Trial]:
        fitting = _of_allowed_size(other)
        if fitting is not None:
            yield fitting, runner.attempt(fitting)

    for other in islice(corrections(attempt, failure), MAX_CORRECTIONS):
        for corrected, result in tried(other):
            yield corrected, result
            if result.stage == failure.stage and result.progress < failure.progress:  # it breaks what came before
                for second in islice(corrections(corrected, result), MAX_SECOND):
                    yield from tried(second)
    ranks = _other_ranks(attempt)
    is_of_ranks = Said.RANK.read(failure.error)
    for other in ranks if is_of_ranks else ():
        yield from tried(other)
    for coordinate in _coordinates(attempt):
        yield from _line_search(coordinate, attempt, failure, tried)
    for other in ranks if not is_of_ranks else ():
        yield from tried(other)


def _line_search(
    coordinate: _Coordinate, attempt: Attempt, failure: Result, tried: Callable[[Attempt], Iterator[Trial]]
) -> Iterator[Trial]:
    """Other values of one coordinate: the next, the double, and those that the differences found so far suggest."""
    start = _difference(failure)
    known = {} if start is None else {coordinate.value: start}
    for value in (coordinate.value + 1, 2 * coordinate.value):
        for other, result in tried(coordinate.moved(attempt, value)):
            yield other, result
            if start is not None and _kind(result) == _kind(failure):
                found = _difference(result)
                known |= {} if found is None else {value: found}
    if len(set(known.values())) < 2:
        return
    for step in range(MAX_STEPS):
        guess = _next_value(known, by_half=step % 3 == 2)
        if guess is None or guess in known or not 0 < guess <= LARGEST:
            return
        for other, result in tried(coordinate.moved(attempt, guess)):
            yield other, result
            found = _difference(result) if _kind(result) == _kind(failure) else None
            known |= {} if found is None else {guess: found}
        if guess not in known:
            return


def _next_value(known: dict[int, int], by_half: bool) -> int | None:
    """Where the difference may be zero: between values of different signs if there are some; None if nowhere."""
    below = {value: found for value, found in known.items() if found < 0}
    above = {value: found for value, found in known.items() if found > 0}
    if below and above:
        first, second = min(((a, b) for a in below for b in above), key=lambda pair: abs(pair[0] - pair[1]))
    else:
        ordered = sorted(known, key=lambda value: abs(known[value]))
        first, second = ordered[0], next(value for value in ordered if known[value] != known[ordered[0]])
    low, high = min(first, second), max(first, second)
    slope = (known[high] - known[low]) / (high - low)
    guess = round(low - known[low] / slope)
    if below and above:
        if high - low < 2:
            return None
        return (low + high) // 2 if by_half or not low < guess < high else guess
    return min(max(guess, low // REACH), REACH * high)


def _difference(failure: Result) -> int | None:
    """The difference of the two sizes that a message names; None if it names none."""
    stated = stated_sizes(failure.error)
    return stated[0].got - stated[0].want if stated else None


def _kind(failure: Result) -> tuple[object, str, int]:
    """The place of a failure, and its message but for the numbers: one operator checks one thing after the other.

    The dimension as well: where the first one is right, the message names the next.
    """
    stated = stated_sizes(failure.error)
    return failure.progress, re.sub(r"\d+", "", failure.error), stated[0].dim if stated else -1


def _coordinates(attempt: Attempt) -> Iterator[_Coordinate]:
    """Sides of an image, single sizes of inputs, single numbers of the constructor, and equal ones of both."""
    values, bounds = attempt.values(), attempt.bound_slots()
    first = place = attempt.init_count()
    single: list[int] = []
    for draw in attempt.draws:
        slots = tuple(range(place, place + len(draw.shape)))
        if len(slots) > 3:
            yield _Coordinate(slots[2:], values[slots[2]])
        single += [*slots[1:], *slots[:1]]
        place += len(slots) + draw.is_bounded
    for slot in [*single, *range(first)]:
        yield _Coordinate((slot,), values[slot])
    for value in dict.fromkeys(values):
        alike = tuple(slot for slot, other in enumerate(values) if other == value and slot not in bounds)
        if len(alike) > 1 and alike[-1] >= first:
            yield _Coordinate(alike, value)


def _other_ranks(attempt: Attempt) -> list[Attempt]:
    """One input, the last first, with other numbers of dimensions."""
    found = []
    for number, draw in reversed(list(enumerate(attempt.draws))):
        shape = draw.shape
        if draw.kind == "literal" or not shape:
            continue
        others = [shape[:1], (shape[0], shape[-1]), shape[:-1], (shape[0], *shape[2:]), (*shape, LENGTH)]
        others += [(shape[0], LENGTH, *shape[1:]), (1, *shape)]
        for other in dict.fromkeys(others):
            if other != shape and 1 <= len(other) <= MAX_RANK:
                found.append(with_draw(attempt, number, replace(draw, shape=other)))
    return found


def _of_allowed_size(attempt: Attempt) -> Attempt | None:
    """The attempt, with one item in each batch where an input is too large; None if it stays so."""
    if all(draw.elements <= MAX_ELEMENTS for draw in attempt.draws):
        return attempt
    batch = max(attempt.draws, key=lambda draw: draw.elements).shape[0]
    draws = [
        replace(draw, shape=(1, *draw.shape[1:])) if draw.shape[:1] == (batch,) else draw for draw in attempt.draws
    ]
    if any(draw.elements > MAX_ELEMENTS for draw in draws):
        return None
    return replace(attempt, draws=tuple(draws))
