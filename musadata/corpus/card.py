"""The dataset card (README.md) and LLaMA-Factory's dataset_info.json."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from musadata.columns import describe_columns
from musadata.corpus.datasets import DATASETS
from musadata.corpus.difficulty import HEADINGS as PASS_HEADINGS
from musadata.corpus.difficulty import list_pass_rates
from musadata.corpus.lengths import HEADINGS as LENGTH_HEADINGS
from musadata.corpus.lengths import list_lengths
from musadata.corpus.page_templates import PAGES
from musadata.corpus.summary import DATASET_HEADINGS, FUNNEL_HEADINGS, list_datasets, list_funnel
from musadata.storage.shards import SPLITS, parse_shard_name
from musadata.tokens import TOKENIZER

if TYPE_CHECKING:
    import duckdb

CARD, DATASET_INFO = "README.md", "dataset_info.json"
_HUB_LICENSES = ("apache-2.0", "bsd-2-clause", "bsd-3-clause", "mit", "isc", "cc0-1.0", "unlicense")


def list_licenses(connection: "duckdb.DuckDBPyConnection") -> list[str]:
    """Of the tasks of a corpus, the most frequent first."""
    found = connection.sql("SELECT provenance.license FROM tasks GROUP BY 1 ORDER BY count(*) DESC, 1").fetchall()
    return [license for (license,) in found]


def render_card(manifest: dict[str, Any], connection: "duckdb.DuckDBPyConnection") -> str:
    """README.md: YAML for the `datasets` loader, then what a reader should know before training on it.

    The YAML lists one config per dataset, its files by split; without datasets and splits that hold no row, on which
    the loader fails.
    """
    datasets = manifest["datasets"]
    split_rows = {name: _splits(found) for name, found in datasets.items() if DATASETS[name].split}
    licenses = {license.lower() for license in list_licenses(connection)}
    return PAGES.get_template("card.md").render(
        manifest=manifest,
        query=lambda sql: connection.sql(sql).fetchall(),
        license=licenses.pop() if len(licenses) == 1 and licenses.issubset(_HUB_LICENSES) else "other",
        configs={name: _patterns(name, datasets[name]) for name in DATASETS if datasets.get(name, {"rows": 0})["rows"]},
        table=_table,
        dataset_headings=DATASET_HEADINGS,
        datasets=[(f"`{name}`", *rest) for name, *rest in list_datasets(manifest)],
        split_headings=("dataset", *SPLITS),
        splits=[(f"`{name}`", *map(splits.get, SPLITS)) for name, splits in split_rows.items()],
        pass_headings=PASS_HEADINGS,
        pass_rates=list_pass_rates(manifest),
        length_headings=LENGTH_HEADINGS,
        lengths=list_lengths(manifest),
        tokenizer=TOKENIZER,
        columns={name: list(describe_columns(DATASETS[name].kind).items()) for name in datasets},
        funnel_headings=FUNNEL_HEADINGS,
        funnel=list_funnel(manifest),
        sft_entries=[name for name in describe_dataset_info(manifest) if "_sft_" in name],
    )


def _patterns(name: str, dataset: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if not DATASETS[name].split:
        yield "full", f"{name}/*.parquet"
        return
    for split, rows in _splits(dataset).items():
        if rows:
            yield split, f"{name}/{split}-*.parquet"


def _splits(dataset: dict[str, Any]) -> Counter[str]:
    """Rows of each split, `train` first."""
    rows = Counter(dict.fromkeys(SPLITS, 0))
    for split, _, shard in _shards(dataset):
        rows[split] += shard["rows"]
    return rows


def _shards(dataset: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(split, what follows it in the name, shard) of each file of a dataset for trainers."""
    for shard in dataset["shards"]:
        parsed = parse_shard_name(shard["path"].rpartition("/")[2])
        if parsed is not None:
            split, _, part = parsed[0].partition("-")
            yield split, f"{part}_{parsed[1].index:05d}".lstrip("_"), shard


def _table(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value).replace("|", "\\|")


def describe_dataset_info(manifest: dict[str, Any]) -> dict[str, Any]:
    """LLaMA-Factory's entries for sft and rft: one per train shard.

    It takes a file or a whole folder, and a folder would train on the validation and test files too. `sharegpt` because
    its `openai` formatting appended text to the system prompt.
    """
    tags = {f"{tag}_tag": tag for tag in ("role", "content", "user", "assistant", "system")}
    entries = {}
    for name in ("sft", "rft"):
        for split, rest, shard in _shards(manifest["datasets"].get(name, {"shards": []})):
            if split == "train" and shard["rows"]:
                entries[f"musadata_{name}_{rest}"] = {
                    "file_name": shard["path"],
                    "formatting": "sharegpt",
                    "columns": {"messages": "conversation"},
                    "tags": tags,
                }
    return entries


def render_dataset_info(manifest: dict[str, Any]) -> str:
    """dataset_info.json."""
    return json.dumps(describe_dataset_info(manifest), indent=1) + "\n"
