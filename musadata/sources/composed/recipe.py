"""From an index to a composed module: the structure of that index, in sizes that a CPU can execute."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

from musadata.sources.composed import blocks, chains, images, mixing, programs, recurrence
from musadata.sources.composed.builder import Builder

MAX_WORK = 1 << 23  # multiply-adds: a CPU emulates about 1e7 of them a second
MAX_ELEMENTS = 1 << 19  # of the last value
MAX_TRIES = 40  # sizes drawn for one structure
MAX_STRUCTURES = 200  # structures drawn for one number before it is given up

# How often each is drawn; chosen so that no family of operators is rare among the tasks.
RECIPES: dict[Callable[[Builder], None], float] = {
    partial(chains.listed_chain, "convolution"): 5.0,
    partial(chains.listed_chain, "two_convolutions"): 1.0,
    chains.matrix_chain: 5.0,
    partial(chains.listed_chain, "normalization"): 2.5,
    partial(chains.listed_chain, "softmax"): 2.5,
    chains.pooling_chain: 4.0,
    partial(chains.listed_chain, "reduction"): 2.0,
    partial(chains.listed_chain, "scan"): 1.5,
    partial(chains.listed_chain, "pointwise"): 4.5,
    blocks.feed_forward: 2.0,
    blocks.attention: 3.5,
    images.convolution_block: 2.5,
    recurrence.recurrent_cell: 1.0,
    recurrence.recurrence: 4.0,
    blocks.lookup: 4.0,
    blocks.loss: 5.0,
    mixing.mixing: 2.0,
    blocks.gated_scan: 1.5,
    programs.program: 32.0,
}
NARROW = 0.4  # share of all others that are drawn in a half type


@dataclass(frozen=True)
class Composition:
    """One composed module. `structure`: its decisions in order, unique in a run."""

    structure: tuple[str, ...]
    name: str
    text: str


class NoComposition(Exception):
    """All structures drawn for an index exist already."""


class Structures:
    """The unique structures of a run, by index.

    The structure of an index depends only on the lower indices, so that every process finds the same.
    """

    def __init__(self, seed: int):
        self._seed = seed
        self._chosen: list[int | None] = []  # per number, which of its draws is new
        self._seen: set[tuple[str, ...]] = set()

    def compose(self, index: int) -> Composition:
        """The module of a number.

        Raises:
            NoComposition: what is small enough to be drawn has been drawn.
        """
        while len(self._chosen) <= index:
            self._chosen.append(self._choose(len(self._chosen)))
        draw = self._chosen[index]
        if draw is None:
            raise NoComposition
        return compose(self._seed, index, draw)

    def _choose(self, index: int) -> int | None:
        for draw in range(MAX_STRUCTURES):
            builder = _build(self._seed, index, draw, 0)
            structure = tuple(builder.steps)
            if structure not in self._seen:
                self._seen.add(structure)
                return draw
        return None


def compose(seed: int, index: int, draw: int = 0) -> Composition:
    """The module of one draw of an index, in the first sizes that are small enough, else the smallest."""
    tried = (_build(seed, index, draw, attempt) for attempt in range(MAX_TRIES))
    best: Builder | None = None
    for builder in tried:
        if best is None or builder.work < best.work:
            best = builder
        if builder.work <= MAX_WORK and builder.elements <= MAX_ELEMENTS:
            best = builder
            break
    assert best is not None
    structure = tuple(best.steps)
    return Composition(structure, "-".join(structure), best.text())


def _build(seed: int, index: int, draw: int, attempt: int) -> Builder:
    structure = random.Random(_hash(f"{seed}/{index}/{draw}"))
    builder = Builder(structure, random.Random(_hash(f"{seed}/{index}/{draw}/{attempt}")))
    recipe = structure.choices(list(RECIPES), list(RECIPES.values()))[0]
    recipe(builder)
    if recipe is not programs.program and builder.chance(NARROW):
        builder.dtype = builder.pick(["float16", "bfloat16"])
    return builder


def _hash(text: str) -> int:
    return int.from_bytes(sha256(f"composed/{text}".encode()).digest()[:8], "big")
