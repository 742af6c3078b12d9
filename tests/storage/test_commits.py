"""What is committed is whole, is skipped the next time, and is made again when anything that it depends on changes."""

import dataclasses
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from musadata.config import SamplingConfig
from musadata.corpus.funnel import Funnel
from musadata.corpus.manifest import create_corpus
from musadata.errors import MusadataError
from musadata.records import Reject
from musadata.storage.commits import (
    Commit,
    damage,
    ensure_commit,
    find_commit,
    input_hashes,
    list_commits,
    read_commit,
    require_commit,
    stage_digest,
    write_commit,
)
from musadata.storage.shards import Shard
from tests.written_shards import write_shard

SHARD = Shard(0, 2)


@pytest.fixture
def corpus(tmp_path) -> str:
    create_corpus(str(tmp_path / "corpus"))
    return str(tmp_path / "corpus")


def rejects(count: int, detail: str = "") -> list[Reject]:
    return [Reject("tasks", "probe", "nondeterministic", detail, str(index)) for index in range(count)]


def make(corpus: str, stage: str = "stage1", shard: Shard = SHARD, digest: str = "d", rows: int = 3, **more) -> Commit:
    def work():
        return [write_shard(corpus, "rejects", shard, rejects(rows, **more), Reject, name=stage)], {}

    return ensure_commit(corpus, stage, shard, digest, (), work)[0]


def test_a_commit_is_found_by_its_digest_and_by_no_other(corpus):
    commit = make(corpus)
    assert find_commit(corpus, "stage1", SHARD, "d") == commit
    assert find_commit(corpus, "stage1", SHARD, "other") is None
    assert find_commit(corpus, "stage1", Shard(0, 4), "d") is None
    assert find_commit(corpus, "stage2", SHARD, "d") is None


def test_committed_work_is_not_done_again(corpus):
    make(corpus)
    assert ensure_commit(corpus, "stage1", SHARD, "d", (), lambda: pytest.fail("worked"))[1] is False


@pytest.mark.parametrize("harm", ["gone", "truncated", "grown"])
def test_a_commit_whose_file_was_harmed_does_not_count(corpus, harm):
    commit = make(corpus)
    path = Path(corpus) / commit.outputs[0].path
    data = path.read_bytes()
    path.write_bytes({"gone": b"", "truncated": data[:-1], "grown": data + b"x"}[harm])
    if harm == "gone":
        path.unlink()
    assert find_commit(corpus, "stage1", SHARD, "d") is None
    with pytest.raises(MusadataError, match=r"rejects/stage1-00000-of-00002\.parquet: .*delete it and run `python -m"):
        require_commit(corpus, "stage1", SHARD)


def test_a_flipped_byte_is_found_when_asked_to_verify(corpus):
    commit = make(corpus)
    path = Path(corpus) / commit.outputs[0].path
    data = bytearray(path.read_bytes())
    data[10] ^= 1
    path.write_bytes(data)
    assert find_commit(corpus, "stage1", SHARD, "d") == commit
    assert [trouble for _, trouble in damage(corpus, commit, verify=True)] == [
        "is altered: its SHA-256 is not the committed one"
    ]


@pytest.mark.parametrize("record", [b"", b"{", b"[]", b'{"stage": "stage1"}', b"\xff\xfe", b"null"])
def test_a_torn_or_foreign_record_counts_as_none(corpus, record):
    make(corpus)
    path = Path(corpus) / "_commits/stage1/00000-of-00002.json"
    path.write_bytes(record)
    assert read_commit(corpus, "stage1", SHARD) is None
    assert list_commits(corpus) == []
    assert find_commit(corpus, "stage1", SHARD, "d") is None
    assert make(corpus).outputs[0].rows == 3


def test_new_work_replaces_the_old_files(corpus):
    make(corpus, digest="old", rows=3)
    commit = make(corpus, digest="new", rows=5)
    assert [output.rows for output in commit.outputs] == [5]
    assert [one.digest for one in list_commits(corpus)] == ["new"]


def test_no_record_names_files_that_are_being_replaced(corpus):
    """Killed between a new file and its commit, the old record must not vouch for the new file of the same size."""
    make(corpus, digest="old", detail="a")

    def work():
        write_shard(corpus, "rejects", SHARD, rejects(3, "b"), Reject, name="stage1")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensure_commit(corpus, "stage1", SHARD, "new", (), work)
    assert find_commit(corpus, "stage1", SHARD, "old") is None


def test_a_missing_predecessor_says_what_to_run(corpus):
    with pytest.raises(MusadataError, match=r"shard 00000-of-00002 of stage1 .*run `python -m pipelines\.stage1 "):
        require_commit(corpus, "stage1", SHARD)
    with pytest.raises(MusadataError, match=r"run `python -m pipelines\.stage1 "):
        require_commit(corpus, "stage1.probe", SHARD)


def test_the_digest_sees_code_config_and_inputs(corpus):
    before = make(corpus)
    digests = {
        stage_digest("v1", SamplingConfig(), [before]),
        stage_digest("v2", SamplingConfig(), [before]),
        stage_digest("v1", SamplingConfig(keep=5), [before]),
        stage_digest("v1", SamplingConfig(), []),
        stage_digest("v1", SamplingConfig(), [make(corpus, digest="e", rows=4)]),
    }
    assert len(digests) == 5


def test_a_predecessor_that_gives_the_same_bytes_changes_nothing_downstream(corpus):
    first = stage_digest("v", {}, [make(corpus, digest="old")])
    assert first == stage_digest("v", {}, [make(corpus, digest="new")])


def test_only_the_datasets_that_are_read_count(corpus):
    commit = make(corpus)
    other = dataclasses.replace(commit, outputs=(*commit.outputs, dataclasses.replace(commit.outputs[0], dataset="x")))
    assert input_hashes([other], reads=["rejects"]) == input_hashes([commit])
    assert len(input_hashes([other])) == 2


def test_the_digest_is_the_same_in_every_process(tmp_path):
    version = "code_version(('musadata.corpus.funnel',))"
    imports = (
        "from musadata.storage.code_version import code_version; from musadata.storage.commits import stage_digest"
    )
    program = f"{imports}; print(stage_digest({version}, {{'b': 1, 'a': {{2.5: 'x'}}}}))"
    prints = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, env=os.environ | env).stdout
        for env in ({"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "2"})
    }
    assert len(prints) == 1


def test_counts_come_back_in_the_order_of_the_steps(corpus):
    funnel = Funnel("mine", "probe")
    funnel.dropped("probe", "z")
    funnel.dropped("probe", "a", 2)
    funnel.came_in("mine", 5)
    write_commit(corpus, Commit("stage1", SHARD, "d", (), (), funnel.counts()))
    found = read_commit(corpus, "stage1", SHARD)
    assert found is not None
    assert list(found.counts) == ["mine", "probe"]
    assert list(found.counts["probe"]["dropped"].items()) == [("a", 2), ("z", 1)]


WRITER = """
import sys
from musadata.corpus import manifest
from musadata.corpus.manifest import create_corpus
from musadata.corpus.publish import publish
from musadata.records import Reject
from musadata.storage.commits import ensure_commit
from musadata.storage.shards import deal
from tests.written_shards import write_shard
manifest.code_version = lambda producers: "fixed, so that somebody may edit a source while this test runs"
corpus = sys.argv[1]
create_corpus(corpus)
for shard in deal(6):
    def work():
        rows = [Reject("tasks", "probe", "r", f"{i:0400d}", f"{shard}:{i}") for i in range(1500)]
        return [write_shard(corpus, "rejects", shard, rows, Reject, name="stage1")], {}
    ensure_commit(corpus, "stage1", shard, "digest", (), work)
    print(shard, flush=True)
publish(corpus, {"seed": 1}, shards=6)
"""


def snapshot(corpus: Path) -> dict[str, bytes]:
    return {str(path.relative_to(corpus)): path.read_bytes() for path in corpus.rglob("*") if path.is_file()}


def test_kill_minus_nine_at_any_time_and_the_same_command_gives_the_same_bytes(tmp_path):
    subprocess.run([sys.executable, "-c", WRITER, tmp_path / "undisturbed"], check=True, capture_output=True)
    expected = snapshot(tmp_path / "undisturbed")
    assert len([name for name in expected if name.endswith(".parquet")]) == 6
    choice = random.Random(7)
    killed_in_the_middle = 0
    for attempt in range(4):
        corpus = tmp_path / f"killed{attempt}"
        with subprocess.Popen([sys.executable, "-c", WRITER, corpus], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _ in range(attempt):
                process.stdout.readline()
            time.sleep(choice.random() * 0.03)
            process.send_signal(signal.SIGKILL)
        committed = {path.stem for path in (corpus / "_commits/stage1").glob("0*.json")}
        killed_in_the_middle += len(committed) < 6
        for stem in committed:
            found = read_commit(str(corpus), "stage1", Shard(int(stem[:5]), 6))
            assert found is not None and not damage(str(corpus), found, verify=True)
        subprocess.run([sys.executable, "-c", WRITER, corpus], check=True, capture_output=True)
        assert snapshot(corpus) == expected
    assert killed_in_the_middle >= 2
