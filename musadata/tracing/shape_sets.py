"""Other input shapes that a reference also accepts, found by trying.

It is not known which dimensions must stay equal, so groups of equal sizes are edited together, most plausible group
first, and an edit is kept only if the reference runs on it. Sizes that weights or literals fix do not change.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence

from musadata.records import InputSpec
from musadata.tasks.sizing.sizes import Place, Specs, groups, size_at

# A set may hold twice the elements of the task's own, but small tasks may grow to this many anyway.
_ALWAYS_SMALL = 4096
# Executions that the search for one set may cost.
_MOST_TRIALS = 60
_MOST_JOINT_TRIALS = 3
# Long sizes are odd, and past the elements that one round of a block's threads takes: 1,024, or 512 fours. Short ones
# make up for them.
_LONG, _SHORT = (2051, 1031, 523, 263, 127, 61), 2
_MOST_LONG, _MOST_LONG_TRIALS = 2, 12
_SHORTEST = (2, 3, 5, 9)  # windows have a least size
_FEWER = 8  # times as few elements; with more, it is not worth a set of its own
_SHORTER_OUTWARDS = 3  # along an outer axis every row has a block, which the emulator executes
# More than five blocks take of a long reduction: parts of 8,192 elements are usual (32 for each of 256 threads), and
# one thread may take four parts when they are joined.
MANY = 5 * 8192


def vary_shapes(own: Specs, runs: Callable[[Specs], bool], rotation: int = 0) -> Specs | None:
    """Another set of shapes with as many dimensions changed as can be, or None if nothing can vary.

    Args:
        own: the task's own arguments.
        runs: executes the reference on a set and says whether it accepts it.
        rotation: 0 for the first further set, 1 for the second, …: other sizes are preferred.
    """
    current, changed, trials = own, set[Place](), 0
    for places in groups(own):
        if changed & places:
            continue
        grow = (len(changed) + rotation) % 2 == 0
        for size in sizes(size_at(own, min(places)), grow, rotation):
            trial = resize(current, places, size)
            if not is_modest(trial, own) or _pairs_up(own, trial, places):
                continue
            trials += 1
            if runs(trial):
                current, changed = trial, changed | places
                break
            if trials >= _MOST_TRIALS:
                return current if changed else None
    if changed:
        return current
    return next((trial for trial in exchanges(own)[:_MOST_TRIALS] if runs(trial)), None)


def vary_again(own: Specs, varied: Specs, runs: Callable[[Specs], bool], rotation: int) -> Specs | None:
    """A set in which all dimensions that differ in `varied` change again, tried together; None if none of a few runs.

    What is known to vary, and together with what, needs no search: half of its executions are of sizes that are fixed.
    """
    together = list(_what_grows(own, varied).items())
    for turn in range(rotation, rotation + _MOST_JOINT_TRIALS):
        trial = own
        for number, ((size, other), places) in enumerate(together):
            new = [one for one in sizes(size, (number + turn) % 2 == 0, turn) if one != other]
            trial = resize(trial, frozenset(places), new[0])
        if not is_modest(trial, own) or any(_pairs_up(own, trial, frozenset(places)) for _, places in together):
            continue
        if runs(trial):
            return trial
    return None


def _pairs_up(own: Specs, trial: Specs, places: frozenset[Place]) -> bool:
    """Whether a size of 1 became that of another argument of as many dimensions: what was broadcast is so no more."""
    return any(
        size_at(own, (index, axis)) == 1 < size_at(own, (other, axis))
        and size_at(trial, (index, axis)) == size_at(trial, (other, axis))
        for index, axis in places
        for other in range(len(own))
        if len(own[other].shape) == len(own[index].shape)
    )


def vary_what_grows(sets: Sequence[Specs], measure: Specs, runs: Callable[[Specs], bool]) -> Specs | None:
    """The last of the sets with those sizes changed, too, that are other ones at the measure size and the same in all
    sets; None if there are none, or none can. Bounds of integers follow a size as they do in `measure`.

    Else a candidate with such a size written into it would pass every set, and fail at the measure size.
    """
    own, current, changed = sets[0], sets[-1], False
    unchanged = {
        sizes: {place for place in places if all(size_at(one, place) == sizes[0] for one in sets)}
        for sizes, places in _what_grows(own, measure).items()
    }
    growing = {sizes: places for sizes, places in unchanged.items() if places}
    for (size, other), places in growing.items():
        for together in dict.fromkeys((frozenset(places), *(frozenset({place}) for place in sorted(places)))):
            tried = (_resize_bounds(current, (own, measure), together, (size, other, new)) for new in sizes(size, True))
            found = next((trial for trial in tried if runs(trial)), None)
            if found is not None:
                current, changed = found, True
                break
    return current if changed else None


def lengthen(own: Specs, measure: Specs, runs: Callable[[Specs], bool]) -> list[Specs]:
    """Sets in each of which one size that grows to the measure size is long, and the others that grow are short.

    Else a candidate whose threads, warps or blocks go wrong from the second round on would pass every set: the task's
    own sizes are so small that there is one round.
    """
    growing, found = _what_grows(own, measure), list[Specs]()
    innermost_first = sorted(
        growing, key=lambda sizes: max(len(own[index].shape) - axis for index, axis in growing[sizes])
    )
    for number, sizes in enumerate(innermost_first[:_MOST_LONG]):
        long_ones = [long for long in _LONG[number * _SHORTER_OUTWARDS :] if sizes[0] < long <= sizes[1]]
        trials = (
            trial
            for long in long_ones
            for places in _together(own, growing[sizes])
            for trial in _with_one_long(own, measure, (sizes, places, long), growing)
        )
        set_found = next((trial for trial in itertools.islice(trials, _MOST_LONG_TRIALS) if runs(trial)), None)
        if set_found is not None:
            found.append(set_found)
    return found


def multiply(own: Specs, measure: Specs, runs: Callable[[Specs], bool]) -> list[Specs]:
    """A set whose largest argument has a little more than `MANY` elements, by one longer size; none if there is none.

    Else a candidate that splits a long reduction over blocks, and joins their results wrongly, would pass every set: at
    other sizes there is one part.
    """
    growing = _what_grows(own, measure)
    outermost_first = sorted(growing, key=lambda sizes: min(axis for _, axis in growing[sizes]))
    for size, other in outermost_first:
        places = frozenset(growing[size, other])
        most = max(math.prod(spec.shape) for index, spec in enumerate(own) if any(index == one for one, _ in places))
        long = (MANY * size // most + 1) | 1
        if size < long <= other:
            trial = _resize_bounds(own, (own, measure), places, (size, other, long))
            if runs(trial):
                return [trial]
    return []


def shorten(own: Specs, measure: Specs, runs: Callable[[Specs], bool]) -> list[Specs]:
    """A set in which all sizes that grow to the measure size are short, each another one, or none: most input sets of a
    task whose own sizes are much work are drawn of it."""
    growing = _what_grows(own, measure)
    for least in _SHORTEST:
        trial = own
        for number, (sizes, places) in enumerate(growing.items()):
            trial = _resize_bounds(trial, (own, measure), frozenset(places), (*sizes, min(sizes[0], least + number)))
        if _FEWER * elements(trial) <= elements(own) and runs(trial):
            return [trial]
    return []


def _with_one_long(
    own: Specs,
    measure: Specs,
    change: tuple[tuple[int, int], frozenset[Place], int],
    growing: dict[tuple[int, int], set[Place]],
) -> Iterator[Specs]:
    """The set with the others short; with only the outermost of them short, as windows have a least size."""
    (size, other), places, long = change
    rest = [(sizes, frozenset(some - places)) for sizes, some in growing.items() if some - places]
    for shortened in dict.fromkeys((tuple(rest), tuple(rest[:1]))):
        trial = _resize_bounds(own, (own, measure), places, (size, other, long))
        for (small, large), some in shortened:
            trial = _resize_bounds(trial, (own, measure), some, (small, large, min(_SHORT, small)))
        yield trial


def _together(own: Specs, places: set[Place]) -> list[frozenset[Place]]:
    """Those on the innermost axis alone, then all."""

    def from_right(place: Place) -> int:
        return len(own[place[0]].shape) - place[1]

    innermost = min(map(from_right, places))
    return list(
        dict.fromkeys((frozenset(place for place in places if from_right(place) == innermost), frozenset(places)))
    )


def _what_grows(own: Specs, measure: Specs) -> dict[tuple[int, int], set[Place]]:
    """Places by their size and what it is at the measure size, where these differ."""
    growing: dict[tuple[int, int], set[Place]] = {}
    for index, (spec, large) in enumerate(zip(own, measure, strict=True)):
        for axis, sizes in enumerate(zip(spec.shape, large.shape, strict=True)):
            if sizes[0] != sizes[1]:
                growing.setdefault(sizes, set()).add((index, axis))
    return growing


def _resize_bounds(
    specs: Specs, ends: tuple[Specs, Specs], places: frozenset[Place], sizes: tuple[int, int, int]
) -> Specs:
    """Other sizes at these places, and other bounds of those integers that are bounded by that size in both `ends`."""
    size, other, new = sizes
    return tuple(
        dataclasses.replace(spec, high=spec.high - size + new)
        if spec.kind == "integers" and small.high - size == large.high - other in (0, 1)
        else spec
        for spec, small, large in zip(resize(specs, places, new), *ends, strict=True)
    )


def exchanges(specs: Specs) -> list[Specs]:
    """Sets with the same number of elements, for a reference whose literals fix that number.

    Two axes trade places or a factor, in every argument where they have the same sizes.
    """
    trials: dict[Specs, None] = {}
    for spec in specs:
        for first, second in itertools.permutations(range(len(spec.shape)), 2):
            sizes = spec.shape[first], spec.shape[second]
            new = [(sizes[1], sizes[0])]
            new += [(sizes[0] * factor, sizes[1] // factor) for factor in (3, 5, 2) if sizes[1] % factor == 0]
            for pair in new:
                changed = tuple(_exchange(other, (first, second), sizes, pair) for other in specs)
                trials.setdefault(changed)
    return [trial for trial in trials if trial != specs]


def _exchange(spec: InputSpec, axes: tuple[int, int], old: tuple[int, int], new: tuple[int, int]) -> InputSpec:
    if max(axes) >= len(spec.shape) or (spec.shape[axes[0]], spec.shape[axes[1]]) != old:
        return spec
    shape = list(spec.shape)
    shape[axes[0]], shape[axes[1]] = new
    return dataclasses.replace(spec, shape=tuple(shape))


def sizes(size: int, grow: bool, rotation: int = 0) -> list[int]:
    """New sizes for a dimension, best first: odd ones just off it, then ones that keep small factors.

    One is never proposed: broadcasting and softmax treat it as a case of its own.
    """
    if size == 1:
        new = [3, 2, 5]
    else:
        above = size + 1 + size // 32
        below = size - 1 - size // 8
        near = [above | 1, below - (below + 1) % 2]
        far = [size * 3 // 4 if size % 4 == 0 else 0, size * 3 // 2 if size % 2 == 0 else 0]
        new = (near if grow else near[::-1]) + (far[::-1] if grow else far) + [2 * size, size // 2, 3 * size]
    new = [other for other in dict.fromkeys(new) if other >= 2 and other != size]
    turn = rotation % len(new) if new else 0
    return new[turn:] + new[:turn]


def resize(specs: Specs, places: frozenset[Place], size: int) -> Specs:
    def shape(index: int, spec: InputSpec) -> tuple[int, ...]:
        return tuple(size if (index, axis) in places else old for axis, old in enumerate(spec.shape))

    return tuple(dataclasses.replace(spec, shape=shape(index, spec)) for index, spec in enumerate(specs))


def is_modest(specs: Specs, own: Specs) -> bool:
    return elements(specs) <= max(2 * elements(own), _ALWAYS_SMALL)


def elements(specs: Sequence[InputSpec]) -> int:
    return sum(math.prod(spec.shape) for spec in specs if spec.kind != "literal")


def has_uneven_size(specs: Sequence[InputSpec]) -> bool:
    """Whether some dimension is not a power of two."""
    return any(size & (size - 1) for spec in specs for size in spec.shape)
