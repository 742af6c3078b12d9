"""What every shard of stage 1 is made from, listed once when a run begins.

All workers go by the same list, whatever a source holds by the time that they open it: what has vanished since is
missed and reported, and what has appeared since is not read by some of them only.
"""

import json
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass

from musadata.errors import MusadataError
from musadata.storage import files
from musadata.storage.shards import Shard, deal, run_again, shard_of

_JOURNALS, _UNITS = ("_journal", "stage1"), "units.json"


@dataclass(frozen=True)
class Listed:
    """The units that one source has in one shard.

    Attributes:
        source: which of the config's sources.
        origin, revision: what rows call it, and what was there.
    """

    source: int
    origin: str
    revision: str
    units: tuple[str, ...]


def deal_units(sources: Iterable[tuple[str, str, Iterable[str]]], count: int) -> dict[Shard, list[Listed]]:
    """The units of all sources (origin, revision, units), by shard.

    Each goes where its own name sends it, so that no source moves what belongs to another.
    """
    dealt: dict[Shard, list[Listed]] = {shard: [] for shard in deal(count)}
    for index, (origin, revision, units) in enumerate(sources):
        found: dict[Shard, list[str]] = {}
        for unit in units:
            found.setdefault(shard_of(f"{origin}/{unit}", count), []).append(unit)
        for shard, some in found.items():
            dealt[shard].append(Listed(index, origin, revision, tuple(some)))
    return dealt


def write_listing(corpus: str, shard: Shard, listed: Iterable[Listed]) -> None:
    """Keep what a shard is made from, for whichever worker makes it."""
    data = json.dumps([asdict(one) for one in listed], indent=1).encode() + b"\n"
    files.write_if_changed(_path(corpus, shard), data)


def read_listing(corpus: str, shard: Shard) -> list[Listed]:
    """What a shard is made from.

    Raises:
        MusadataError: it was not written, or cannot be read.
    """
    path = _path(corpus, shard)
    try:
        return [Listed(**{**one, "units": tuple(one["units"])}) for one in json.loads(files.read_bytes(path))]
    except (ValueError, TypeError, KeyError) as error:
        raise MusadataError("is no list of units", where=path, remedy=run_again("stage1", corpus)) from error


def forget_others(corpus: str, count: int, journals: Collection[str]) -> None:
    """Delete what stage 1 kept for another count of shards, and the journals that are not named: other code's."""
    current = {str(shard) for shard in deal(count)}
    folder = files.join(corpus, *_JOURNALS)
    for name in files.list_names(folder):
        if name.endswith(".jsonl"):
            doomed = [name] if name.partition(".")[0] not in journals else []
        else:
            kept = {_UNITS} if name in current else set()
            doomed = [f"{name}/{inner}" for inner in files.list_names(files.join(folder, name)) if inner not in kept]
        for one in doomed:
            files.remove(files.join(folder, one))


def _path(corpus: str, shard: Shard) -> str:
    return files.join(corpus, *_JOURNALS, str(shard), _UNITS)
