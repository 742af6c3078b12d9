"""A corpus on disk: shards, commits, the manifest, and what readers make of them.

Everything is addressed by `corpus` (a path or URL, as a string), a dataset's name and a `Shard(index, count)`.

A stage does, for each of its shards:

    shard = Shard(3, 16)                                    # or: for shard in deal(config.shards)
    before = open_corpus(corpus, needs="stage1", shards=16).stage("stage1")[3]      # or require_commit(...)
    code = code_version(("musadata.tracing.task",), ("torch",))
    digest = stage_digest(code, config.tracing, [before], reads=["tasks"])
    commit, worked = ensure_commit(corpus, "stage2", shard, digest, input_hashes([before], reads=["tasks"]), work)

where `work() -> (outputs, counts)` reads with `read_shard(corpus, "tasks", shard, Task)`, writes with
`write_shard(corpus, "annotations", shard, rows, Annotation)` or, for several datasets at a time, with
`ShardWriter(corpus, dataset, shard, kind)` as a context manager (`.write(row)`, `.outputs` afterwards; `SplitWriter`
for datasets with `DATASETS[name].trainable`, which need a file per split), and counts with
a `Funnel("trace", "reason")` (`came_in`, `went_on`, `dropped(step, reason)`, `.counts()`). Several stages write
`rejects`: each names its files with `name="stage2"`. A dataset that starts with an underscore (`_probed`) is private to
the stages: committed and resumed like any other, but absent from manifest and views.

Before the first stage: `create_corpus(corpus)`. After each stage, when no worker writes any more:
`publish(corpus, config, shards=16)` of `musadata.corpus.publish`, which writes the manifest, the card, the loaders'
descriptions and the report, and deletes what killed and superseded attempts left behind.

To read one: `connect(corpus)` of `musadata.corpus.query` gives DuckDB with a view per dataset.
"""

from musadata.corpus.datasets import DATASETS, Dataset
from musadata.corpus.funnel import Funnel, add_counts
from musadata.corpus.manifest import Corpus, create_corpus, open_corpus, read_manifest, write_manifest
from musadata.storage.code_version import code_version
from musadata.storage.commits import (
    Commit,
    ensure_commit,
    find_commit,
    input_hashes,
    list_commits,
    read_commit,
    require_commit,
    stage_digest,
    withdraw_commit,
    write_commit,
)
from musadata.storage.shards import (
    Output,
    Shard,
    ShardWriter,
    SplitWriter,
    deal,
    read_rows,
    read_shard,
    shard_path,
    write_shard,
)

__all__ = [
    "DATASETS",
    "Commit",
    "Corpus",
    "Dataset",
    "Funnel",
    "Output",
    "Shard",
    "ShardWriter",
    "SplitWriter",
    "add_counts",
    "code_version",
    "create_corpus",
    "deal",
    "ensure_commit",
    "find_commit",
    "input_hashes",
    "list_commits",
    "open_corpus",
    "read_commit",
    "read_manifest",
    "read_rows",
    "read_shard",
    "require_commit",
    "shard_path",
    "stage_digest",
    "withdraw_commit",
    "write_commit",
    "write_manifest",
    "write_shard",
]
