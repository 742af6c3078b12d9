"""What differs between two corpora: config, code, and rows by their ids and contents."""

from typing import Any

from musadata.corpus.datasets import DATASETS
from musadata.corpus.manifest import read_manifest
from musadata.corpus.query import connect

HEADINGS = ("dataset", "rows", "rows there", "same", "changed", "only here", "only there")


def compare_rows(first: str, second: str) -> list[tuple[Any, ...]]:
    """A row for each dataset that one of them has, as `HEADINGS` names its columns.

    Rows are the same if all their columns are, and changed if only their id is. Rejects have no ids
    of their own: what they say is theirs.
    """
    one, other = connect(first), connect(second)
    compared = []
    for name, dataset in DATASETS.items():
        key = "concat_ws('/', dataset, step, reason, origin)" if name == "rejects" else dataset.key
        rows = [
            connection.sql(f"SELECT {key}, hash(row) FROM {name} AS row ORDER BY ALL").fetchall()
            for connection in (one, other)
        ]
        here, there = (dict(some) for some in rows)
        both = here.keys() & there.keys()
        same = sum(here[id] == there[id] for id in both)
        if here or there:
            compared.append(
                (
                    name,
                    len(rows[0]),
                    len(rows[1]),
                    same,
                    len(both) - same,
                    len(here) - len(both),
                    len(there) - len(both),
                )
            )
    return compared


def compare_settings(first: str, second: str) -> list[tuple[str, str, str]]:
    """(key, here, there) of the settings that differ, and of the code's version."""
    one, other = (read_manifest(path) for path in (first, second))
    keys = {**_flat(one["config"]), "code_version": one["code_version"]}
    others = {**_flat(other["config"]), "code_version": other["code_version"]}
    return [
        (key, str(keys.get(key, "–")), str(others.get(key, "–")))
        for key in sorted(keys.keys() | others.keys())
        if keys.get(key) != others.get(key)
    ]


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {prefix: value}
    parts = [_flat(inner, f"{prefix}.{key}".lstrip(".")) for key, inner in value.items()]
    return {name: part for some in parts for name, part in some.items()}
