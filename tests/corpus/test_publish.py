"""What a corpus shows to the world: every loader reads it, and nothing in it lies."""

import html.parser
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from musadata.commands.cli import main
from musadata.config import Config, SourceConfig, SourceType
from musadata.corpus.card import describe_dataset_info, render_card
from musadata.corpus.datasets import DATASETS
from musadata.corpus.manifest import create_corpus
from musadata.corpus.page_templates import PAGES as templates
from musadata.corpus.publish import publish
from musadata.corpus.query import connect

CONFIG = Config(sources=(SourceConfig(SourceType.PACKAGE, name="torch"),), seed=5, shards=2)
PAGES = ("README.md", "dataset_info.json", "croissant.json", "report.html", "manifest.json")


@pytest.fixture(scope="module")
def published(tmp_path_factory, build) -> Path:
    path = tmp_path_factory.mktemp("published") / "corpus"
    build(str(path))
    publish(str(path), CONFIG, shards=2)
    return path


def front_matter(corpus: Path) -> dict:
    return yaml.safe_load((corpus / "README.md").read_text().split("---")[1])


def test_the_same_corpus_gives_the_same_pages(published, tmp_path, build):
    build(str(tmp_path / "again"))
    publish(str(tmp_path / "again"), CONFIG, shards=2)
    for name in PAGES:
        assert (tmp_path / "again" / name).read_bytes() == (published / name).read_bytes(), name


def test_an_empty_corpus_can_be_published(tmp_path):
    create_corpus(str(tmp_path / "empty"))
    publish(str(tmp_path / "empty"), CONFIG)
    assert all((tmp_path / "empty" / name).exists() for name in PAGES)


def test_the_card_names_files_that_are_there_and_all_of_them(published):
    named = set()
    for config in front_matter(published)["configs"]:
        for files in config["data_files"]:
            found = {str(path.relative_to(published)) for path in published.glob(files["path"])}
            assert found
            named |= found
    assert named == {str(path.relative_to(published)) for path in published.glob("*/*.parquet")}


def test_every_config_of_the_card_loads_with_datasets(published, tmp_path):
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    for config in front_matter(published)["configs"]:
        name = config["config_name"]
        loaded = datasets.load_dataset(str(published), name, cache_dir=str(tmp_path / "cache"))
        assert set(loaded) == {files["split"] for files in config["data_files"]}
        assert sum(len(split) for split in loaded.values()) > 0
        for split, rows in loaded.items():
            assert DATASETS[name].key in rows.column_names
            if DATASETS[name].split:
                assert set(rows["split"]) == {split}


def test_datasets_and_splits_without_rows_are_no_configs(published):
    """`load_dataset` fails on them: "Instruction corresponds to no data"."""
    manifest = json.loads((published / "manifest.json").read_text())
    manifest["datasets"]["kernels"] |= {"rows": 0}
    for shard in manifest["datasets"]["sft"]["shards"]:
        shard["rows"] *= "train-" in shard["path"]
    card = yaml.safe_load(render_card(manifest, connect(str(published))).split("---")[1])
    splits = {config["config_name"]: [files["split"] for files in config["data_files"]] for config in card["configs"]}
    assert "kernels" not in splits and "tasks" in splits
    assert splits["sft"] == ["train"]


def test_rows_streamed_by_datasets_are_those_that_were_written(published):
    datasets = pytest.importorskip("datasets")
    streamed = datasets.load_dataset(str(published), "sft", split="train", streaming=True)
    row = next(iter(streamed))
    assert [message["role"] for message in row["completion"]] == ["assistant"]
    assert row["conversation"] == [*row["prompt"], *row["completion"]]


def test_the_card_is_honest_about_speed_and_about_who_wrote_the_kernels(published):
    text = " ".join((published / "README.md").read_text().split())
    assert "**Nothing here was timed.**" in text and "proves function, never speed" in text
    assert "not a language model" in text
    assert "BSD-3-Clause" in text and front_matter(published)["license"] == "bsd-3-clause"


def test_the_card_leaves_no_placeholder(published):
    for name in PAGES:
        assert not re.search(r"\$\{?[a-z_]+", (published / name).read_text()), name


def test_llama_factory_gets_training_files_only(published):
    info = json.loads((published / "dataset_info.json").read_text())
    assert info == describe_dataset_info(json.loads((published / "manifest.json").read_text()))
    assert info
    for entry in info.values():
        assert (published / entry["file_name"]).exists() and "/train-" in entry["file_name"]


def test_croissant_describes_every_column_and_the_hash_of_every_file(published):
    croissant = json.loads((published / "croissant.json").read_text())
    files = [entry for entry in croissant["distribution"] if entry["@type"] == "cr:FileObject"]
    assert {entry["contentUrl"] for entry in files} == {
        str(path.relative_to(published)) for path in published.glob("*/*.parquet")
    }
    for records in croissant["recordSet"]:
        columns = {field["@id"].split("/")[1] for field in records["field"]}
        assert columns == set(DATASETS[records["name"]].kind.__annotations__)


@pytest.mark.slow
def test_croissant_is_valid_and_reads_back(published):
    mlcroissant = pytest.importorskip("mlcroissant")
    dataset = mlcroissant.Dataset(str(published / "croissant.json"))
    assert not dataset.metadata.issues.errors
    for name in DATASETS:
        assert len(list(dataset.records(name))) > 0


class Links(html.parser.HTMLParser):
    """Collects what a page would load."""

    def __init__(self):
        super().__init__()
        self.links: list[str] = []
        self.open: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag, attributes):
        self.links += [value for name, value in attributes if name in ("src", "href", "srcset")]
        if tag not in ("meta", "br", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in self.open:
            while self.open.pop() != tag:
                pass
        else:
            self.wrong.append(tag)


def test_the_report_needs_no_network_and_is_well_formed(published):
    page = (published / "report.html").read_text()
    parser = Links()
    parser.feed(page)
    assert parser.links == [] and parser.wrong == [] and parser.open == []
    assert "url(" not in page and "<script" not in page


def test_the_report_shows_the_numbers_of_the_corpus(published):
    page = (published / "report.html").read_text()
    for text in ("The funnel", "nondeterministic", "missing bounds check", "<b>98</b><span>candidates", "0 repaired"):
        assert text in page


def test_data_is_escaped_in_the_report():
    charts = templates.get_template("charts.html").module
    assert "<script>" not in charts.prose("<script>x</script>```\n<script>```")
    assert "<b>" not in charts.table(("<b>",), [("<b>",)]) + charts.bars([("<b>", 1)])
    assert "<b>" not in charts.conversation([("<b>", "<b>")], ["<b>"]) + charts.shares([("<b>", 1, 1, "<b>")], "a", "b")
    assert "<b>" not in charts.conversation([("assistant", "<b>")], ["<b>"])


def test_the_report_can_be_written_elsewhere(published, tmp_path, capsys):
    assert main(["report", str(published), "--output", str(tmp_path / "r.html")]) == 0
    assert (tmp_path / "r.html").read_bytes() == (published / "report.html").read_bytes()


def test_publishing_again_changes_nothing(published):
    before = {path: path.read_bytes() for path in published.rglob("*") if path.is_file()}
    publish(str(published), CONFIG, shards=2)
    assert {path: path.read_bytes() for path in published.rglob("*") if path.is_file()} == before


@pytest.mark.slow
def test_trl_reads_every_format_and_puts_the_loss_where_it_belongs(published, tmp_path):
    pytest.importorskip("trl", reason="pip install trl to check its formats")
    script = Path(__file__).with_name("train_with_trl.py")
    result = subprocess.run(
        [sys.executable, str(script), str(published), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr[-3000:]
    report = json.loads(result.stdout.splitlines()[-1])
    assert set(report["sft"]) == {"generation", "reasoned", "repair", "review", "feedback"}
    for family in report["sft"].values():
        assert family["only_the_completion"] and 0 < family["share"] < 1
    assert report["dpo_steps"] == report["grpo_steps"] == 1
    assert report["grpo_columns"]


@pytest.mark.slow
def test_llama_factory_reads_its_entries(published):
    pytest.importorskip("llamafactory", reason="pip install llamafactory to check dataset_info.json")
    program = """
import json, sys, types
from datasets import load_dataset
from llamafactory.data.converter import get_dataset_converter
from llamafactory.data.parser import get_dataset_list
corpus = sys.argv[1]
for entry in get_dataset_list(sorted(json.load(open(corpus + "/dataset_info.json"))), corpus):
    rows = load_dataset("parquet", data_files=f"{corpus}/{entry.dataset_name}", split="train")
    converter = get_dataset_converter(entry.formatting, entry, types.SimpleNamespace(media_dir=None))
    for row in rows:
        seen = converter(row)
        assert [*seen["_prompt"], *seen["_response"]] == row["conversation"][1:], seen
        assert seen["_system"] == row["conversation"][0]["content"]
        assert seen["_response"] == row["completion"]
print("fine")
"""
    result = subprocess.run([sys.executable, "-c", program, published], capture_output=True, text=True, check=False)
    assert result.stdout.endswith("fine\n"), result.stderr[-3000:]
