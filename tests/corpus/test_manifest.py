"""A corpus is opened only if it is one, and its manifest names all of it and nothing else."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from musadata.config import Config, SourceConfig, SourceType
from musadata.corpus.funnel import Funnel, add_counts
from musadata.corpus.manifest import create_corpus, describe_splits, open_corpus, read_manifest
from musadata.corpus.publish import publish
from musadata.errors import MusadataError
from musadata.records import Annotation, Reject, Task
from musadata.storage.commits import ensure_commit, input_hashes, list_commits, require_commit
from musadata.storage.shards import Shard, deal
from tests.written_shards import write_shard

CONFIG = Config(sources=(SourceConfig(SourceType.PACKAGE, name="torch"),), seed=5, shards=2)


def reject(detail: str) -> Reject:
    return Reject("tasks", "probe", "constant", detail, "x")


def run_stage1(corpus: str, shards: int = 2, digest: str = "d", detail: str = "") -> None:
    for shard in deal(shards):

        def work(shard: Shard = shard):
            funnel = Funnel("probe")
            funnel.came_in("probe", 3)
            funnel.went_on("probe", 2)
            funnel.dropped("probe", "constant")
            outputs = [
                write_shard(corpus, "_probed", shard, [reject(f"{detail}{shard}")], Reject),
                write_shard(corpus, "tasks", shard, [], Task),
                write_shard(corpus, "rejects", shard, [reject(f"{detail}{shard}")], Reject, name="stage1"),
            ]
            return outputs, funnel.counts()

        ensure_commit(corpus, "stage1", shard, digest, (), work)


def run_stage2(corpus: str, shards: int = 2) -> None:
    for shard in deal(shards):
        before = require_commit(corpus, "stage1", shard)

        def work(shard: Shard = shard):
            return [write_shard(corpus, "annotations", shard, [], Annotation)], {}

        ensure_commit(corpus, "stage2", shard, "d", input_hashes([before]), work)


@pytest.fixture
def corpus(tmp_path) -> str:
    path = str(tmp_path / "corpus")
    create_corpus(path)
    return path


def test_the_manifest_lists_datasets_shards_stages_and_the_funnel(corpus):
    run_stage1(corpus)
    manifest = publish(corpus, CONFIG)
    assert read_manifest(corpus) == manifest
    assert manifest["datasets"]["rejects"]["rows"] == 2
    assert [shard["path"] for shard in manifest["datasets"]["tasks"]["shards"]] == [
        "tasks/train-00000-of-00002.parquet",
        "tasks/train-00001-of-00002.parquet",
    ]
    assert manifest["stages"]["stage1"]["complete"] is True
    assert manifest["funnel"] == {"stage1": {"probe": {"in": 6, "out": 4, "dropped": {"constant": 2}}}}
    assert manifest["config"]["sources"][0]["kind"] == "package"
    assert "_probed" not in manifest["datasets"]


def test_splits_that_are_too_small_to_measure_anything_are_named(tmp_path):
    path = str(tmp_path / "tasks.parquet")
    pq.write_table(pa.table({"split": ["train"] * 900 + ["validation"] * 50 + ["test"] * 49}), path)
    assert describe_splits([path]) == {
        "tasks": {"train": 900, "validation": 50, "test": 49},
        "wanted": 50,
        "short": ["test"],
    }
    assert describe_splits([]) == {"tasks": {"train": 0, "validation": 0, "test": 0}, "wanted": 0, "short": []}


def test_the_same_corpus_gives_the_same_manifest(corpus, tmp_path):
    other = str(tmp_path / "other")
    create_corpus(other)
    for path in (corpus, other):
        run_stage1(path)
        publish(path, CONFIG)
    assert (Path(corpus) / "manifest.json").read_bytes() == (Path(other) / "manifest.json").read_bytes()


def test_leftovers_go_and_what_is_not_ours_stays(corpus):
    run_stage1(corpus)
    root = Path(corpus)
    doomed = [
        root / "tasks/.train-00000-of-00002.parquet.0123.tmp",
        root / "tasks/train-00000-of-00009.parquet",
        root / "_probed/probed-00000-of-00009.parquet",
        root / "_commits/stage1/.00000-of-00002.json.0123.tmp",
        root / ".manifest.json.0123.tmp",
    ]
    kept = [root / "notes.txt", root / "tasks/notes.txt", root / "mine/data.parquet", root / "_journal/answers.jsonl"]
    for path in (*doomed, *kept):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
    before = {output.path for commit in list_commits(corpus) for output in commit.outputs}
    publish(corpus, CONFIG)
    assert not any(path.exists() for path in doomed)
    assert all(path.exists() for path in kept)
    assert all((root / path).exists() for path in before)


def test_another_shard_count_replaces_the_old_one(corpus):
    run_stage1(corpus, shards=3)
    publish(corpus, CONFIG, shards=3)
    run_stage1(corpus, shards=2)
    manifest = publish(corpus, CONFIG, shards=2)
    assert len(manifest["datasets"]["tasks"]["shards"]) == 2
    assert sorted(path.name for path in (Path(corpus) / "tasks").iterdir()) == [
        "train-00000-of-00002.parquet",
        "train-00001-of-00002.parquet",
    ]
    assert len(list_commits(corpus)) == 2


def test_what_was_made_from_inputs_that_are_gone_goes_too(corpus):
    run_stage1(corpus)
    run_stage2(corpus)
    assert "annotations" in publish(corpus, CONFIG)["datasets"]
    run_stage1(corpus, digest="new", detail="changed")
    manifest = publish(corpus, CONFIG)
    assert "annotations" not in manifest["datasets"] and "stage2" not in manifest["stages"]
    assert list((Path(corpus) / "annotations").iterdir()) == []


def test_what_was_made_from_the_same_inputs_stays(corpus):
    run_stage1(corpus)
    run_stage2(corpus)
    run_stage1(corpus, digest="new")
    assert "annotations" in publish(corpus, CONFIG)["datasets"]


def test_stages_stand_in_the_order_of_the_data(corpus):
    def stage(name: str, inputs: tuple[str, ...], detail: str):
        def work():
            return [write_shard(corpus, "rejects", Shard(0, 1), [reject(detail)], Reject, name=name)], {}

        return ensure_commit(corpus, name, Shard(0, 1), "d", inputs, work)[0]

    first = stage("stage1.probe", (), "a")
    second = stage("stage1", input_hashes([first]), "b")
    stage("stage3.ports", input_hashes([second]), "c")
    stage("stage3", input_hashes([second]), "d")
    assert list(publish(corpus, CONFIG)["stages"]) == ["stage1.probe", "stage1", "stage3", "stage3.ports"]


def test_shards_with_the_same_content_do_not_confuse_the_order(corpus):
    run_stage1(corpus)
    run_stage2(corpus)
    assert list(publish(corpus, CONFIG)["stages"]) == ["stage1", "stage2"]


def test_a_stage_opens_the_corpus_that_its_predecessor_completed(corpus):
    run_stage1(corpus)
    opened = open_corpus(corpus, needs="stage1", shards=2)
    assert opened.paths("tasks") == [f"{corpus}/tasks/train-0000{index}-of-00002.parquet" for index in (0, 1)]


def test_a_stage_before_its_predecessor_says_which_command_is_missing(corpus):
    with pytest.raises(MusadataError, match=r"stage1 has not been run; first run `python -m pipelines\.stage1 "):
        open_corpus(corpus, needs="stage1", shards=2)


def test_a_predecessor_that_was_interrupted_is_not_complete(corpus):
    run_stage1(corpus)
    (Path(corpus) / "_commits/stage1/00001-of-00002.json").unlink()
    with pytest.raises(MusadataError, match="stage1 has 1 of 2 shards"):
        open_corpus(corpus, needs="stage1", shards=2)


def test_a_truncated_shard_is_found_before_any_work(corpus):
    run_stage1(corpus)
    path = Path(corpus) / "tasks/train-00001-of-00002.parquet"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(
        MusadataError, match=r"train-00001-of-00002\.parquet: is truncated or altered.*delete it and run"
    ):
        open_corpus(corpus, needs="stage1", shards=2)


def test_another_shard_count_in_the_config_is_named(corpus):
    run_stage1(corpus)
    with pytest.raises(MusadataError, match=r"was made with shards: 2, not 16"):
        open_corpus(corpus, needs="stage1", shards=16)


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda path: None, "there is no such folder"),
        (lambda path: path.write_text("x"), "is a file, but a corpus is a folder"),
        (lambda path: path.mkdir(), "is not a corpus: it has no _commits/corpus.json"),
        (lambda path: (path / "tasks").mkdir(parents=True), "is not a corpus"),
        (lambda path: marker(path, "{"), "cannot be read as a corpus marker"),
        (lambda path: marker(path, "[]"), "cannot be read as a corpus marker"),
        (lambda path: marker(path, '{"schema_version": 999}'), "schema version 999"),
    ],
)
def test_what_is_not_a_corpus_is_refused_in_one_line(tmp_path, prepare, message):
    path = tmp_path / "corpus"
    prepare(path)
    for attempt in (open_corpus, read_manifest, lambda path: publish(path, CONFIG)):
        with pytest.raises(MusadataError, match=message) as caught:
            attempt(str(path))
        assert "\n" not in str(caught.value) and str(path) in str(caught.value)


def marker(path: Path, text: str) -> None:
    (path / "_commits").mkdir(parents=True)
    (path / "_commits/corpus.json").write_text(text)


def test_a_corpus_is_never_made_in_a_folder_with_other_things(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(MusadataError, match=r"thesis\.tex"):
        create_corpus(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(MusadataError, match="is a file"):
        create_corpus(str(tmp_path / "thesis.tex"))


def test_making_a_corpus_twice_changes_nothing(corpus):
    run_stage1(corpus)
    create_corpus(corpus)
    assert len(list_commits(corpus)) == 2


def test_a_corpus_without_a_manifest_says_so(corpus):
    with pytest.raises(MusadataError, match=r"manifest\.json: there is no manifest"):
        read_manifest(corpus)


def test_a_torn_manifest_says_so(corpus):
    (Path(corpus) / "manifest.json").write_text('{"datasets": ')
    with pytest.raises(MusadataError, match="is not JSON"):
        read_manifest(corpus)


def test_it_works_the_same_on_an_object_store():
    path = "memory://test_manifest/corpus"
    create_corpus(path)
    run_stage1(path)
    run_stage2(path)
    assert open_corpus(path, needs="stage2", shards=2).outputs("annotations")
    manifest = publish(path, CONFIG, shards=2)
    assert json.dumps(manifest["funnel"]) == json.dumps(read_manifest(path)["funnel"])


def test_counts_add_up_over_shards():
    one, two = Funnel("mine", "probe"), Funnel("mine", "probe")
    one.came_in("mine", 2)
    two.came_in("mine", 3)
    two.dropped("probe", "x")
    assert add_counts([one.counts(), two.counts()]) == {
        "mine": {"in": 5, "out": 0, "dropped": {}},
        "probe": {"in": 0, "out": 0, "dropped": {"x": 1}},
    }
