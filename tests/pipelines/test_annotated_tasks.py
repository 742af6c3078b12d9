"""The tasks of a shard with their annotations, which all steps of stage 3 read."""

import dataclasses

import pytest

from musadata.config import Config, SourceConfig, SourceType
from musadata.corpus.manifest import create_corpus
from musadata.records import Annotation, Task
from musadata.storage import shards
from musadata.storage.commits import Commit, write_commit
from musadata.storage.shards import Shard
from pipelines.steps import annotated_tasks
from tests.tracing.examples import task_of
from tests.written_shards import write_shard

CONFIG = Config((SourceConfig(SourceType.PACKAGE, "torch"),))
SHARD = Shard(0, 1)
TASKS = [dataclasses.replace(task_of("pass"), task_id=f"task-{number}") for number in range(3)]


def annotation_of(task: Task, teacher: str) -> Annotation:
    return Annotation("annotation-1", task.task_id, (), (), True, (), teacher, "train")


def commit_annotations(corpus: str, tasks: list[Task], teacher: str) -> None:
    rows = [annotation_of(task, teacher) for task in tasks]
    written = write_shard(corpus, "annotations", SHARD, rows, Annotation)
    write_commit(corpus, Commit("stage2", SHARD, teacher, (), (written,)))


@pytest.fixture
def corpus(tmp_path):
    folder = str(tmp_path / "corpus")
    create_corpus(folder)
    write_commit(folder, Commit("stage1", SHARD, "", (), (write_shard(folder, "tasks", SHARD, TASKS, Task),)))
    commit_annotations(folder, TASKS[1:], "one")
    return folder


def test_rows_are_read_once_for_all_steps(corpus, monkeypatch):
    first = annotated_tasks(CONFIG, corpus, SHARD)
    assert first == [(task, annotation_of(task, "one")) for task in TASKS[1:]]
    monkeypatch.setattr(shards, "read_rows", None)
    assert annotated_tasks(CONFIG, corpus, SHARD) == first


def test_rows_that_were_made_anew_are_read_anew(corpus):
    annotated_tasks(CONFIG, corpus, SHARD)
    commit_annotations(corpus, TASKS[1:], "two")
    assert annotated_tasks(CONFIG, corpus, SHARD) == [(task, annotation_of(task, "two")) for task in TASKS[1:]]
    assert annotated_tasks(dataclasses.replace(CONFIG, limit=1), corpus, SHARD) == []
