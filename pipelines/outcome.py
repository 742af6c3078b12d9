"""What a run came to: failed requests that can be sent again, a stage that made nothing, and room on the disk."""

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from musadata.corpus.manifest import open_corpus
from musadata.errors import MusadataError
from musadata.records import Reject
from musadata.storage.commits import list_commits, withdraw_commit
from musadata.storage.shards import read_shard
from musadata.teacher.protocol import REQUEST_FAILED
from musadata.verifier.compilation.build_cache import cache_folder, require_room

LEAST_ROOM = 200 << 20
NO_LICENSE = "license: none is known"
_MOST_REASONS = 3


class NothingMade(MusadataError):
    """A stage has ended without a row for the next one."""


def reopen_failed(corpus: str, stages: Sequence[str]) -> None:
    """Withdraw the commits of shards in which requests failed, so that only these requests are made again."""
    for commit in list_commits(corpus):
        if commit.stage in stages and _failed(commit.counts):
            withdraw_commit(corpus, commit.stage, commit.shard)


def remarks_on_failures(corpus: str, manifest: dict[str, Any], stage: str) -> Iterator[str]:
    """What the user should know of requests that failed."""
    failed = _failed(manifest["funnel"].get(stage, {}))
    if failed:
        said = "; ".join(f"{count} times {reason}" for reason, count in _reasons(corpus, stage, REQUEST_FAILED))
        yield f"{failed} requests failed ({said}); the same command with --retry-failed sends them again"


def require_rows(corpus: str, manifest: dict[str, Any], stage: str, dataset: str) -> None:
    """Nothing if a stage has made rows.

    Raises:
        NothingMade: it has not; the message says why rows were dropped, in the server's words where it was asked.
    """
    parts = [name for name in manifest["funnel"] if name.partition(".")[0] == stage]
    if not parts or manifest["datasets"].get(dataset, {}).get("rows"):
        return
    reasons = [reason for part in parts for reason in _reasons(corpus, part)]
    said = "; ".join(f"{count} times {reason}" for reason, count in reasons)
    remedy = "mend what was dropped most; `--retry-failed` sends failed requests again"
    if any(reason == NO_LICENSE for reason, _ in reasons):
        remedy = "say `license:` for a source whose files state none, or put a LICENSE file beside them"
    raise NothingMade(f"{stage} made no {dataset}: {said or 'nothing came in'}", where=corpus, remedy=remedy)


def check_disks(corpus: str, *, here: bool) -> None:
    """Nothing if there is room for a local corpus and, if the work is done here, for what it builds and its temporary
    files.

    Raises:
        Outage: there is too little.
    """
    if "://" not in corpus:
        require_room(Path(corpus), LEAST_ROOM, "make room there")
    if here:
        require_room(cache_folder(), LEAST_ROOM)
        require_room(Path(tempfile.gettempdir()), LEAST_ROOM)


def _failed(counts: dict[str, Any]) -> int:
    return sum(step["dropped"].get(REQUEST_FAILED, 0) for step in counts.values())


def _reasons(corpus: str, stage: str, only: str = "") -> list[tuple[str, int]]:
    """The most frequent reasons of a stage's rejects, with their details but not the number of sample and turn."""
    found: Counter[str] = Counter()
    for commit in open_corpus(corpus).stage(stage):
        for reject in read_shard(corpus, "rejects", commit.shard, Reject, name=f"rejects-{stage}"):
            if only in ("", reject.reason):
                detail = reject.detail.partition(": ")[2] if reject.detail.startswith("sample ") else reject.detail
                found[f"{reject.reason}: {detail}".rstrip(": ")] += 1
    return found.most_common(_MOST_REASONS)
