"""Inputs with other numbers of dimensions, where a message tells how many elements or features the code makes of them.

Code that folds dimensions (`reward.view(T, B, 1)`, `action.view(T, B, -1)`) takes inputs of any rank, so that images
come as far as vectors do, and no single size mends them.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import replace

from musadata.mining.arguments.attempts import Attempt, with_draw
from musadata.mining.arguments.stated_sizes import LARGEST, VIEWED, stated_sizes

LISTED = re.compile(r"[Ee]xpected [^()]*\((?P<wanted>\d+(?:, \d+)+)\), got \[(?P<shape>[\d, ]+)\]")
MULTIPLIED = re.compile(r"multiplied \((?P<rows>\d+)x(?P<got>\d+) and (?P<want>\d+)x\d+\)")
SUM = "of tensor a ("
OF_ROWS = "expected 2D or 3D input (got 4D input)"  # a batch normalization, mostly behind a linear layer


def repair_flattened(attempt: Attempt, error: str) -> Iterator[Attempt]:
    """Variants in which one input has the shape that the message leaves no doubt of, the last input first."""
    viewed = VIEWED.search(error)
    if viewed:
        yield from _of_view(attempt, [int(text) for text in viewed[1].split(",")], int(viewed[2]))
    yield from _as_listed(attempt, error)
    yield from _rows_of_image(attempt, error)
    if "input.size(-1) must be" in error or "cannot be multiplied" in error:
        yield from _of_joined_features(attempt, error)
    for number, draw in enumerate(attempt.draws) if OF_ROWS in error else ():
        if len(draw.shape) == 4:
            yield with_draw(attempt, number, replace(draw, shape=(draw.shape[0], draw.shape[-1])))
    if SUM in error:
        yield from _as_vector(attempt, error)


def _of_view(attempt: Attempt, wanted: list[int], got: int) -> Iterator[Attempt]:
    """The leading dimensions of an input that has nothing else in the view; a vector, where pixels are added to it."""
    elements = math.prod(wanted)
    for number, draw in reversed(list(enumerate(attempt.draws))):
        for rank in range(len(draw.shape) - 1, 0, -1) if draw.elements == got else ():
            if math.prod(draw.shape[:rank]) == elements:
                yield with_draw(attempt, number, replace(draw, shape=draw.shape[:rank]))
                break
        if draw.elements == got and len(draw.shape) > 2:
            yield from (with_draw(attempt, number, replace(draw, shape=shape)) for shape in _viewed(draw.shape, wanted))
        is_image = len(draw.shape) > 2 and len(wanted) == len(draw.shape) and wanted[2:] == [1] * len(wanted[2:])
        if is_image and list(draw.shape[:2]) == wanted[:2] and elements < got:
            yield with_draw(attempt, number, replace(draw, shape=(draw.shape[0], draw.shape[-1])))


def _rows_of_image(attempt: Attempt, error: str) -> Iterator[Attempt]:
    """Rows of features in place of an image that a linear layer meets first, and has a width of its own for."""
    stated = MULTIPLIED.search(error)
    if stated is None or int(stated["want"]) in attempt.values():
        return
    for number, draw in enumerate(attempt.draws):
        is_whole = len(draw.shape) == 4 and draw.shape[-1] == int(stated["got"])
        if is_whole and math.prod(draw.shape[:-1]) == int(stated["rows"]):
            yield with_draw(attempt, number, replace(draw, shape=(draw.shape[1], int(stated["want"]))))


def _viewed(shape: tuple[int, ...], wanted: list[int]) -> Iterator[tuple[int, ...]]:
    """Shapes from which a view makes the wanted one: an image whose channels are taken apart, and a signal."""
    if len(wanted) > 4 and wanted[0] == shape[0] and wanted[-1] == wanted[-2] == shape[-1] and -1 not in wanted:
        yield (shape[0], math.prod(wanted[1:-2]), *wanted[-2:])
    if math.prod(wanted) == shape[0] * shape[-1]:
        yield (shape[0], shape[-1])


def _as_listed(attempt: Attempt, error: str) -> Iterator[Attempt]:
    """The wanted shape in place of the end of an input's that has just the other one, as a stack of states has."""
    found = LISTED.search(error)
    if found is None:
        return
    wanted, shape = (tuple(map(int, re.findall(r"\d+", found[name]))) for name in ("wanted", "shape"))
    for number, draw in reversed(list(enumerate(attempt.draws))):
        if len(wanted) == len(shape) and draw.shape[-len(shape) :] == shape:
            changed = (*draw.shape[: -len(shape)], *wanted)
            yield with_draw(attempt, number, replace(draw, shape=changed))


def _of_joined_features(attempt: Attempt, error: str) -> Iterator[Attempt]:
    """Features in place of an image whose pixels are joined to what others are made to."""
    for stated in stated_sizes(error) if len(attempt.draws) > 1 else ():
        for number, draw in reversed(list(enumerate(attempt.draws))):
            for rank in range(1, len(draw.shape) - 1):
                features = math.prod(draw.shape[rank:])
                size = features + stated.want - stated.got
                if features < stated.got and 0 < size < features and size <= LARGEST:
                    yield with_draw(attempt, number, replace(draw, shape=(*draw.shape[:rank], size)))


def _as_vector(attempt: Attempt, error: str) -> Iterator[Attempt]:
    """A vector in place of an image that is met by one, where other inputs are vectors already."""
    are_vectors = any(len(draw.shape) == 2 for draw in attempt.draws)
    for stated in stated_sizes(error) if are_vectors else ():
        for number, draw in reversed(list(enumerate(attempt.draws))):
            if len(draw.shape) > 3 and stated.dim == len(draw.shape) - 1 and draw.shape[-1] == stated.got:
                yield with_draw(attempt, number, replace(draw, shape=(draw.shape[0], stated.want)))
