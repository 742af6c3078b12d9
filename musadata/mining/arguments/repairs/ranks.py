"""Corrections of a failed attempt by the number of dimensions that its error message asks for."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from musadata.mining.arguments.attempts import Attempt, with_draw
from musadata.mining.reading.messages import Said, type_of

MAX_RANK = 6  # of a sequence of volumes
STARRED = re.compile(r"\*\s*(\w+)\.(?:shape|size\(\))")  # `b, n, _, h = *x.shape, self.heads`


def is_of_rank(error: str) -> bool:
    """Whether a message tells of dimensions before it tells of sizes."""
    return bool(_ranks(error) or any(said.read(error) for said in (Said.AXIS, Said.RANKS, Said.SCALAR)))


def _ranks(error: str) -> list[tuple[int, bool]]:
    """The numbers of dimensions that a message names, and whether each is what there is."""
    return [(int(found["rank"]), bool(found["got"])) for found in Said.RANK.all(error) if found["rank"]]


def change_rank(attempt: Attempt, error: str, line: str, named: Sequence[int] = ()) -> Iterator[Attempt]:
    """Another number of dimensions of one input, of those that the failing line names first; of all that are alike."""
    yield from _shift_rank(attempt, error, line, named)
    axis, unpacked, ranks = Said.AXIS.read(error), Said.UNPACK.read(error), Said.RANKS.read(error)
    wanted = [int(axis[1]) + 1 if int(axis[1]) >= 0 else -int(axis[1])] if axis else []
    wanted += [rank for rank, _ in _ranks(error)] + ([int(ranks["got"]), int(ranks["want"])] if ranks else [])
    wanted += [int(unpacked["want"])] if unpacked else []
    if Said.SCALAR.read(error):  # an item was read with too few indices
        wanted += [found.count(",") + 1 for found in re.findall(r"\w\[([\w, ]+)\]", line)]
        wanted += [len(attempt.draws[number].shape) - 1 for number in named]
    of_table = Said.SHARES.read(error) or (Said.SEQUENCE.read(error) and not re.search(r"shape|size|dim", line))
    if (type_of(error) == "IndexError" and not of_table) or Said.RANK.read(error):
        wanted += [max((len(draw.shape) for draw in attempt.draws), default=1) + 1, 2, 3, 4]
    order = range(len(attempt.draws))[:: -1 if ranks else 1]
    for rank in dict.fromkeys(rank for rank in wanted if 1 <= rank <= MAX_RANK):
        for number in dict.fromkeys([*named, *order]):
            draw = attempt.draws[number]
            if draw.kind != "literal" and len(draw.shape) != rank:
                shape = reshape(draw.shape, rank)
                yield with_draw(attempt, number, replace(draw, shape=shape))
                alike = [replace(item, shape=shape) if item.shape == draw.shape else item for item in attempt.draws]
                yield replace(attempt, draws=tuple(alike))


def _shift_rank(attempt: Attempt, error: str, line: str, named: Sequence[int]) -> Iterator[Attempt]:
    """As many dimensions more or fewer of one input as the message says: layers before may have added some."""
    joined = Said.RANKS.read(error)
    tokens = [number for number, draw in enumerate(attempt.draws) if draw.kind == "randint"] if joined else []
    for missing in _missing_dimensions(error, line):
        for number in dict.fromkeys([*tokens, *named, *range(len(attempt.draws))]):
            draw = attempt.draws[number]
            rank = len(draw.shape) + missing
            if draw.kind != "literal" and 1 <= rank <= MAX_RANK and rank != len(draw.shape):
                yield with_draw(attempt, number, replace(draw, shape=reshape(draw.shape, rank)))


def _missing_dimensions(error: str, line: str) -> Iterator[int]:
    """How many dimensions a message says are missing, or too many if negative."""
    unpacked, joined = Said.UNPACK.read(error), Said.RANKS.read(error)
    if unpacked and unpacked["got"] and STARRED.search(line):
        yield int(unpacked["want"]) - int(unpacked["got"])
    if joined:
        yield from (int(joined["want"]) - int(joined["got"]), int(joined["got"]) - int(joined["want"]))
    ranks = _ranks(error)
    for got in [rank for rank, is_got in ranks if is_got][:1]:
        yield from (rank - got for rank, is_got in ranks if not is_got)


def reshape(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """A shape of another rank that keeps the leading sizes and appends new distinct ones."""
    fresh = [size for size in (7, 11, 13, 9, 15) if size not in shape]
    return (*shape[:rank], *fresh[: max(0, rank - len(shape))])
