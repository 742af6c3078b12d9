"""Corpora made of the shards of others: without the rows of a repository, or of several corpora.

Shards that do not change stay as they are. The commit of a rewritten shard follows it, and so do the commits of what
was made from it, which then name its new content.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from musadata.config import Config
from musadata.corpus.datasets import DATASETS
from musadata.corpus.manifest import Corpus, create_corpus, open_corpus, read_manifest
from musadata.corpus.publish import publish
from musadata.errors import MusadataError
from musadata.records import Kernel, Task
from musadata.rows import restore
from musadata.storage import files
from musadata.storage.commits import Commit, write_commit
from musadata.storage.lock import lock_corpus
from musadata.storage.shards import Output, Shard, ShardWriter, parse_shard_name, read_rows

Keeps = Callable[[str, Any], bool]  # dataset, row
_INTERNAL: dict[str, type[Any]] = {"_probed": Task, "_kernels": Kernel}


@dataclass(frozen=True)
class Forgotten:
    """What `forget` took out: rows by dataset, and how many shards of how many were written anew."""

    rows: dict[str, int]
    rewritten: int
    shards: int


def forget(path: str, repository: str) -> Forgotten:
    """Take the tasks and kernels of a repository out of a corpus, and all that was made from them.

    Args:
        repository: as `provenance.repository` or `provenance.origin` names it.

    Raises:
        MusadataError: not a corpus, or nothing in it is of that repository.
    """
    with lock_corpus(path):
        corpus, config = open_corpus(path), _config(path)
        wanted = _plain_address(repository)
        tasks, origins, kernels = _rows_of(corpus, wanted)
        if not origins:
            raise MusadataError(
                f"has nothing of {repository}",
                where=path,
                remedy="its repositories: musadata query CORPUS 'SELECT DISTINCT provenance.repository FROM tasks'",
            )
        gone = {*tasks, *kernels}

        def keeps(dataset: str, row: Any) -> bool:
            if dataset == "rejects":
                about = row.origin
                return about not in gone and wanted not in about and not about.startswith(tuple(origins))
            if hasattr(row, "provenance"):
                return _is_of(row.provenance, wanted) is False
            return row.task_id not in tasks and _kernel_of(row) not in kernels

        def note(dataset: str, row: Any) -> None:
            if dataset in DATASETS:
                rows[dataset] = rows.get(dataset, 0) + 1
                gone.add(getattr(row, DATASETS[dataset].key))  # what its rejects name

        rows: dict[str, int] = {}
        rewritten = _rewrite(corpus, keeps, note)
        publish(path, config, shards=config.shards)
    return Forgotten(rows, rewritten, sum(len(commit.outputs) for commit in corpus.commits))


def _config(path: str) -> Config:
    return restore(Config, read_manifest(path)["config"])


def _plain_address(repository: str) -> str:
    return repository.removeprefix("git:").rstrip("/").removesuffix(".git")


def _is_of(provenance: Any, wanted: str) -> bool:
    return wanted in (_plain_address(provenance.repository), _plain_address(provenance.origin))


def _rows_of(corpus: Corpus, wanted: str) -> tuple[set[str], set[str], set[str]]:
    """The tasks of a repository, their origins, and its kernels."""
    tasks, origins, kernels = set(), set(), set()
    for dataset in (*_INTERNAL, "tasks", "kernels"):
        for shard in corpus.paths(dataset):
            for row in read_rows(shard, _kind(dataset)):
                if _is_of(row.provenance, wanted):
                    origins.add(row.provenance.origin)
                    if isinstance(row, Kernel):
                        kernels.add(row.kernel_id)
                    else:
                        tasks.add(row.task_id)
    return tasks, origins, kernels


def _kernel_of(row: Any) -> str:
    """The mined kernel that a row of `sft` was made from, as its evidence says; "" for none."""
    _, found, rest = getattr(row, "evidence", "").partition('"kernel_id": "')
    return rest.partition('"')[0] if found else ""


def _rewrite(corpus: Corpus, keeps: Keeps, note: Callable[[str, Any], None]) -> int:
    """Write the shards anew that hold rows to drop, rejects last, and their commits; returns how many."""
    written: dict[str, Output] = {}
    for dataset in sorted({*DATASETS, *_INTERNAL}, key=lambda name: name == "rejects"):
        for output in corpus.outputs(dataset):
            if new := _without(corpus.path, output, keeps, note):
                written[output.path] = new
    before = [one for commit in corpus.commits for one in commit.outputs if one.path in written]
    hashes = {one.sha256: written[one.path].sha256 for one in before}
    for commit in corpus.commits:
        outputs = tuple(written.get(one.path, one) for one in commit.outputs)
        inputs = tuple(hashes.get(one, one) for one in commit.inputs)
        if (outputs, inputs) != (commit.outputs, commit.inputs):
            write_commit(corpus.path, dataclasses.replace(commit, outputs=outputs, inputs=inputs))
    return len(written)


def _without(corpus: str, output: Output, keeps: Keeps, note: Callable[[str, Any], None]) -> Output | None:
    """The shard without the rows to drop; None where it has none of them. It is read twice: few rows are in memory."""
    kind, path = _kind(output.dataset), files.join(corpus, output.path)
    doomed = [row for row in read_rows(path, kind) if not keeps(output.dataset, row)]
    for row in doomed:
        note(output.dataset, row)
    if not doomed and files.size(path) == output.bytes:  # another length: an earlier attempt ended before its commit
        return None
    return _write(corpus, output, (row for row in read_rows(path, kind) if keeps(output.dataset, row)))


def _kind(dataset: str) -> type[Any]:
    return _INTERNAL.get(dataset) or DATASETS[dataset].kind


def _write(corpus: str, output: Output, rows: Iterator[Any], shard: Shard | None = None) -> Output:
    """Rows as a shard of the name of another one, or in another place."""
    parsed = parse_shard_name(output.path.rpartition("/")[2])
    if parsed is None:
        raise ValueError(output.path)
    with ShardWriter(corpus, output.dataset, shard or parsed[1], _kind(output.dataset), name=parsed[0]) as writer:
        for row in rows:
            writer.write(row)
    return writer.output


def merge(paths: Sequence[str], target: str) -> dict[str, int]:
    """Make one corpus of several: all of the first, and of each further one the rows of tasks that are new.

    Returns rows by dataset. The journals of the others are not taken over, so the merged corpus is for readers and
    trainers; a stage that is run on it makes it anew.

    Raises:
        MusadataError: one is not a corpus, or the target is there already.
    """
    corpora = [open_corpus(path) for path in paths]
    configs = [_config(path) for path in paths]
    for corpus in corpora:
        for error in corpus.damage():
            raise error
    if files.list_names(target):
        raise MusadataError("is there already", where=target, remedy="name a new or empty folder")
    create_corpus(target)
    stages = {stage: [corpus.stage(stage) for corpus in corpora] for corpus in corpora for stage in corpus.stages}
    seen: set[str] = set()
    drops = []
    for corpus in corpora:
        own = {row.task_id for shard in corpus.paths("tasks") for row in read_rows(shard, Task)}
        own |= {row.kernel_id for shard in corpus.paths("kernels") for row in read_rows(shard, Kernel)}
        drops.append(own & seen)
        seen |= own
    for several in stages.values():
        counts = [commits[0].shard.count if commits else 0 for commits in several]
        for index, commits in enumerate(several):
            for commit in commits:
                shard = Shard(sum(counts[:index]) + commit.shard.index, sum(counts))
                _copy_commit(paths[index], target, commit, shard, drops[index])
    manifest = publish(target, dataclasses.replace(configs[0], shards=sum(one.shards for one in configs)))
    return {name: found["rows"] for name, found in manifest["datasets"].items()}


def _copy_commit(source: str, target: str, commit: Commit, shard: Shard, drop: set[str]) -> None:
    """A commit's shards in another corpus and place. Rows are written in any case, so that inputs cannot be named."""
    outputs = []
    for output in commit.outputs:
        if output.dataset.startswith("_"):
            continue
        rows = read_rows(files.join(source, output.path), _kind(output.dataset))
        kept = (row for row in rows if drop.isdisjoint((getattr(row, "task_id", ""), getattr(row, "kernel_id", ""))))
        outputs.append(_write(target, output, kept, shard))
    write_commit(target, Commit(commit.stage, shard, commit.digest, (), tuple(outputs), commit.counts))
