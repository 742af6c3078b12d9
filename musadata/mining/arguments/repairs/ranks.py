"""Corrections of a failed attempt by the number of dimensions that its error message asks for."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from musadata.mining.arguments.attempts import Attempt, with_draw

MAX_RANK = 6  # of a sequence of volumes
RANK = re.compile(
    r"(\d)-?D\b|(\d)-dimensional|expected (\d)\)?,? (?:got|dim)|expected (\d)[), ]"
    r"|number of dimensions: got (\d)|must be a (matrix)|n?dim(?:ension)?s?(?:\(\))? (?:==|=|of|should be|must be) (\d)"
    r"|len\(dims\) = (\d)|<= (\d) dimensions"
)
AXIS = re.compile(r"Dimension out of range \(expected to be in range of \[-?\d+, -?\d+\], but got (-?\d)\)")
SCALAR = re.compile(r"Boolean value of Tensor|cannot be converted to Scalar|only one element tensors")
# The rank that there is, and the one that is wanted.
RANKS = tuple(
    map(
        re.compile,
        (
            r"dim\(\) = (?P<got>\d) is not equal to len\(dims\) = (?P<want>\d)",
            r"number of dimensions: got (?P<got>\d) and (?P<want>\d)",
            r"number of dimensions: got (?P<want>\d) and (?P<got>\d)",
            r"[Ee]xpected (?P<want>\d)-dimensional input .* got (?P<got>\d)-dimensional",
            r"batch1 must be a (?P<want>3)D tensor, got (?P<got>\d)D",
            r"[Ee]xpected (?P<want>\d)D (?:tensor|input)?,? ?\(?got (?P<got>\d)D",
            r"must have (?P<want>\d) dimensions,? (?:but )?got (?P<got>\d)",
        ),
    )
)
SPATIAL = re.compile(r"spatial dimensions of \[(?P<got>[\d, ]+)\] and output size of \((?P<want>[\d, ]+)\)")
JOINED = "number of dimensions: got"  # of several tensors, of which the line may read an embedding of tokens
EXPANDED = re.compile(r"number of sizes provided \((\d)\) must be greater .* in the tensor \((\d)\)")
# `b, n, _, h = *x.shape, self.heads`: more is unpacked than the dimensions.
STARRED = re.compile(
    r"\*\s*(\w+)\.(?:shape|size\(\)).*not enough values to unpack \(expected (\d+), got (\d+)", re.DOTALL
)
UNPACK = re.compile(r"values to unpack \(expected (\d)")


def is_of_rank(error: str) -> bool:
    """Whether a message tells of dimensions before it tells of sizes."""
    found = [pattern.search(error) for pattern in (AXIS, EXPANDED, SCALAR, SPATIAL, *RANKS)]
    return any(found)


def change_rank(attempt: Attempt, error: str, line: str, named: Sequence[int] = ()) -> Iterator[Attempt]:
    """Another number of dimensions of one input, of those that the failing line names first; of all that are alike."""
    starred = STARRED.search(f"{line} {error}")
    for number in named if starred else ():
        draw = attempt.draws[number]
        rank = len(draw.shape) + int(starred[2]) - int(starred[3]) if starred else 0
        yield with_draw(attempt, number, replace(draw, shape=reshape(draw.shape, rank)))
    wanted = [int(axis) + 1 if int(axis) >= 0 else -int(axis) for axis in AXIS.findall(error)]
    wanted += [2 if text == "matrix" else int(text) for found in RANK.findall(error) for text in found if text]
    wanted += [int(text) for text in UNPACK.findall(error)]
    yield from _shift_rank(attempt, error, named)
    expanded = EXPANDED.search(error)
    if expanded:
        ranks = [len(attempt.draws[number].shape) for number in named]
        wanted += [rank + int(expanded[1]) - int(expanded[2]) for rank in ranks]
    if SCALAR.search(error):  # an item was read with too few indices
        wanted += [found.count(",") + 1 for found in re.findall(r"\w\[([\w, ]+)\]", line)]
        wanted += [len(attempt.draws[number].shape) - 1 for number in named]
    of_plain = re.search("(tuple|list) index", error) and not re.search(r"shape|size|dim", line)
    by_index = "IndexError" in error and "out of range in self" not in error and not of_plain  # nor of an embedding
    if by_index or "Dimension out of range" in error or "dims" in error or "dimension" in error:
        wanted += [max((len(draw.shape) for draw in attempt.draws), default=1) + 1, 2, 3, 4]
    for rank in dict.fromkeys(wanted):
        if not 1 <= rank <= MAX_RANK:
            continue
        last_first = -1 if "number of dimensions: got" in error else 1
        for number in dict.fromkeys([*named, *range(len(attempt.draws))[::last_first]]):
            draw = attempt.draws[number]
            if draw.kind != "literal" and len(draw.shape) != rank:
                shape = reshape(draw.shape, rank)
                yield with_draw(attempt, number, replace(draw, shape=shape))
                alike = [replace(item, shape=shape) if item.shape == draw.shape else item for item in attempt.draws]
                yield replace(attempt, draws=tuple(alike))


def _shift_rank(attempt: Attempt, error: str, named: Sequence[int]) -> Iterator[Attempt]:
    """As many dimensions more or fewer of one input as the message says: layers before may have added some."""
    tokens = [number for number, draw in enumerate(attempt.draws) if draw.kind == "randint"] if JOINED in error else []
    for missing in _missing_dimensions(error):
        for number in dict.fromkeys([*tokens, *named, *range(len(attempt.draws))]):
            draw = attempt.draws[number]
            rank = len(draw.shape) + missing
            if draw.kind != "literal" and 1 <= rank <= MAX_RANK and rank != len(draw.shape):
                yield with_draw(attempt, number, replace(draw, shape=reshape(draw.shape, rank)))


def _missing_dimensions(error: str) -> Iterator[int]:
    """How many dimensions a message says are missing, or too many if negative."""
    for match in filter(None, (pattern.search(error) for pattern in RANKS)):
        yield int(match["want"]) - int(match["got"])
    sides = SPATIAL.search(error)
    if sides:
        yield sides["want"].count(",") - sides["got"].count(",")


def unpack(attempt: Attempt, error: str, line: str, named: Sequence[int]) -> Iterator[Attempt]:
    """As many rows of an input as the code unpacks it to, or items in each row where a loop unpacks the rows."""
    if re.search(r"shape|size\(", line):
        return
    count, dim = int(UNPACK.findall(error)[0]), 1 if re.match(r"for\b", line) else 0
    for number in named:
        shape = attempt.draws[number].shape
        if len(shape) > dim:
            yield with_draw(
                attempt, number, replace(attempt.draws[number], shape=(*shape[:dim], count, *shape[dim + 1 :][:1]))
            )


def reshape(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """A shape of another rank that keeps the leading sizes and appends new distinct ones."""
    fresh = [size for size in (7, 11, 13, 9, 15) if size not in shape]
    return (*shape[:rank], *fresh[: max(0, rank - len(shape))])
