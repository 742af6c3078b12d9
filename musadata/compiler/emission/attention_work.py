"""What attention by tiles does at given sizes: tiles of keys, bytes, FLOPs and other instructions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from musadata.compiler.emission.attention import PADDING, SIDE, AttentionTile, is_causal, slice_of
from musadata.compiler.emission.tiled import parts_of
from musadata.compiler.ir.scalar import Attended, Scalar
from musadata.compiler.ir.schedule import Schedule, TensorCore
from musadata.compiler.lowering.fusion import Kernel
from musadata.tracing.roofline import itemsize

_OF_SCORE = 20  # instructions: bounds, mask, maximum, exponential and sum
_OF_ELEMENT, _OF_FOUR, _OF_COPY = 12, 4, 2  # for each element: staged alone, four at once, copied in vectors


@dataclass(frozen=True)
class AttentionWork:
    """A kernel with attention by one schedule, at one set of sizes."""

    kernel: Kernel
    schedule: Schedule
    sizes: Mapping[str, int]
    in_vectors: bool

    @cached_property
    def tile(self) -> AttentionTile:
        return AttentionTile.of(self.schedule)

    @cached_property
    def on_cores(self) -> bool:
        """Whether products are those of tensor cores."""
        return self.schedule.find(TensorCore) is not None

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """How many attentions, queries and columns there are, keys, and elements of each."""
        axes = (*parts_of(self.kernel), *((axis,) for axis in self.kernel.reductions[0].axes))
        return tuple(math.prod(axis.extent.evaluate(dict(self.sizes)) for axis in some) for some in axes)

    @cached_property
    def seen(self) -> list[int]:
        """How many keys each tile of queries sees."""
        _, rows, _, keys, _ = self.counts
        ends = (first + self.tile.rows for first in range(0, max(1, rows), self.tile.rows))
        return [min(keys, end) if is_causal(self.kernel) else keys for end in ends]

    @property
    def turns(self) -> list[int]:
        """How many tiles of keys that are."""
        return [max(1, math.ceil(some / self.tile.keys)) for some in self.seen]

    @property
    def others(self) -> int:
        """Blocks for each tile of queries."""
        return self.counts[0] * math.ceil(self.counts[2] / self.tile.cols)

    @property
    def blocks(self) -> int:
        return self.others * len(self.seen)

    @cached_property
    def pairs(self) -> int:
        """Bytes of a key and its value, for all blocks that go along the keys beside each other."""
        _, _, cols, _, depth = self.counts
        _, key, element = map(_bytes_of, self._operands)
        return self.others * (depth * key + min(cols, self.tile.cols) * element)

    @property
    def fetched(self) -> int:
        """Bytes that blocks read: queries once where they stay, with each tile of keys where they do not."""
        _, rows, _, _, depth = self.counts
        queries = self.others * rows * depth * _bytes_of(self._operands[0])
        return self.pairs * sum(self.seen) + queries * (1 if self.on_cores else max(self.turns))

    @property
    def _operands(self) -> tuple[Scalar, Scalar, Scalar]:
        value = self.kernel.reductions[0].value
        assert isinstance(value, Attended)
        return value.query, value.key, value.element

    @cached_property
    def scores(self) -> int:
        """All scores of all tiles, past the ends too."""
        return self.others * sum(self.turns) * self.tile.rows * self.tile.keys

    @property
    def slice(self) -> int:
        """Elements of a query or key that are multiplied at a time."""
        return SIDE if self.on_cores else slice_of(self.kernel)

    @property
    def slices(self) -> int:
        return math.ceil(self.counts[-1] / self.slice)

    @property
    def flops(self) -> int:
        return 2 * self.scores * (self.slices * self.slice + self.tile.cols)

    @property
    def instructions(self) -> int:
        """Those beside the products."""
        tiles, depth = self.others * sum(self.turns), self.slices * self.slice
        pairs = tiles * self.tile.keys * (depth + self.tile.cols)
        own = _OF_FOUR if self.in_vectors else _OF_ELEMENT
        staged = pairs * _OF_COPY if self.on_cores else (pairs + tiles * self.tile.rows * depth) * own
        return self.scores * _OF_SCORE + staged

    @property
    def words(self) -> float:
        """Words that products read from shared memory: a fragment serves two products of tensor cores, 8,192
        multiplications; a thread's rectangle shares those of its queries with its neighbours."""
        down, *along = (size // SIDE for size in (self.tile.rows, self.tile.keys, self.tile.cols))
        each = 1 / 64 if self.on_cores else 1 / down + 1 / min(along) / 4
        return self.flops / 2 * each

    @property
    def held(self) -> int:
        """Registers of a thread that hold sums and scores."""
        wide = self.tile.keys + self.tile.cols
        return wide if self.on_cores else self.tile.rows // SIDE * (wide // SIDE)

    @property
    def rounds(self) -> int:
        """Loads of the longest block that wait for each other: tiles are copied ahead for tensor cores, others come
        slice by slice."""
        return max(self.turns) * (1 if self.on_cores else self.slices + self.tile.keys // SIDE)

    @property
    def evenness(self) -> float:
        """How long blocks are on average, as a share of the longest."""
        return sum(self.turns) / len(self.turns) / max(self.turns)

    @property
    def arrays(self) -> int:
        """Bytes of shared memory of a block whose tiles are arrays of the kernel."""
        rows, keys, cols = (size + PADDING for size in (self.tile.rows, self.tile.keys, self.tile.cols))
        elements = SIDE * (rows + keys + cols) + self.tile.keys * rows
        return 0 if self.on_cores else elements * itemsize(self.kernel.reductions[0].dtype)


def _bytes_of(part: Scalar) -> int:
    """Bytes of memory behind an element."""
    return sum(itemsize(load.buffer.dtype) for load in part.loads)
