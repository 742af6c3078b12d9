"""Compares two corpora row by row: what a change of the code changed in the data.

python -m benchmarks.compare_corpora BEFORE AFTER [--ignore candidates.feedback,findings.message]

Rows are matched by their dataset's key, or by their whole content where rows share a key (as in `rejects`). Version
fields are not compared. `--ignore` names further columns: `feedback` everywhere, `findings.message` inside a column,
`candidates.feedback` in one dataset only. The exit code is 0 if nothing else differs, 1 otherwise.
"""

import argparse
import json
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet

from musadata.corpus.datasets import DATASETS

VERSION_FIELDS = ("schema_version", "code_version", "version")
INTERMEDIATE = ("_probed", "_kernels")  # what stage 1 keeps between its steps, compared as well
Row = dict[str, Any]


@dataclass
class Difference:
    """How one dataset differs. `columns` counts rows by the column that differs; `examples` holds the first of each."""

    before: int
    after: int
    removed: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    columns: Counter[str] = field(default_factory=Counter)
    examples: dict[str, tuple[str, Any, Any]] = field(default_factory=dict)

    @property
    def equal(self) -> bool:
        return not (self.removed or self.added or self.columns)


def compare_corpora(before: Path, after: Path, ignore: Collection[str] = ()) -> dict[str, Difference]:
    """Compare every dataset that one of the two corpora has."""
    ignored = {*VERSION_FIELDS, *ignore}
    names = [name for name in (*DATASETS, *INTERMEDIATE) if (before / name).is_dir() or (after / name).is_dir()]
    return {
        name: compare_rows(_read(before / name, ignored), _read(after / name, ignored), _key_of(name)) for name in names
    }


def compare_rows(before: list[Row], after: list[Row], key: str | None) -> Difference:
    """Match rows by `key` if it is unique on both sides, else by their whole content."""
    found = Difference(len(before), len(after))
    old, new = _index(before, key), _index(after, key)
    if old is None or new is None:
        counts, others = (Counter(_as_text(row) for row in rows) for rows in (before, after))
        found.removed = sorted((counts - others).elements())
        found.added = sorted((others - counts).elements())
        return found
    found.removed, found.added = sorted(old.keys() - new.keys()), sorted(new.keys() - old.keys())
    for name in sorted(old.keys() & new.keys()):
        for column in old[name].keys() | new[name].keys():
            one, other = old[name].get(column), new[name].get(column)
            if _as_text(one) != _as_text(other):
                found.columns[column] += 1
                found.examples.setdefault(column, (name, one, other))
    return found


def _read(folder: Path, ignored: set[str]) -> list[Row]:
    """All rows of a dataset's shards, without the ignored fields."""
    shards = [pyarrow.parquet.ParquetFile(path).read().to_pylist() for path in sorted(folder.glob("*.parquet"))]
    return [_without(row, folder.name, ignored) for rows in shards for row in rows]


def _without(value: Any, path: str, ignored: set[str]) -> Any:
    """The value without fields whose dotted path ends in one of `ignored`; `path` begins with the dataset's name."""
    if isinstance(value, list):
        return [_without(one, path, ignored) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {name: one for name, one in value.items() if not ignored & set(_endings(f"{path}.{name}"))}
    return {name: _without(one, f"{path}.{name}", ignored) for name, one in kept.items()}


def _endings(path: str) -> Iterator[str]:
    parts = path.split(".")
    return (".".join(parts[start:]) for start in range(len(parts)))


def _key_of(name: str) -> str | None:
    return DATASETS[name].key if name in DATASETS else None


def _index(rows: list[Row], key: str | None) -> dict[str, Row] | None:
    """Rows by key; None where the key does not tell them apart."""
    if key is None:
        return None
    found = {row[key]: row for row in rows}
    return found if len(found) == len(rows) else None


def _as_text(value: Any) -> str:
    """Equal for equal values, NaN included."""
    return json.dumps(value, sort_keys=True, default=str)


def _shorten(text: str, length: int = 200) -> str:
    return text if len(text) <= length else text[:length] + "…"


def _around_change(one: str, other: str) -> tuple[str, str]:
    """Both texts from a little before the first character that differs."""
    start = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    start = max(start - 40, 0)
    return _shorten(one[start:]), _shorten(other[start:])


def describe(name: str, difference: Difference, examples: int = 3) -> str:
    """One line if a dataset is equal, else what differs, with examples."""
    if difference.equal:
        return f"{name}: {difference.after} rows, equal"
    lines = [f"{name}: {difference.before} rows before, {difference.after} after"]
    for what, rows in (("only before", difference.removed), ("only after", difference.added)):
        lines += [f"  {len(rows)} rows {what}"] * bool(rows)
        lines += [f"    {_shorten(row)}" for row in rows[:examples]]
    for column, count in difference.columns.most_common():
        key, one, other = difference.examples[column]
        lines += [f"  {column} differs in {count} rows, first in {key}"]
        lines += [
            f"    {sign} {text}"
            for sign, text in zip("-+", _around_change(_as_text(one), _as_text(other)), strict=True)
        ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--ignore", default="", help="columns or dotted paths that are not compared, by commas")
    options = parser.parse_args(arguments)
    found = compare_corpora(options.before, options.after, [name for name in options.ignore.split(",") if name])
    for name, difference in found.items():
        print(describe(name, difference))
    if not found:
        parser.error("no dataset in either folder")
    return 0 if all(difference.equal for difference in found.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
