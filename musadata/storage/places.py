"""Where the records of a journal stand, by their keys: 40 bytes a record, in sorted arrays."""

import hashlib
from array import array
from typing import Any

import numpy as np

_DIGEST_BYTES = 16
_FEWEST_TO_SORT = 1 << 16


class Places:
    """A mapping from keys to places: the number of a segment, the first byte of a record in it, and its length.

    New places wait in the order in which they came; they are sorted in when they are as many as those that are sorted,
    so that a million records are sorted a few times. A key keeps its first place, unless it was `drop`ped.
    """

    def __init__(self) -> None:
        self._digests: np.ndarray[Any, Any] = np.empty(0, f"S{_DIGEST_BYTES}")
        self._places: np.ndarray[Any, Any] = np.empty((0, 3), np.int64)
        self._new_digests, self._new_places = bytearray(), array("q")
        self._recent: dict[bytes, tuple[int, int, int]] = {}  # of those that `add` was told, by their keys
        self._dropped: set[bytes] = set()

    def scan(self, key: bytes, segment: int, start: int, length: int) -> None:
        """Note a record that was found in a segment; `find` knows it after `sort`."""
        self._new_digests += _digest(key)
        self._new_places.extend((segment, start, length))
        if len(self._new_digests) > _DIGEST_BYTES * max(_FEWEST_TO_SORT, len(self._digests)):
            self.sort()

    def add(self, key: bytes, segment: int, start: int, length: int) -> None:
        """Note a record that was just written; `find` knows it at once."""
        self._dropped.discard(key)
        self._recent[key] = (segment, start, length)
        if len(self._recent) > _FEWEST_TO_SORT + len(self._digests) // 8:
            for recent, place in self._recent.items():
                self._new_digests += _digest(recent)
                self._new_places.extend(place)
            self._recent.clear()
            self.sort()

    def drop(self, key: bytes) -> None:
        """Take a key for unknown: there is no such record where it should be."""
        self._recent.pop(key, None)
        self._dropped.add(key)

    def find(self, key: bytes) -> tuple[int, int, int] | None:
        """The place of a key's record."""
        if key in self._recent or key in self._dropped:
            return self._recent.get(key)
        if not len(self._digests):  # most journals of a new run: numpy's search costs more than all the rest
            return None
        digest = _digest(key)
        at = int(np.searchsorted(self._digests, np.bytes_(digest)))
        if at == len(self._digests) or self._digests[at] != np.bytes_(digest):
            return None
        segment, start, length = self._places[at].tolist()
        return segment, start, length

    def sort(self) -> None:
        """Sort in what `scan` was told."""
        if not self._new_digests:
            return
        digests = np.concatenate([self._digests, np.frombuffer(bytes(self._new_digests), self._digests.dtype)])
        places = np.concatenate([self._places, np.frombuffer(self._new_places, np.int64).reshape(-1, 3)])
        self._new_digests, self._new_places = bytearray(), array("q")
        self._digests, first = np.unique(digests, return_index=True)
        self._places = places[first]

    def __len__(self) -> int:
        known = sum(not self._is_sorted_in(key) for key in self._recent)
        return len(self._digests) + known - sum(map(self._is_sorted_in, self._dropped))

    def _is_sorted_in(self, key: bytes) -> bool:
        digest = _digest(key)
        at = int(np.searchsorted(self._digests, np.bytes_(digest)))
        return at < len(self._digests) and bool(self._digests[at] == np.bytes_(digest))


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()[: _DIGEST_BYTES - 1] + b"."  # numpy drops zeros at the end
