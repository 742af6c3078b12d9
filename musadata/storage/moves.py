"""Which shards may have got tasks from others, so that what was paid for them is looked for where it was journalled.

Spreading tasks evenly moves some to another shard whenever a source or the number of shards changes, and the journals
of the later stages lie below shards. Reading those of all shards is worth it then, and only then: a first run, or one
that goes on after a crash, would read through everything for nothing. So stage 1 leaves a mark in the journals of a
shard before its tasks change, and each later stage takes its own away when it has committed the shard.
"""

from musadata.storage import files
from musadata.storage.commits import commit_path
from musadata.storage.shards import Shard, deal

LATER_STAGES = ("stage2", "stage3")
_JOURNALS, _MARK = "_journal", "moved"


def expect_moves(corpus: str, shard: Shard) -> None:
    """To be called before stage 1 writes the tasks of a shard: mark it if it had others, or they were elsewhere."""
    replaced = files.exists(commit_path(corpus, "stage1", shard))
    for stage in LATER_STAGES:
        if replaced or _has_other_counts(corpus, stage, shard.count):
            files.write_atomic(_mark(corpus, stage, shard), b"")


def may_have_moved(corpus: str, stage: str, shard: Shard) -> bool:
    """Whether tasks of a shard may be known to the journals of others."""
    return files.exists(_mark(corpus, stage, shard))


def settle_moves(corpus: str, stage: str, shard: Shard) -> None:
    """To be called when a stage has committed a shard: its own journals hold all that it needs."""
    files.remove(_mark(corpus, stage, shard))


def _has_other_counts(corpus: str, stage: str, count: int) -> bool:
    current = {str(shard) for shard in deal(count)}
    return any(folder not in current for folder in files.list_names(files.join(corpus, _JOURNALS, stage)))


def _mark(corpus: str, stage: str, shard: Shard) -> str:
    return files.join(corpus, _JOURNALS, stage, str(shard), _MARK)
