"""Probing is not repeated: not for other sources, and not after a kill in the middle of a shard."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from musadata.config import load_config
from musadata.storage.shards import deal
from pipelines import resources
from pipelines.stage1 import Probe, Stage1
from tests.conftest import ROOT, run_pipeline

pytestmark = pytest.mark.timeout(600)
NET = "from torch import nn\n\n\nclass Net{0}(nn.Module):\n    def forward(self, x):\n        return x.tanh() * {0}.5\n"
MINED = "{{kind: directory, path: {folder}, license: MIT}}"
DRAWN = "{kind: composition, count: 20}"


@pytest.fixture
def code(tmp_path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    for number in range(6):
        (folder / f"net{number}.py").write_text(NET.format(number))
    return folder


def write_config(path: Path, *sources: str, shards: int = 2) -> Path:
    path.write_text(f"seed: 3\nshards: {shards}\nsources: [{', '.join(sources)}]\n")
    return path


def run(config: Path, corpus: Path) -> dict[str, str]:
    """All shards probed in this process; the hash of every file that it leaves."""
    resources.source.cache_clear()
    resources.miner.cache_clear()
    probing = Probe(load_config(config), str(corpus))
    Stage1(probing.config, probing.corpus).prepare()
    for shard in deal(probing.config.shards):
        probing.run(shard)
    return hashes(corpus)


def hashes(corpus: Path) -> dict[str, str]:
    files = [path for path in corpus.rglob("*") if path.is_file() and "_journal" not in path.parts]
    return {str(path.relative_to(corpus)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def executed(corpus: Path) -> list[str]:
    """What was executed, by key, as often as it was."""
    segments = (corpus / "_journal" / "stage1").rglob("*.jsonl")
    lines = [line for path in segments for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    return sorted(json.loads(line)["key"] for line in lines)


def test_another_source_does_not_repeat_what_is_known_and_gives_the_bytes_of_a_fresh_run(tmp_path, code):
    mined = MINED.format(folder=code)
    corpus = tmp_path / "corpus"
    run(write_config(tmp_path / "one.yaml", mined), corpus)
    first = executed(corpus)
    assert len(first) == 12  # six searches for arguments, six probes

    both = write_config(tmp_path / "both.yaml", DRAWN, mined)
    grown = run(both, corpus)
    fresh = run(both, tmp_path / "fresh")
    assert grown == fresh
    run(write_config(tmp_path / "other.yaml", DRAWN), tmp_path / "drawn")
    assert executed(corpus) == executed(tmp_path / "fresh") == sorted(first + executed(tmp_path / "drawn"))


def test_one_more_unit_repeats_nothing(tmp_path):
    corpus = tmp_path / "corpus"
    run(write_config(tmp_path / "less.yaml", "{kind: composition, count: 20}", shards=4), corpus)
    first = executed(corpus)
    more = write_config(tmp_path / "more.yaml", "{kind: composition, count: 30}", shards=4)
    assert run(more, corpus) == run(more, tmp_path / "fresh")
    assert set(first) < set(executed(corpus))
    assert executed(corpus) == executed(tmp_path / "fresh")


def test_a_file_that_was_changed_is_probed_again_and_the_others_are_not(tmp_path, code):
    config = write_config(tmp_path / "config.yaml", MINED.format(folder=code))
    before = run(config, tmp_path / "corpus")
    known = executed(tmp_path / "corpus")
    (code / "net3.py").write_text(NET.format(9))
    after = run(config, tmp_path / "corpus")
    assert before != after == run(config, tmp_path / "fresh")
    assert len(executed(tmp_path / "corpus")) == len(known) + 2


def test_another_number_of_shards_repeats_nothing_and_keeps_no_list_of_the_old_ones(tmp_path, code):
    config, corpus = tmp_path / "config.yaml", tmp_path / "corpus"
    run(write_config(config, MINED.format(folder=code), shards=3), corpus)
    known = executed(corpus)
    run(write_config(config, MINED.format(folder=code), shards=2), corpus)
    assert executed(corpus) == known
    listed = {path.parent.name for path in (corpus / "_journal" / "stage1").rglob("units.json")}
    assert listed == {"00000-of-00002", "00001-of-00002"}


def test_what_other_code_executed_is_not_kept(tmp_path, code):
    config, corpus = write_config(tmp_path / "config.yaml", MINED.format(folder=code)), tmp_path / "corpus"
    run(config, corpus)
    known, journals = executed(corpus), corpus / "_journal" / "stage1"
    (journals / "executions-0123456789abcdef.1-1.jsonl").write_text('{"key":"old","value":1}\n')
    (journals / "00000-of-00002" / "executions.1-1.jsonl").write_text('{"key":"older","value":1}\n')
    run(config, corpus)
    assert executed(corpus) == known


def test_another_seed_leaves_what_was_known_alone_and_is_not_mixed_up_with_it(tmp_path, code):
    config = write_config(tmp_path / "config.yaml", MINED.format(folder=code))
    before = run(config, tmp_path / "corpus")
    config.write_text(config.read_text().replace("seed: 3", "seed: 4"))
    assert run(config, tmp_path / "corpus") == run(config, tmp_path / "fresh")
    config.write_text(config.read_text().replace("seed: 4", "seed: 3"))
    known = executed(tmp_path / "corpus")
    assert run(config, tmp_path / "corpus") == before
    assert executed(tmp_path / "corpus") == known


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_killed_in_the_middle_of_a_shard_goes_on_there(tmp_path, code, workers):
    for number in range(6, 40):
        (code / f"net{number}.py").write_text(NET.format(number))
    config = write_config(tmp_path / "config.yaml", MINED.format(folder=code), shards=workers)
    corpus, options = tmp_path / "corpus", [f"--direct_num_workers={workers}"]
    command = [sys.executable, "-m", "pipelines.stage1", "--config", str(config), "--corpus", str(corpus), *options]
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True, stderr=subprocess.DEVNULL)
    while process.poll() is None and len(executed(corpus)) < 20:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = executed(corpus)
    assert 20 <= len(before) < 80
    assert not list((corpus / "_commits").glob("stage1.probe/*.json"))

    run_pipeline(corpus, *options, config=config, stage="stage1")
    after = executed(corpus)
    assert len(after) == len(set(after)) == 80
    assert set(before) < set(after)
    run_pipeline(tmp_path / "fresh", *options, config=config, stage="stage1")
    assert hashes(corpus) == hashes(tmp_path / "fresh")
