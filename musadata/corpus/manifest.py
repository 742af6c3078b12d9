"""The manifest: what is in a corpus, and the checks with which every reader and stage opens one."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from musadata.config import Config
from musadata.corpus.datasets import DATASETS
from musadata.corpus.funnel import add_counts
from musadata.errors import MusadataError
from musadata.records import SCHEMA_VERSION
from musadata.rows import plain
from musadata.storage import files
from musadata.storage.attempts import TEMPORARY_SUFFIX
from musadata.storage.code_version import code_version
from musadata.storage.commits import COMMITS, Commit, commit_path, damage, list_commits
from musadata.storage.shards import SPLITS, Output, read_file_columns, run_again
from musadata.tasks.balance import sampling_weights
from musadata.tasks.splits import LEAST_TASKS, split_size

MANIFEST = "manifest.json"
_MARKER = "corpus.json"  # in _commits/: this folder is a corpus, even before anything is committed
_STAGES = ("stage1.probe", "stage1", "stage2", "stage3")  # then further steps of stage 3


@dataclass(frozen=True)
class Corpus:
    """A corpus that was opened: its path and its commits, current ones only."""

    path: str
    commits: tuple[Commit, ...]

    def stage(self, stage: str) -> tuple[Commit, ...]:
        """The commits of a stage, by shard."""
        return tuple(commit for commit in self.commits if commit.stage == stage)

    def outputs(self, dataset: str) -> tuple[Output, ...]:
        """The shards of a dataset, by path."""
        found = (output for commit in self.commits for output in commit.outputs if output.dataset == dataset)
        return tuple(sorted(found, key=lambda output: output.path))

    def paths(self, dataset: str) -> list[str]:
        """The shards of a dataset as full paths."""
        return [files.join(self.path, output.path) for output in self.outputs(dataset)]

    def damage(self, stage: str | None = None, *, verify: bool = False) -> Iterator[MusadataError]:
        """What is wrong with the committed shards of one stage or of all, with the remedy."""
        for commit in self.commits if stage is None else self.stage(stage):
            for path, trouble in damage(self.path, commit, verify=verify):
                yield MusadataError(
                    trouble, where=path, remedy=f"delete it and {run_again(commit.stage, self.path)} again"
                )

    def funnel(self) -> dict[str, Any]:
        """{stage: {step: {"in", "out", "dropped"}}}."""
        return {stage: add_counts(commit.counts for commit in self.stage(stage)) for stage in self.stages}

    @cached_property
    def stages(self) -> list[str]:
        """The stages that have commits, in the order in which the data goes through them."""
        ranks = {name: rank for rank, name in enumerate(_STAGES)}
        return sorted({commit.stage for commit in self.commits}, key=lambda name: (ranks.get(name, len(ranks)), name))


def create_corpus(path: str) -> None:
    """Make a folder a corpus, or find that it is one already.

    Raises:
        MusadataError: something else is there.
    """
    if files.exists(files.join(path, COMMITS, _MARKER)):
        _check_marker(path)
        return
    if files.exists(path):
        raise MusadataError("is a file, but a corpus is a folder", where=path, remedy="name another folder")
    strangers = [name for name in files.list_names(path) if not name.endswith(TEMPORARY_SUFFIX)]
    if set(strangers) - {COMMITS, "_journal"}:
        raise MusadataError(
            f"is a folder with other things in it ({strangers[0]}, …)", where=path, remedy="name a new or empty folder"
        )
    marker = json.dumps({"schema_version": SCHEMA_VERSION})
    files.write_atomic(files.join(path, COMMITS, _MARKER), marker.encode() + b"\n")


def open_corpus(path: str, needs: str | None = None, *, shards: int | None = None) -> Corpus:
    """Open a corpus and check that it is one; with `needs`, that this stage is complete and its files are whole.

    `shards` is the count of the config, which must be the one with which the corpus was made.

    Raises:
        MusadataError: not a corpus, or what is missing, with the file and the command to run.
    """
    _check_folder(path)
    commits = list_commits(path)
    if needs is None:
        return Corpus(path, current_commits(commits))
    counts = sorted({commit.shard.count for commit in commits if commit.stage == needs})
    if shards is not None and counts and shards not in counts:
        raise MusadataError(
            f"{needs} was made with shards: {counts[0]}, not {shards}",
            where=path,
            remedy=f"change shards in the config, or {run_again(needs, path)} first",
        )
    found = Corpus(path, current_commits(commits, dict.fromkeys((needs,), shards) if shards else {}))
    _check_complete(found, needs, shards)
    return found


def _check_complete(corpus: Corpus, needs: str, shards: int | None) -> None:
    done = corpus.stage(needs)
    count = shards or (done[0].shard.count if done else 0)
    if not done or len(done) < count:
        state = f"has {len(done)} of {count} shards" if done else "has not been run"
        raise MusadataError(f"{needs} {state}", where=corpus.path, remedy=f"first {run_again(needs, corpus.path)}")
    for error in corpus.damage(needs):
        raise error


def _check_folder(path: str) -> None:
    if files.exists(path):
        raise MusadataError("is a file, but a corpus is a folder", where=path, remedy="name the corpus folder")
    if not files.is_folder(path):
        raise MusadataError(
            "there is no such folder", where=path, remedy=f"check the path, or {run_again('stage1', path)}"
        )
    if not files.exists(files.join(path, COMMITS, _MARKER)):
        raise MusadataError(
            f"is not a corpus: it has no {COMMITS}/{_MARKER}",
            where=path,
            remedy="name a folder that `python -m pipelines.stage1` made",
        )
    _check_marker(path)


def _check_marker(path: str) -> None:
    marker = files.join(path, COMMITS, _MARKER)
    try:
        version = json.loads(files.read_bytes(marker))["schema_version"]
    except (ValueError, TypeError, KeyError) as error:
        raise MusadataError("cannot be read as a corpus marker", where=marker, remedy="make the corpus anew") from error
    if version != SCHEMA_VERSION:
        raise MusadataError(
            f"the corpus has schema version {version}, this musadata reads {SCHEMA_VERSION}",
            where=path,
            remedy="use the musadata that made it, or make the corpus anew",
        )


def current_commits(commits: Sequence[Commit], counts: dict[str, Any] | None = None) -> tuple[Commit, ...]:
    """Without those of an older shard count, and without those made from shards that are no longer there.

    `counts` gives the shard count of stages where it is known; elsewhere the one with most commits is current.
    """
    chosen = {}
    for stage in {commit.stage for commit in commits}:
        have = [commit.shard.count for commit in commits if commit.stage == stage]
        chosen[stage] = (counts or {}).get(stage) or max(sorted(set(have)), key=have.count)
    kept = [commit for commit in commits if commit.shard.count == chosen[commit.stage]]
    while True:
        there = {output.sha256 for commit in kept for output in commit.outputs}
        fresh = [commit for commit in kept if there.issuperset(commit.inputs)]
        if len(fresh) == len(kept):
            return tuple(kept)
        kept = fresh


def clean_corpus(path: str, *, shards: int | None = None) -> Corpus:
    """Open a corpus and remove what no commit names. Called at the end of a run, when no worker writes any more.

    Commits of an older shard count and those whose inputs are gone (a predecessor was run again and gave something
    else) are forgotten with their files.

    Raises:
        MusadataError: not a corpus, or the file system refuses.
    """
    _check_folder(path)
    commits = list_commits(path)
    counts = dict.fromkeys((commit.stage for commit in commits), shards) if shards else {}
    opened = Corpus(path, current_commits(commits, counts))
    remove_leftovers(opened, commits)
    return opened


def describe_corpus(corpus: Corpus, config: Any) -> dict[str, Any]:
    """The manifest, but for `balance` and `spending`: all that the commits say."""
    return {
        "schema_version": SCHEMA_VERSION,
        "code_version": code_version(("musadata",)),
        "config": plain(config),
        "stages": {stage: _describe_stage(corpus.stage(stage)) for stage in corpus.stages},
        "datasets": {name: _describe_dataset(outputs) for name in DATASETS if (outputs := corpus.outputs(name))},
        "funnel": corpus.funnel(),
    }


def write_manifest(corpus: str, manifest: dict[str, Any]) -> None:
    """Write manifest.json. Raises MusadataError where the file system refuses."""
    data = json.dumps(manifest, indent=1, ensure_ascii=False).encode() + b"\n"
    files.write_if_changed(files.join(corpus, MANIFEST), data)


def read_manifest(corpus: str) -> dict[str, Any]:
    """The manifest of a corpus. Raises MusadataError where there is none or it cannot be read."""
    _check_folder(corpus)
    path = files.join(corpus, MANIFEST)
    if not files.exists(path):
        raise MusadataError(
            "there is no manifest: no stage has been completed", where=path, remedy=run_again("all", corpus)
        )
    try:
        manifest: dict[str, Any] = json.loads(files.read_bytes(path))
    except ValueError as error:
        raise MusadataError("is not JSON", where=path, remedy=f"delete it and {run_again('all', corpus)}") from error
    return manifest


def _describe_stage(commits: Sequence[Commit]) -> dict[str, Any]:
    count = commits[0].shard.count
    return {"shards": count, "complete": len(commits) == count, "digests": [commit.digest for commit in commits]}


def _describe_dataset(outputs: Sequence[Output]) -> dict[str, Any]:
    shards = [{"path": one.path, "rows": one.rows, "bytes": one.bytes, "sha256": one.sha256} for one in outputs]
    return {"rows": sum(one.rows for one in outputs), "bytes": sum(one.bytes for one in outputs), "shards": shards}


def describe_balance(paths: Sequence[str], config: Any) -> dict[str, Any]:
    """{operator family: {"tasks", "share", "target", "weight"}}, of families with tasks or a target; see `balance`."""
    targets = config.tasks.families if isinstance(config, Config) else {}
    counts = Counter(family for path in paths for (family,) in read_file_columns(path, ["operator_family"]))
    total = counts.total()
    weights = sampling_weights(counts, targets)
    return {
        family: {
            "tasks": counts[family],
            "share": round(counts[family] / total, 4) if total else 0.0,
            "target": targets.get(family),
            "weight": round(weights.get(family, 1.0), 4),
        }
        for family in sorted({*counts, *targets})
    }


def describe_splits(paths: Sequence[str]) -> dict[str, Any]:
    """{"tasks": {split: tasks}, "wanted": tasks that validation and test should have each, "short": which have fewer}.

    They have fewer where the corpus has too few tasks that are unlike all others.
    """
    counts = Counter(split for path in paths for (split,) in read_file_columns(path, ["split"]))
    wanted = max(split_size(counts.total()), min(LEAST_TASKS, counts.total()))
    short = [name for name in SPLITS[1:] if counts[name] < wanted]
    return {"tasks": {name: counts[name] for name in SPLITS}, "wanted": wanted, "short": short}


def remove_leftovers(corpus: Corpus, commits: Sequence[Commit] = ()) -> list[str]:
    """Delete what killed or superseded attempts left in the dataset folders and of their commits; returns the paths.

    Only files of ours are touched: Parquet shards and temporary files, in folders that a commit names or could name.
    """
    named = {output.path for commit in corpus.commits for output in commit.outputs}
    current = {(commit.stage, commit.shard) for commit in corpus.commits}
    datasets = {*DATASETS, *(output.dataset for commit in commits for output in commit.outputs)}
    doomed = [
        commit_path(corpus.path, commit.stage, commit.shard)
        for commit in commits
        if (commit.stage, commit.shard) not in current
    ]
    stages = sorted({commit.stage for commit in commits})
    for folder in (*sorted(datasets), "", COMMITS, *(f"{COMMITS}/{stage}" for stage in stages)):
        for name in files.list_names(files.join(corpus.path, folder)):
            unnamed = folder in datasets and name.endswith(".parquet") and f"{folder}/{name}" not in named
            if unnamed or (name.startswith(".") and name.endswith(TEMPORARY_SUFFIX)):
                doomed.append(files.join(corpus.path, folder, name))
    for path in doomed:
        files.remove(path)
    return doomed
