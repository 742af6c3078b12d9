"""Commits: which shards are whole, and what they were made from.

A commit record is written last, after the shards that it names. Its digest is a hash of the code version, the part of
the config that matters and the content of the shards that were read, so a change anywhere upstream is seen downstream,
and an upstream rerun that gives the same bytes costs nothing downstream.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from musadata.errors import MusadataError
from musadata.rows import plain
from musadata.storage import files
from musadata.storage.shards import Output, Shard, run_again

COMMITS = "_commits"


@dataclass(frozen=True)
class Commit:
    """One shard of one stage, done.

    `inputs` are the SHA-256 of the shards that it was made from; `counts` is what `Funnel.counts` gives.
    """

    stage: str
    shard: Shard
    digest: str
    inputs: tuple[str, ...]
    outputs: tuple[Output, ...]
    counts: dict[str, Any] = field(default_factory=dict)

    def output(self, dataset: str) -> Output:
        """The shard that this commit wrote to a dataset."""
        return next(output for output in self.outputs if output.dataset == dataset)


def stage_digest(code_version: str, config: Any, inputs: Sequence[Commit] = (), *, reads: Iterable[str] = ()) -> str:
    """Digest of one shard of a stage: the same digest, the same rows.

    `config` is the part that matters (dataclasses, dicts, plain values), `inputs` the commits that it reads, of which
    only the content of their shards counts; `reads` names the datasets that are read, if not all.
    """
    content = [code_version, plain(config), list(input_hashes(inputs, reads=reads))]
    text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def input_hashes(inputs: Sequence[Commit], *, reads: Iterable[str] = ()) -> tuple[str, ...]:
    """SHA-256 of the shards of these commits, in order; of some datasets only, if `reads` names any."""
    wanted = set(reads)
    return tuple(
        output.sha256 for commit in inputs for output in commit.outputs if not wanted or output.dataset in wanted
    )


def find_commit(corpus: str, stage: str, shard: Shard, digest: str) -> Commit | None:
    """The commit of a shard, None unless it has this digest and its files are whole."""
    commit = read_commit(corpus, stage, shard)
    if commit is None or commit.digest != digest or damage(corpus, commit):
        return None
    return commit


def read_commit(corpus: str, stage: str, shard: Shard) -> Commit | None:
    """The commit of a shard whatever its digest; None where there is none, or only a torn one."""
    path = commit_path(corpus, stage, shard)
    return _read_untorn(path) if files.exists(path) else None


def _read_untorn(path: str) -> Commit | None:
    try:
        return parse_commit(files.read_bytes(path))
    except (ValueError, TypeError, KeyError):
        return None


def require_commit(corpus: str, stage: str, shard: Shard) -> Commit:
    """The commit of a shard that a predecessor must have made.

    Raises:
        MusadataError: there is none, or a file that it names is absent or truncated.
    """
    commit = read_commit(corpus, stage, shard)
    if commit is None:
        raise MusadataError(f"shard {shard} of {stage} is not there", where=corpus, remedy=run_again(stage, corpus))
    for path, trouble in damage(corpus, commit):
        raise MusadataError(trouble, where=path, remedy=f"delete it and {run_again(stage, corpus)}")
    return commit


def damage(corpus: str, commit: Commit, *, verify: bool = False) -> list[tuple[str, str]]:
    """What is wrong with the files of a commit: (path, trouble), empty if they are whole."""
    found = []
    for output in commit.outputs:
        path = files.join(corpus, output.path)
        length = files.size(path)
        if length is None:
            found.append((path, "is committed, but is not there"))
        elif length != output.bytes:
            found.append((path, f"is truncated or altered: {length} bytes, {output.bytes} were committed"))
        elif verify and files.sha256(path) != output.sha256:
            found.append((path, "is altered: its SHA-256 is not the committed one"))
    return found


def ensure_commit(
    corpus: str,
    stage: str,
    shard: Shard,
    digest: str,
    inputs: Sequence[str],
    work: Callable[[], tuple[Iterable[Output], dict[str, Any]]],
) -> tuple[Commit, bool]:
    """The commit of a shard, made by `work` if it is not there yet; and whether work was done.

    `work` writes the shards and returns them with the funnel's counts. An older commit of the shard is withdrawn first,
    so that no record ever names files that are being replaced.
    """
    found = find_commit(corpus, stage, shard, digest)
    if found is not None:
        return found, False
    withdraw_commit(corpus, stage, shard)
    outputs, counts = work()
    commit = Commit(stage, shard, digest, tuple(inputs), tuple(outputs), counts)
    write_commit(corpus, commit)
    return commit, True


def write_commit(corpus: str, commit: Commit) -> None:
    """Record that a shard is done: atomic, and to be called after its shards are in place."""
    text = json.dumps(dataclasses.asdict(commit), indent=1, ensure_ascii=True)
    files.write_atomic(commit_path(corpus, commit.stage, commit.shard), text.encode() + b"\n")


def withdraw_commit(corpus: str, stage: str, shard: Shard) -> None:
    """Forget a commit; its files are overwritten by the next attempt or removed with the next manifest."""
    files.remove(commit_path(corpus, stage, shard))


def list_commits(corpus: str) -> list[Commit]:
    """All readable commits, by stage and shard; torn records count as not there."""
    found = [
        _read_untorn(files.join(corpus, COMMITS, stage, name))
        for stage in files.list_names(files.join(corpus, COMMITS))
        for name in files.list_names(files.join(corpus, COMMITS, stage))
        if name.endswith(".json")
    ]
    commits = [commit for commit in found if commit is not None]
    return sorted(commits, key=lambda commit: (commit.stage, commit.shard.count, commit.shard.index))


@lru_cache(maxsize=1 << 14)
def parse_commit(data: bytes) -> Commit:
    """A commit from its record. Raises ValueError, TypeError or KeyError where it is none."""
    record = json.loads(data)
    shard = Shard(record["shard"]["index"], record["shard"]["count"])
    outputs = tuple(Output(**output) for output in record["outputs"])
    return Commit(record["stage"], shard, record["digest"], tuple(record["inputs"]), outputs, record["counts"])


def commit_path(corpus: str, stage: str, shard: Shard) -> str:
    """Where the record of a shard is kept."""
    return files.join(corpus, COMMITS, stage, f"{shard}.json")
