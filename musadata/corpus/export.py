"""Writes the rows of a corpus for one trainer: files with its keys, split by split, configs that keep all, scripts.

What a trainer reads stands in `trainers/trainers.yaml`, its configs and scripts in the folder of its name there.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import yaml

from musadata.corpus.lengths import TOTALS, setting
from musadata.corpus.query import connect
from musadata.errors import MusadataError
from musadata.storage.shards import SPLITS

if TYPE_CHECKING:
    import duckdb

FOLDER = Path(__file__).with_name("trainers")
TRAINERS: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "trainers.yaml").read_text(encoding="utf-8"))
MODEL = "Qwen/Qwen2.5-Coder-7B-Instruct"
_FORMATS = {"parquet": "FORMAT parquet, COMPRESSION zstd", "jsonl": "FORMAT json"}
_RELATIONS = f"""
WITH supervised AS (
    SELECT sft_id AS id, split, prompt, completion, conversation, {TOTALS["sft"]} AS tokens,
        completion_tokens AS answer FROM sft
    UNION ALL
    SELECT rft_id, split, prompt, completion, conversation, {TOTALS["rft"]}, completion_tokens FROM rft
), pairs AS (
    SELECT preference_id AS id, split, prompt, chosen, rejected, {TOTALS["preferences"]} AS tokens FROM preferences
), judged AS (
    SELECT id, split, prompt, chosen AS completion, TRUE AS label, tokens FROM pairs
    UNION ALL
    SELECT id, split, prompt, rejected, FALSE, tokens FROM pairs
), asked AS (
    SELECT rl_id AS id, * EXCLUDE (rl_id), {TOTALS["rl"]} AS tokens FROM rl
)
"""
_NAMES = {"supervised": "supervised", "preferences": "pairs", "judged": "judged", "rl": "asked"}
_TEMPLATES = jinja2.Environment(
    undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
)


@dataclass(frozen=True)
class Exported:
    """A file that was written; `rows` and `length`, the setting that keeps them all, are 0 for configs and scripts."""

    path: str
    rows: int = 0
    length: int = 0


def export(corpus: str, trainer: str, folder: Path, model: str = MODEL) -> list[Exported]:
    """Write all that a trainer needs into a folder, and say what was written.

    Raises:
        MusadataError: not a corpus, one without rows for trainers, one that was made before rows had token counts, or
            a folder with other things in it.
    """
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise MusadataError("is there already", where=str(folder), remedy="name a new or empty folder")
    connection = connect(corpus)
    if not connection.sql("SELECT 1 FROM sft UNION ALL SELECT 1 FROM rl LIMIT 1").fetchall():
        raise MusadataError("has no rows for trainers", where=corpus, remedy="run stage 3")
    if connection.sql("SELECT 1 FROM sft WHERE prompt_tokens IS NULL LIMIT 1").fetchall():
        raise MusadataError("was made before rows had token counts", where=corpus, remedy="run stage 3 again")
    written: list[Exported] = []
    for pattern, file in TRAINERS[trainer]["files"].items():
        for split in SPLITS:
            written += _write_rows(connection, folder, pattern.format(split=split), split, **file)
    return [*written, *_write_templates(connection, folder, trainer, model, written)]


def _write_rows(
    connection: "duckdb.DuckDBPyConnection", folder: Path, name: str, split: str, of: str, columns: str
) -> list[Exported]:
    condition = f"FROM {_NAMES[of]} WHERE split = '{split}'"
    rows, tokens = connection.execute(f"{_RELATIONS} SELECT count(*), max(tokens) {condition}").fetchall()[0]
    if not rows:
        return []
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    target = str(path).replace("'", "''")
    # A CTE cannot stand before COPY, and both sides of a pair have its id.
    select = f"{_RELATIONS} SELECT {columns} {condition} ORDER BY id{', label' if of == 'judged' else ''}"
    connection.execute(f"COPY ({select}) TO '{target}' ({_FORMATS[path.suffix[1:]]})")
    return [Exported(name, rows, setting(tokens))]


def _write_templates(
    connection: "duckdb.DuckDBPyConnection", folder: Path, trainer: str, model: str, written: list[Exported]
) -> list[Exported]:
    """The configs and scripts of those kinds ("sft", "dpo", …) that have rows to train on."""
    splits: dict[str, list[str]] = {_kind(pattern): [] for pattern in TRAINERS[trainer]["files"]}
    lengths = dict.fromkeys(splits, 0)
    for file in written:
        splits[_kind(file.path)].append(next(split for split in SPLITS if split in file.path))
        lengths[_kind(file.path)] = max(lengths[_kind(file.path)], file.length)
    answer = connection.execute(f"{_RELATIONS} SELECT max(answer) FROM supervised").fetchall()[0][0]
    values = {"model": model, "splits": splits, "lengths": lengths, "answer_length": setting(answer or 0)}
    made = []
    for template in sorted((FOLDER / trainer).iterdir()):
        kind = next((one for one in splits if re.search(rf"\b(train_|automodel_)?{one}\b", template.stem)), "")
        if kind and "train" not in splits[kind]:
            continue
        text = _TEMPLATES.from_string(template.read_text(encoding="utf-8")).render(values)
        name = template.name.removesuffix(".jinja")  # where the name would make it a module of ours
        (folder / name).write_text(text, encoding="utf-8")
        if template.suffix == ".sh":
            (folder / name).chmod(0o755)
        made.append(Exported(name))
    return made


def _kind(path: str) -> str:
    return re.split(r"[/_]", path)[0]
