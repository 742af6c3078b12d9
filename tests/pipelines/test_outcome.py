"""What a run says of failed requests, and when it is a failure itself. Commits here are made by hand."""

import shutil
import tempfile
from types import SimpleNamespace

import pytest

from musadata.config import Config, RequestsConfig, SourceConfig, SourceType, TeacherConfig
from musadata.corpus.manifest import create_corpus
from musadata.errors import Outage
from musadata.records import Reject
from musadata.storage.commits import Commit, list_commits, write_commit
from musadata.storage.shards import Shard, ShardWriter, deal
from musadata.teacher.protocol import REQUEST_FAILED
from pipelines.outcome import LEAST_ROOM, NothingMade, check_disks, remarks_on_failures, reopen_failed, require_rows
from pipelines.steps import asking_settings, task_limit


@pytest.fixture
def corpus(tmp_path):
    """Stage 2 in two shards; a request of the second failed."""
    folder = str(tmp_path / "corpus")
    create_corpus(folder)
    for shard in deal(2):
        with ShardWriter(folder, "rejects", shard, Reject, name="rejects-stage2") as writer:
            if shard.index:
                detail = "sample 0, turn 2: request refused (400): max_tokens is too large"
                writer.write(Reject("annotations", "reason", REQUEST_FAILED, detail, "task-1"))
        dropped = {REQUEST_FAILED: 1} if shard.index else {}
        counts = {"reason": {"in": 1, "out": 1 - shard.index, "dropped": dropped}}
        write_commit(folder, Commit("stage2", shard, f"digest-{shard.index}", (), (writer.output,), counts))
    return folder


FUNNEL = {"funnel": {"stage2": {"reason": {"dropped": {REQUEST_FAILED: 1}}}}}


def test_only_shards_with_failed_requests_are_opened_again(corpus):
    reopen_failed(corpus, ["stage3"])
    assert len(list_commits(corpus)) == 2
    reopen_failed(corpus, ["stage2"])
    assert [commit.shard.index for commit in list_commits(corpus)] == [0]


def test_failed_requests_are_told_in_the_servers_words(corpus):
    (remark,) = remarks_on_failures(corpus, FUNNEL, "stage2")
    assert "1 requests failed" in remark and "max_tokens is too large" in remark and "--retry-failed" in remark
    assert not list(remarks_on_failures(corpus, {"funnel": {}}, "stage2"))


def test_stage_without_a_row_is_a_failure_that_says_why(corpus):
    with pytest.raises(NothingMade, match=r"stage2 made no annotations: 1 times request failed.*max_tokens"):
        require_rows(corpus, {**FUNNEL, "datasets": {"annotations": {"rows": 0}}}, "stage2", "annotations")
    require_rows(corpus, {**FUNNEL, "datasets": {"annotations": {"rows": 1}}}, "stage2", "annotations")
    require_rows(corpus, {"funnel": {}, "datasets": {}}, "stage2", "annotations")  # it was not run


def test_files_without_a_licence_are_told_with_the_remedy(tmp_path):
    folder, (shard,) = str(tmp_path / "corpus"), deal(1)
    create_corpus(folder)
    with ShardWriter(folder, "rejects", shard, Reject, name="rejects-stage1.probe") as writer:
        writer.write(Reject("tasks", "probe", "license", "none is known", "net.py"))
    write_commit(folder, Commit("stage1.probe", shard, "digest", (), (writer.output,), {}))
    with pytest.raises(NothingMade, match="stage1 made no tasks: 1 times license: none is known") as told:
        require_rows(folder, {"funnel": {"stage1.probe": {"probe": {}}}, "datasets": {}}, "stage1", "tasks")
    assert "`license:`" in told.value.remedy


@pytest.mark.parametrize("full", ["corpus", "cache", "scratch"])
def test_run_does_not_begin_on_a_full_disk(tmp_path, monkeypatch, full):
    for name in ("corpus", "cache", "scratch"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("MUSADATA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))

    def disk_usage(path):
        return SimpleNamespace(free=LEAST_ROOM - (path.name == full))

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    with pytest.raises(Outage, match=rf"{full}: less than 200 MB are free; make room"):
        check_disks(str(tmp_path / "corpus"), here=True)
    if full != "corpus":
        check_disks(str(tmp_path / "corpus"), here=False)
    check_disks("gs://bucket/corpus", here=False)


def config(**teacher) -> Config:
    source = SourceConfig(SourceType.PACKAGE, "torch")
    return Config((source,), teacher=TeacherConfig(**teacher))


@pytest.mark.parametrize(("limit", "shards"), [(1, 4), (7, 4), (8, 4), (100, 7)])
def test_limit_is_spread_over_all_shards(limit, shards):
    limited = Config((SourceConfig(SourceType.PACKAGE, "torch"),), limit=limit)
    limits = [task_limit(limited, shard) for shard in deal(shards)]
    assert sum(limits) == limit and max(limits) - min(limits) <= 1
    assert task_limit(config(), Shard(0, 4)) is None


def test_how_a_server_is_asked_and_paid_changes_no_shard():
    plain = asking_settings(config(model="m", base_url="http://a/v1"))
    assert asking_settings(config(model="m", base_url="http://b/v1", concurrency=3, prompt_price=2.0)) == plain
    assert asking_settings(config(model="m", temperature=0.1)) != plain
    assert RequestsConfig(retries=1) != RequestsConfig()
