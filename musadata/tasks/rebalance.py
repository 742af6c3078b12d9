"""Dealing kept tasks evenly over shards: a file with many modules must not make one shard half of a run's work.

All kept rows in the order of the shards that hold them are cut into ranges of equal length, one for each shard. So each
shard is made of few neighbouring ones, and none is read more often than it has parts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from musadata.storage.shards import SPLITS
from musadata.tasks.selection import KEPT, Integers


@dataclass(frozen=True)
class Part:
    """Rows of one probed shard that another shard, or the same, keeps; `rows` in ascending order."""

    source: int
    rows: Integers


@dataclass(frozen=True)
class Selection:
    """What becomes of the probed tasks: for each probed shard a byte a row, an index into `selection.DECISIONS`, and
    another one, an index into `SPLITS`."""

    decisions: tuple[bytes, ...] = ()
    splits: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, decisions: Integers, splits: Integers, rows: Sequence[int]) -> "Selection":
        """From the decisions and splits of all rows, and how many rows each probed shard has."""
        ends = np.cumsum(rows)
        parts = [slice(end - count, end) for end, count in zip(ends, rows, strict=True)]
        return cls(tuple(decisions[one].tobytes() for one in parts), tuple(splits[one].tobytes() for one in parts))

    def splits_of(self, source: int) -> list[str]:
        """The split of each row of a probed shard."""
        return [SPLITS[split] for split in self.splits[source]]

    def parts(self, target: int) -> list[Part]:
        """What shard `target` is made of. Sizes of shards differ by at most one."""
        kept = [np.flatnonzero(np.frombuffer(some, np.uint8) == KEPT) for some in self.decisions]
        ends = np.cumsum([len(rows) for rows in kept])
        total = int(ends[-1]) if len(ends) else 0
        first, last = target * total // len(kept), (target + 1) * total // len(kept)
        parts = []
        for source, (rows, end) in enumerate(zip(kept, ends.tolist(), strict=True)):
            start = end - len(rows)
            chosen = rows[max(0, first - start) : max(0, last - start)]
            if len(chosen):
                parts.append(Part(source, chosen))
        return parts
