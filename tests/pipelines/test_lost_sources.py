"""What is not there when a run begins stops it; what vanishes after that is rejected, and the run goes on."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from musadata.config import load_config
from musadata.errors import MusadataError
from musadata.records import Reject, Task
from musadata.storage.commits import read_commit
from musadata.storage.shards import deal, read_shard
from pipelines import resources
from pipelines.stage1 import Probe, Stage1
from tests.conftest import run_module
from tests.sources.test_git import git

NET = "from torch import nn\n\n\nclass Net{0}(nn.Module):\n    def forward(self, x):\n        return x.tanh() * {0}.5\n"


def make_repository(folder: Path) -> Path:
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for number in range(6):
        (folder / f"net{number}.py").write_text(NET.format(number))
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def make_dump(folder: Path) -> Path:
    folder.mkdir()
    for number in range(6):
        rows = [{"text": NET.format(number), "file": f"net{number}.py"}]
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{number}.parquet")
    return folder


SOURCES = {
    "git": (make_repository, "kind: git, url: {place}"),
    "directory": (make_repository, "kind: directory, path: {place}"),
    "parquet": (make_dump, "kind: parquet, path: {place}, columns: {{content: text, path: file}}"),
}


@pytest.fixture(params=SOURCES)
def config(request, tmp_path) -> Path:
    """A source that may vanish, at tmp_path/place, and after it one that cannot."""
    make, source = SOURCES[request.param]
    source = source.format(place=make(tmp_path / "place"))
    path = tmp_path / "config.yaml"
    path.write_text(f"seed: 3\nshards: 2\nsources: [{{{source}, license: MIT}}, {{kind: composition, count: 20}}]\n")
    return path


def another_worker() -> None:
    """Forget what this process has opened, as one that starts now."""
    resources.source.cache_clear()
    resources.miner.cache_clear()


def begin(config: Path, corpus: Path) -> tuple[Stage1, Probe]:
    another_worker()
    stage = Stage1(load_config(config), str(corpus))
    stage.check()
    stage.prepare()
    return stage, Probe(stage.config, stage.corpus)


def rows(probing: Probe, kind: type, dataset: str, name: str = "") -> list:
    shards = deal(probing.config.shards)
    return [row for shard in shards for row in read_shard(probing.corpus, dataset, shard, kind, name=name)]


def probed(probing: Probe) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for task in rows(probing, Task, "_probed"):
        found.setdefault(task.provenance.origin.partition(":")[0], []).append(task.provenance.path)
    return found


def rejected(probing: Probe) -> list[tuple[str, str]]:
    some = rows(probing, Reject, "rejects", "rejects-stage1.probe")
    return [(one.reason, one.origin.rpartition("/")[2]) for one in some]


def test_a_source_that_vanishes_between_two_workers_is_rejected_unit_by_unit(config, tmp_path):
    _, whole = begin(config, tmp_path / "whole")
    for shard in deal(2):
        whole.run(shard)
    [kind] = probed(whole).keys() - {"composition"}

    stage, probing = begin(config, tmp_path / "corpus")
    first, second = deal(2)
    probing.run(first)
    shutil.rmtree(tmp_path / "place")
    another_worker()
    probing.run(second)
    [remark] = stage.remarks()
    assert "lost" in remark

    found, lost = probed(probing), [unit for reason, unit in rejected(probing) if reason == "lost_source"]
    assert found["composition"] == probed(whole)["composition"]
    assert 0 < len(lost) < 6
    assert sorted(found[kind] + [f"net{unit[0]}.py" if "#" in unit else unit for unit in lost]) == [
        f"net{number}.py" for number in range(6)
    ]


def test_what_was_lost_is_there_again_after_the_next_run(config, tmp_path):
    _, probing = begin(config, tmp_path / "corpus")
    (tmp_path / "place").rename(tmp_path / "away")
    another_worker()
    for shard in deal(2):
        probing.run(shard)
    assert list(probed(probing)) == ["composition"]
    (tmp_path / "away").rename(tmp_path / "place")
    stage, probing = begin(config, tmp_path / "corpus")
    assert [read_commit(probing.corpus, probing.stage, shard) for shard in deal(2)] == [None, None]
    for shard in deal(2):
        probing.run(shard)
    assert len(probed(probing)) == 2
    assert "lost_source" not in {reason for reason, _ in rejected(probing)}
    assert not list(stage.remarks())


def test_a_source_that_is_not_there_at_the_start_stops_the_run_before_any_work(config, tmp_path):
    shutil.rmtree(tmp_path / "place")
    with pytest.raises(MusadataError, match="place"):
        begin(config, tmp_path / "corpus")
    done = run_module("pipelines.stage1", "--config", str(config), "--corpus", str(tmp_path / "corpus"))
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert str(tmp_path / "place") in line
    assert not (tmp_path / "corpus").exists()
