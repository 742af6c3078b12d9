"""What each trainer is given: its keys, every row of a split and of no other, configs whose lengths keep them all."""

import json
import re
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from musadata.commands.cli import main
from musadata.corpus.export import TRAINERS, export
from musadata.corpus.query import query
from musadata.errors import MusadataError

ALL = pytest.mark.parametrize("trainer", TRAINERS)


@pytest.fixture(scope="module")
def exported(whole_corpus, tmp_path_factory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("exported")
    for trainer in TRAINERS:
        export(whole_corpus, trainer, root / trainer)
    return {trainer: root / trainer for trainer in TRAINERS}


def read(path: Path) -> list[dict]:
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    return [json.loads(line) for line in path.read_text().splitlines()]


def count(corpus: str, dataset: str, split: str = "train") -> int:
    return query(corpus, f"SELECT count(*) AS n FROM {dataset} WHERE split = '{split}'").to_pylist()[0]["n"]


@ALL
@pytest.mark.parametrize("split", ["train", "test"])
def test_every_row_of_a_split_is_there_and_ends_with_an_answer(exported, whole_corpus, trainer, split):
    supervised = count(whole_corpus, "sft", split) + count(whole_corpus, "rft", split)
    pairs, prompts = count(whole_corpus, "preferences", split), count(whole_corpus, "rl", split)
    expected = {"sft": supervised, "dpo": pairs, "preferences": pairs, "kto": 2 * pairs, "grpo": prompts, "rl": prompts}
    for pattern in TRAINERS[trainer]["files"]:
        path = exported[trainer] / pattern.format(split=split)
        rows, kind = read(path), re.split(r"[/_]", pattern)[0]
        assert len(rows) == expected[kind] > 0
        if kind in ("sft", "kto"):
            spoken = [message for row in rows for message in row.get("completion") or row["messages"][-1:]]
            assert {message["role"] for message in spoken} == {"assistant"}
        if kind in ("grpo", "rl"):
            assert all(json.loads(row["reward_model"]["ground_truth"])["task"] for row in rows)


@ALL
def test_configs_and_scripts_are_whole(exported, trainer):
    for path in exported[trainer].iterdir():
        if path.suffix in (".yaml", ".json"):
            config = yaml.safe_load(path.read_text())
            assert config and "{{" not in path.read_text()
        if path.suffix == ".sh":
            subprocess.run(["sh", "-n", path], check=True)
            for name in re.findall(r"[\w/]+\.(?:parquet|jsonl|yaml|py)\b", path.read_text().replace("$data/", "")):
                assert (exported[trainer] / name).exists() or ("/" not in name and name.startswith("train")), name
            assert path.stat().st_mode & 0o100


@ALL
def test_every_file_loads_with_datasets(exported, trainer, tmp_path):
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    for pattern in TRAINERS[trainer]["files"]:
        path = exported[trainer] / pattern.format(split="train")
        kind = "parquet" if path.suffix == ".parquet" else "json"
        loaded = datasets.load_dataset(kind, data_files=str(path), split="train", cache_dir=str(tmp_path))
        assert len(loaded) == len(read(path))


def test_a_preference_of_ms_swift_is_a_chosen_answer_and_a_rejected_text(exported):
    row = read(exported["ms-swift"] / "dpo_train.jsonl")[0]
    assert row["messages"][-1]["role"] == "assistant" and row["rejected_response"] != row["messages"][-1]["content"]


def test_llamafactory_finds_each_file_by_its_entry(exported):
    folder = exported["llamafactory"]
    entries = json.loads((folder / "dataset_info.json").read_text())
    assert {entry["file_name"] for entry in entries.values()} == {path.name for path in folder.glob("*.jsonl")}
    assert [name for name, entry in entries.items() if entry.get("ranking")] == [
        "musadata_dpo_train",
        "musadata_dpo_test",
    ]
    assert yaml.safe_load((folder / "sft.yaml").read_text())["dataset"] in entries


def test_a_folder_with_other_things_and_a_corpus_without_rows_are_refused(whole_corpus, exported, capsys):
    with pytest.raises(MusadataError, match="is there already"):
        export(whole_corpus, "trl", exported["trl"])
    assert main(["export", whole_corpus, "--for", "verl", "--to", str(exported["trl"])]) == 2
    assert "name a new or empty folder" in capsys.readouterr().err
