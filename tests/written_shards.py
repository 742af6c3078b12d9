"""Writing a whole shard at once."""

from collections.abc import Iterable
from typing import Any

from musadata.storage.shards import Output, Shard, ShardWriter, is_split


def write_shard(corpus: str, dataset: str, shard: Shard, rows: Iterable[Any], kind: type, *, name: str = "") -> Output:
    """Write `rows` (dataclasses of `kind`, in the order to keep) as one shard, through a temporary name.

    Raises:
        MusadataError: the file system refuses.
    """
    name = name or ("train" if is_split(dataset, kind) else "")
    with ShardWriter(corpus, dataset, shard, kind, name=name) as writer:
        for row in rows:
            writer.write(row)
    return writer.output
