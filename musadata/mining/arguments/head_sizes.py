"""Sides of images for networks whose head, a linear layer on flattened features, fits images of one size alone.

The number of features grows with the area, but by steps and less an offset: strides round down, and convolutions
without padding cut borders. So the side that the ratio suggests is corrected by the failure that it meets.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import replace

from musadata.mining.arguments.attempts import Attempt, Draw

LARGEST_SIDE = 512
LARGE_SIDE = 200  # from here on one image is enough
STEPS = (1, 2, 4, 8)
FLATTENED = re.compile(
    r"multiplied \(\d+x(?P<got>\d+) and (?P<want>\d+)x\d+\)"
    r"|batch2 tensor to be: \[\d+, (?P<pixels>\d+)\] but got: \[\d+, (?P<wanted>\d+)\]"  # of all places with each other
)
VIEWED = re.compile(r"shape '\[-1, (?P<wanted>[\d, ]+)\]' is invalid for input of size (?P<size>\d+)")


def fit_head(attempt: Attempt, error: str) -> Iterator[Attempt]:
    """Square images whose features are as many as the head takes, likeliest first."""
    images = [number for number, draw in enumerate(attempt.draws) if _is_image(draw)]
    got, want = _features(attempt, error, images)
    known = {size for draw in attempt.draws for size in draw.shape}
    if not images or not got or got == want or got in known:
        return
    sides = attempt.draws[images[0]].shape[2:]
    side = math.prod(sides) ** (1 / len(sides))
    ratio = (want / got) ** (1 / len(sides))
    near = [round(side) + step * (1 if want > got else -1) for step in STEPS]
    for other in dict.fromkeys([round(side * ratio), *near]):
        if 1 < other <= LARGEST_SIDE and (other,) * len(sides) != sides:
            yield _with_side(attempt, images, other)


def fit_exactly(attempt: Attempt, error: str) -> Iterator[Attempt]:
    """Images of the side at which the head has just as many features, where the area alone makes the difference.

    It comes before all other corrections: networks with such a head are costly to try.
    """
    images = [number for number, draw in enumerate(attempt.draws) if _is_image(draw)]
    got, want = _features(attempt, error, images)
    sides = attempt.draws[images[0]].shape[2:] if images else ()
    if got and want and len(sides) == 2 and got != want and got not in attempt.values():
        area, rest = divmod(math.prod(sides) * want, got)
        side = math.isqrt(area)
        if rest == 0 and side * side == area and 4 <= side <= LARGEST_SIDE:
            yield _with_side(attempt, images, side)


def _is_image(draw: Draw) -> bool:
    return len(draw.shape) > 3 and draw.kind in ("randn", "rand")


def _features(attempt: Attempt, error: str, images: list[int]) -> tuple[int, int]:
    """How many features of an item there are, and how many are wanted; zeros if the message does not say."""
    flattened = FLATTENED.search(error)
    if flattened:
        return int(flattened["got"] or flattened["pixels"]), int(flattened["want"] or flattened["wanted"])
    viewed = VIEWED.search(error)
    if viewed is None or not images:
        return 0, 0
    wanted = math.prod(map(int, viewed["wanted"].split(",")))
    return int(viewed["size"]) // attempt.draws[images[0]].shape[0], wanted


def _with_side(attempt: Attempt, images: list[int], side: int) -> Attempt:
    """All images of this side, one of each if they are large."""
    batch = attempt.draws[images[0]].shape[0]
    draws = list(attempt.draws)
    for number, draw in enumerate(draws):
        shape = (*draw.shape[:2], *(side for _ in draw.shape[2:])) if number in images else draw.shape
        if side >= LARGE_SIDE and shape[:1] == (batch,):
            shape = (1, *shape[1:])
        draws[number] = replace(draw, shape=shape)
    return replace(attempt, draws=tuple(draws))
