"""Writes outside of all allocations, on a real device, where nothing looks at the accesses of a kernel.

PyTorch's allocator cuts its blocks from large segments, so that a kernel without a bounds check writes into memory that
is its own as far as the device knows. Before a call all memory of the segments that is not allocated is filled with a
pattern; after it, all of that which the call has not allocated must still hold it. Only for use inside the sandbox.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from musadata.verifier.sandboxed.cuda_driver import bytes_at

Range = tuple[int, int]  # addresses: first, one past the last
# The allocator's own record, taken before a candidate could replace these names.
_record_history = torch.cuda.memory._record_memory_history
_take_snapshot = torch.cuda.memory._snapshot
_MOST_EVENTS = 100_000
# An allocator that finds no memory returns free segments to the driver; reading them then would break the context.
_GIVEN_BACK = ("segment_free", "segment_unmap")


@dataclass(frozen=True)
class _Memory:
    """The allocator's segments.

    Attributes:
        free: ranges that are not allocated, with the unused ends of blocks that are longer than requested.
        held: the other ranges.
        events: what the allocator has recorded.
    """

    free: tuple[Range, ...]
    held: tuple[Range, ...]
    events: tuple[dict[str, Any], ...]


class OutOfBoundsWatch:
    """Finds what a call writes where it has allocated nothing."""

    def __init__(self) -> None:
        self._pool = torch.cuda.MemPool()  # so that the check allocates nothing in the memory that it checks
        self._free: tuple[Range, ...] = ()
        self._events = 0
        self._pattern = 0

    def begin(self, pattern: int) -> None:
        """Fill all memory that is not allocated with a byte, and record allocations from now on."""
        _record_history("all", context=None, max_entries=_MOST_EVENTS)
        memory = _look()
        self._free, self._events, self._pattern = memory.free, len(memory.events), pattern
        for low, high in self._free:
            _tensor(low, high).fill_(pattern)
        torch.cuda.synchronize()

    def end(self) -> list[str]:
        """A sentence for every range that was written; none if the record of allocations is incomplete."""
        free, self._free = self._free, ()
        try:
            torch.cuda.synchronize()
            return self._find(free) if free else []
        except RuntimeError:  # the call has broken the context; its own error says so
            return []

    def _find(self, free: Sequence[Range]) -> list[str]:
        memory = _look()
        _record_history(None)
        if len(memory.events) >= _MOST_EVENTS:
            return []
        events = memory.events[self._events :]
        allocated = _ranges(events, ("alloc",))
        untouched = _without(free, [*allocated, *_ranges(events, _GIVEN_BACK)])
        if not untouched:
            return []
        with torch.cuda.use_mem_pool(self._pool):
            changed = torch.stack([(_tensor(*one) != self._pattern).any() for one in untouched]).tolist()
            written = [one for one, bad in zip(untouched, changed, strict=True) if bad]
            return [self._describe(one, sorted([*memory.held, *allocated])) for one in written[:4]]

    def _describe(self, written: Range, allocations: Sequence[Range]) -> str:
        low, high = written
        first = low + int((_tensor(low, high) != self._pattern).nonzero()[0, 0])
        before = bisect_right(allocations, (first, first)) - 1
        if before < 0:
            return "a write outside of all device allocations"
        start, end = allocations[before]
        return f"a write {first - end} bytes past the end of a {end - start}-byte device allocation"


def fill_free(pattern: int) -> None:
    """Fill all memory that PyTorch holds and has not allocated with a byte: what a call leaves unwritten shows."""
    for low, high in _look().free:
        _tensor(low, high).fill_(pattern)
    torch.cuda.synchronize()


def _tensor(low: int, high: int) -> torch.Tensor:
    return bytes_at(low, high - low)


def _ranges(events: Sequence[dict[str, Any]], actions: Sequence[str]) -> list[Range]:
    return [(event["addr"], event["addr"] + event["size"]) for event in events if event["action"] in actions]


def _look() -> _Memory:
    snapshot = _take_snapshot()
    free: list[Range] = []
    held: list[Range] = []
    for segment in snapshot["segments"]:
        if tuple(segment.get("segment_pool_id", (0, 0))) != (0, 0):
            continue  # the pool of this check, or of a captured graph
        for block in segment["blocks"]:
            start, end = block["address"], block["address"] + block["size"]
            used = start if block["state"] == "inactive" else start + block.get("requested_size", block["size"])
            held += [(start, used)] if used > start else []
            free += [(used, end)] if used < end else []
    traces = snapshot["device_traces"]
    events = traces[torch.cuda.current_device()] if traces else []
    return _Memory(tuple(sorted(free)), tuple(sorted(held)), tuple(events))


def _without(ranges: Sequence[Range], taken: Sequence[Range]) -> list[Range]:
    """The parts of `ranges` that no range of `taken` touches."""
    left: list[Range] = []
    marks = sorted(taken)
    for low, high in ranges:
        at = low
        for start, end in marks:
            if end <= at or start >= high:
                continue
            if start > at:
                left.append((at, start))
            at = max(at, end)
        if at < high:
            left.append((at, high))
    return left
