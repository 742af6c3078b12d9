"""`musadata show`: rows of a corpus in a readable form."""

import argparse
import hashlib
import json
from typing import Any

from rich.console import Console

from musadata.commands.row_rendering import draw_row
from musadata.corpus.datasets import DATASETS, Dataset
from musadata.corpus.query import query
from musadata.errors import MusadataError
from musadata.rows import plain, restore


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("corpus", help="folder or URL of the corpus")
    parser.add_argument("--dataset", choices=list(DATASETS), default="trajectories", help="(default: trajectories)")
    parser.add_argument("--id", metavar="ID", help="the row whose id starts with this")
    parser.add_argument("--where", metavar="SQL", help="a condition on the columns: \"success and fault <> ''\"")
    parser.add_argument("--count", type=int, default=1, metavar="N", help="how many rows (default: 1)")
    parser.add_argument("--random", type=int, metavar="N", help="N rows drawn at random instead of the first rows")
    parser.add_argument("--seed", type=int, default=0, help="the same seed draws the same rows (default: 0)")
    parser.add_argument("--json", action="store_true", help="print JSON lines instead")


def run(arguments: argparse.Namespace) -> int:
    rows = find_rows(
        arguments.corpus,
        DATASETS[arguments.dataset],
        identity=arguments.id or "",
        where=arguments.where or "",
        count=arguments.random or arguments.count,
        seed=arguments.seed if arguments.random else None,
    )
    console = Console()
    for row in rows:
        if arguments.json:
            print(json.dumps(plain(row), ensure_ascii=False))
        else:
            console.print(draw_row(row))
    return 0


def find_rows(
    corpus: str, dataset: Dataset, *, identity: str = "", where: str = "", count: int = 1, seed: int | None = None
) -> list[Any]:
    """Rows of a dataset, in the order of their ids or, with a seed, drawn at random.

    Raises:
        MusadataError: no row matches, the condition is not valid SQL, or this is not a corpus.
    """
    conditions = [f"({where})"] if where else []
    if identity:
        conditions.append(f"starts_with({dataset.key}, '{identity.replace(chr(39), chr(39) * 2)}')")
    condition = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    if seed is None:
        table = query(corpus, f"SELECT * FROM {dataset.name}{condition} ORDER BY {dataset.key} LIMIT {max(count, 0)}")
    else:
        keys = query(corpus, f"SELECT {dataset.key} AS key FROM {dataset.name}{condition}")
        drawn = _draw(keys.column("key").to_pylist() if keys is not None else [], count, seed)
        quoted = ", ".join("'" + key.replace("'", "''") + "'" for key in drawn)
        table = query(corpus, f"SELECT * FROM {dataset.name} WHERE {dataset.key} IN ({quoted or 'NULL'})")
    if table is None or len(table) == 0:
        which = f"whose {dataset.key} starts with {identity!r}" if identity else "that matches" if where else "at all"
        raise MusadataError(
            f"{dataset.name} has no row {which}",
            where=corpus,
            remedy=f'list them with `python -m musadata query {corpus} "SELECT {dataset.key} FROM {dataset.name}"`',
        )
    rows: list[Any] = [restore(dataset.kind, row) for row in table.to_pylist()]
    if seed is not None:
        rows.sort(key=lambda row: drawn.index(getattr(row, dataset.key)))
    return rows[:count]


def _draw(keys: list[str], count: int, seed: int) -> list[str]:
    """Keys at random; each key's rank depends on the seed and the key alone, not on the other rows or the shards."""
    return sorted(set(keys), key=lambda key: hashlib.sha256(f"{seed}:{key}".encode()).digest())[:count]
