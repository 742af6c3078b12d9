"""The sizes that an error message states: which size an input has, which one is wanted, and in which dimension.

A message such as "expected input[3, 50, 16, 20] to have 3 channels, but got 50 channels" leaves no doubt; trying every
number of it in every place used up a large module's tries.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations

from musadata.mining.arguments.attempts import Attempt, Draw
from musadata.mining.reading.messages import Said

LARGEST = 4096
LARGEST_SIDE = 512
HALVED = 32  # the sides of an image that is halved five times
# Messages that name two sizes, and whether either may be the wrong one.
WANTED = {
    Said.SHAPE: False,
    Said.GROUPS: False,
    Said.PRODUCT: False,
    Said.STATISTICS: False,
    Said.SUM: True,
    Said.SHAPES: True,
    Said.JOIN: True,
    Said.EXPECTED: False,
}
OF_CHANNELS = (Said.GROUPS, Said.STATISTICS)


@dataclass(frozen=True)
class Stated:
    """One statement of a message. `dim`: -1 if it names none. `joins`: tensors are joined along another dimension."""

    got: int
    want: int
    dim: int = -1
    joins: bool = False


def resize(attempt: Attempt, error: str) -> Iterator[Attempt]:
    """Variants of a failed attempt whose inputs have the sizes that the message asks for, likeliest first."""
    known = {size for draw in attempt.draws for size in draw.shape}
    read = stated_sizes(error)
    viewed = Said.VIEW.read(error)
    if viewed:
        yield from _fit_view(attempt, *_elements(attempt, viewed[1], int(viewed[2])))
    for first, second in permutations(_shapes(Said.SHAPES.read(error)) or [(), ()]):
        for number, draw in enumerate(attempt.draws):
            if draw.shape == first != second:
                yield _with_shape(attempt, number, second)
    if Said.POOLED.read(error):
        yield from _enlarged(attempt, error)
    if Said.DIVIDES.read(error):
        yield from _divisible(attempt)
    joins = any(stated.dim > 1 or stated.joins for stated in read)
    if joins and not any(stated.got in known or stated.want in known for stated in read):
        yield from _divisible(attempt)
    for stated in read:
        yield from _scaled(attempt, stated) if stated.joins else ()
    for stated in read:
        yield from _resized(attempt, stated)
    if Said.SMALL.read(error):
        yield from _enlarged(attempt, error)


def _elements(attempt: Attempt, wanted: str, got: int) -> tuple[int, int]:
    """How many elements a view needs, and how many there are; of each item if the view leaves their number open."""
    sizes = [int(text) for text in wanted.split(",")]
    if -1 not in sizes:
        return math.prod(sizes), got
    batch = next((draw.shape[0] for draw in attempt.draws if draw.shape), 1)
    return -math.prod(sizes) * batch, got


def _fit_view(attempt: Attempt, want: int, got: int) -> Iterator[Attempt]:
    """One size behind the batch in proportion to the number of elements that a view needs."""
    for number, draw in enumerate(attempt.draws):
        for dim, size in list(enumerate(draw.shape))[:0:-1]:
            fitting, rest = divmod(size * want, got) if got else (0, 1)
            if rest == 0 and fitting != size and 0 < fitting <= LARGEST:
                yield _with_sizes(attempt, [(number, dim)], fitting)
                alike = [(place, dim) for place, item in enumerate(attempt.draws) if item.shape == draw.shape]
                yield _with_sizes(attempt, alike, fitting)
        sides = draw.shape[2:]
        pixels, rest = divmod(math.prod(sides) * want, got) if got and len(sides) == 2 else (0, 1)
        if rest == 0 and sides and math.isqrt(pixels) ** 2 == pixels > 0:
            yield _with_shape(attempt, number, (*draw.shape[:2], math.isqrt(pixels), math.isqrt(pixels)))


def stated_sizes(error: str) -> list[Stated]:
    """What a message says of sizes: which one there is and which one is wanted."""
    found = []
    for said, is_either in WANTED.items():
        match = said.read(error)
        if match is None:
            continue
        groups = match.groupdict()
        if "wanted" in groups:
            shape, wanted = _shapes(match)
            if said is Said.SHAPES and len(wanted) != len(shape):
                continue
            pairs = zip(wanted, shape[-len(wanted) :], range(len(shape) - len(wanted), len(shape)), strict=False)
            read = [Stated(got, want, dim) for want, got, dim in pairs]
        else:
            dim = 1 if said in OF_CHANNELS or groups.get("channels") else int(groups.get("dim") or -1)
            read = [Stated(int(groups["got"]), int(groups["want"]), dim, said is Said.JOIN)]
        found += [*read, *(replace(item, got=item.want, want=item.got) for item in read if is_either)]
    split = Said.SPLIT.read(error)
    if split:
        found.append(Stated(int(split[1]), sum(map(int, split[3].split(","))), int(split[2])))
    return [
        item for item in dict.fromkeys(found) if item.got != item.want and 0 < item.want <= LARGEST and item.got > 0
    ]


def _shapes(match: re.Match[str] | None) -> list[tuple[int, ...]]:
    """The two shapes that a message states."""
    return [tuple(map(int, re.findall(r"\d+", match[name]))) for name in ("shape", "wanted")] if match else []


def _resized(attempt: Attempt, stated: Stated) -> Iterator[Attempt]:
    """The size where the message says; else in one place; in every input; as a part of a sum or a product.

    If an input has as many elements as its size should be, the code flattens it.
    """
    places = [
        (number, dim)
        for number, draw in enumerate(attempt.draws)
        for dim, size in enumerate(draw.shape)
        if size == stated.got
    ]
    for number, draw in reversed(list(enumerate(attempt.draws))):
        if len(draw.shape) > 1 and draw.elements == stated.got:
            yield _with_shape(attempt, number, (stated.want,))
    if stated.dim > 1 or stated.joins:
        yield from _scaled(attempt, stated)
    named = [place for place in places if place[1] == stated.dim]
    last = [place for place in places if place[1] == len(attempt.draws[place[0]].shape) - 1]
    for place in dict.fromkeys([*named, *last, *places]):
        yield _with_sizes(attempt, [place], stated.want)
    if len(places) > 1:
        yield _with_sizes(attempt, places, stated.want)
    if stated.dim < 2:
        yield from _in_proportion(attempt, stated)


def _divisible(attempt: Attempt) -> Iterator[Attempt]:
    """Images whose sides can be halved several times: what is scaled down and up again fits what was kept of it."""
    for divisor in (HALVED, HALVED // 4):
        draws = tuple(
            replace(draw, shape=(*draw.shape[:2], *(-(-size // divisor) * divisor for size in draw.shape[2:])))
            if len(draw.shape) > 3
            else draw
            for draw in attempt.draws
        )
        if draws != attempt.draws:
            yield replace(attempt, draws=draws)


def _scaled(attempt: Attempt, stated: Stated) -> Iterator[Attempt]:
    """All sides of one image in proportion, the last input first: it is often met after the others were enlarged."""
    for number in reversed(range(len(attempt.draws))):
        shape = attempt.draws[number].shape
        if stated.got in (shape[2:] if stated.dim < 0 else shape[stated.dim : stated.dim + 1]):
            sides = tuple(size * stated.want // stated.got for size in shape[2:])
            if min(sides) > 0:
                yield _with_shape(attempt, number, (*shape[:2], *sides))


def _with_shape(attempt: Attempt, number: int, shape: tuple[int, ...]) -> Attempt:
    draws = list(attempt.draws)
    draws[number] = replace(draws[number], shape=shape)
    return replace(attempt, draws=tuple(draws))


def _in_proportion(attempt: Attempt, stated: Stated) -> Iterator[Attempt]:
    """A size of which the stated one is a multiple: inputs are joined, or dimensions flattened, before it is met."""
    sizes = {size for draw in attempt.draws for size in draw.shape if 1 < size < stated.got}
    for size in sorted(sizes, reverse=True):
        times, rest = divmod(stated.got, size)
        if rest == 0 and stated.want % times == 0:
            places = [
                (n, d) for n, draw in enumerate(attempt.draws) for d, item in enumerate(draw.shape) if item == size
            ]
            yield _with_sizes(attempt, places, stated.want // times)
    for number, draw in enumerate(attempt.draws):  # the sides of an image, flattened to features after strides
        area = math.prod(draw.shape[2:])
        if len(draw.shape) > 2 and area > 1 and max(draw.shape[2:]) > 1:
            scale = stated.want / stated.got
            sides = len(draw.shape) - 2
            side = round((area * scale) ** (1 / sides))
            places = [(number, dim) for dim in range(2, len(draw.shape))]
            if 1 <= side <= LARGEST_SIDE:
                yield _with_sizes(attempt, places, side)


def _enlarged(attempt: Attempt, error: str) -> Iterator[Attempt]:
    """Inputs whose dimensions behind batch and channels are twice as large, or four times; as large as is asked for."""
    pooled = Said.POOLED.read(error)
    if pooled:
        side, result = int(pooled["side"]), int(pooled["result"])
        missing = 2 if result == 0 else 1 + (1 - result) / max(1, side)
        draws = tuple(_stretched(draw, missing) for draw in attempt.draws)
        yield replace(attempt, draws=draws)
    leading = [1 if draw.kind == "randint" else 2 for draw in attempt.draws]  # tokens have no features
    for times in (2, 4):
        draws = tuple(
            replace(draw, shape=(*draw.shape[:fixed], *(size * times for size in draw.shape[fixed:])))
            if len(draw.shape) > fixed and max(draw.shape[fixed:]) * times <= LARGEST_SIDE
            else draw
            for draw, fixed in zip(attempt.draws, leading, strict=True)
        )
        if draws != attempt.draws:
            yield replace(attempt, draws=draws)


def _stretched(draw: Draw, times: float) -> Draw:
    """A square image so many times as large, up to sides that can be halved; large ones in a small batch."""
    if len(draw.shape) < 4 or max(draw.shape[2:]) == 1:
        return draw
    smallest = min(size for size in draw.shape[2:] if size > 1)  # one may be a channel that the code moves
    side = min(LARGEST_SIDE, -(-int(smallest * times) // HALVED) * HALVED)
    sides = [1 if size == 1 else side for size in draw.shape[2:]]
    return replace(draw, shape=(min(2, draw.shape[0]), draw.shape[1], *sides))


def _with_sizes(attempt: Attempt, places: list[tuple[int, int]], size: int) -> Attempt:
    for number, dim in places:
        shape = attempt.draws[number].shape
        attempt = _with_shape(attempt, number, (*shape[:dim], size, *shape[dim + 1 :]))
    return attempt
