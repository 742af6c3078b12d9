"""What the viewer shows: rows of a dataset by search, filters and order; one row; a task with all that is about it."""

import threading
from collections.abc import Mapping
from typing import Any

from musadata.columns import describe_columns
from musadata.corpus.datasets import DATASETS
from musadata.corpus.query import connect
from musadata.errors import MusadataError
from musadata.rows import hints_of

MOST_ROWS = 200
_MOST_VALUES = 40  # of a column that can be filtered by
_CELL = 160  # characters of a text in a list of rows
_PLAIN = {"VARCHAR": "text", "BOOLEAN": "bool", "BIGINT": "number", "DOUBLE": "number"}
# Columns that a list of rows begins with, where a dataset has them.
_FIRST = ("name", "family", "kind", "accepted", "success", "error_class", "operator_family", "teacher", "split")
_ABOUT_TASK = (
    "annotations",
    "candidates",
    "trajectories",
    "unit_tests",
    "questions",
    "ports",
    "sft",
    "rft",
    "preferences",
    "rl",
)


class Viewer:
    """A corpus that is looked at. Safe for threads, one query at a time: the views are those of one connection."""

    def __init__(self, corpus: str):
        """Raises MusadataError where it is no corpus, or a shard is absent or truncated."""
        self._connection, self._lock = connect(corpus, native=True), threading.Lock()
        self.corpus = corpus
        self._columns = {name: self._read_columns(name) for name in DATASETS}
        self._datasets = [self._describe(name) for name in DATASETS]

    def list_datasets(self) -> list[dict[str, Any]]:
        """Each with rows, columns with type and meaning, and the values of columns that can be filtered by."""
        return self._datasets

    def _read_columns(self, name: str) -> dict[str, str]:
        described = self._connection.sql(f"DESCRIBE {name}").fetchall()
        return {column: _PLAIN.get(kind, "nested") for column, kind, *_ in described}

    def _describe(self, name: str) -> dict[str, Any]:
        texts, columns = describe_columns(DATASETS[name].kind), self._columns[name]
        facets = {}
        closed = [
            one
            for one in (*_FIRST, "license", "backend", "stage", "level", "dataset", "step", "reason", "turn")
            if one in columns
        ]
        for column in closed if name != "tasks" else [one for one in closed if one != "name"]:
            values = self._connection.sql(
                f"SELECT {column}, count(*) AS n FROM {name} WHERE {column} IS NOT NULL GROUP BY ALL"
                f" ORDER BY n DESC, 1 LIMIT {_MOST_VALUES + 1}"
            ).fetchall()
            if 1 < len(values) <= _MOST_VALUES:
                facets[column] = [
                    [str(value).lower() if isinstance(value, bool) else str(value), n] for value, n in values
                ]
        rows = self._connection.sql(f"SELECT count(*) FROM {name}").fetchall()[0][0]
        shown = [DATASETS[name].key, *(one for one in _FIRST if one in columns)]
        shown += [one for one in columns if one not in (*shown, "schema_version") and columns[one] != "nested"]
        return {
            "name": name,
            "purpose": DATASETS[name].purpose,
            "key": DATASETS[name].key,
            "rows": rows,
            "columns": {column: {"type": kind, "about": texts.get(column, "")} for column, kind in columns.items()},
            "shown": shown[:9],
            "facets": facets,
        }

    def find_rows(
        self,
        dataset: str,
        *,
        search: str = "",
        filters: Mapping[str, str] | None = None,
        order: str = "",
        descending: bool = False,
        offset: int = 0,
        limit: int = 50,
    ) -> dict[str, Any]:
        """A page of rows: {"total", "rows"}, texts shortened.

        Raises:
            MusadataError: there is no such dataset or column.
        """
        columns = self._require(dataset, *(filters or {}), *([order] if order else []))
        conditions, values = ["TRUE"], list[Any]()
        if search:
            texts = [f'"{name}"' for name, kind in columns.items() if kind == "text"]
            said = {"prompt", "completion"} if "conversation" in columns else set()  # which it repeats
            nested = [name for name, kind in columns.items() if kind == "nested" and name not in said]
            texts += [f'"{name}"::VARCHAR' for name in nested]
            conditions.append(f"({' OR '.join(f'contains(lower({one}), ?)' for one in texts)})")
            values += [search.lower()] * len(texts)
        for name, value in (filters or {}).items():
            conditions.append(f'"{name}"::VARCHAR = ?')
            values.append(value)
        where = " AND ".join(conditions)
        shown = next(one["shown"] for one in self._datasets if one["name"] == dataset)
        selected = ", ".join(
            f'"{name}"[:{_CELL}] AS "{name}"' if columns[name] == "text" else f'"{name}"' for name in shown
        )
        by = f'"{order}" {"DESC" if descending else "ASC"} NULLS LAST, ' if order else ""
        page = f"ORDER BY {by}{shown[0]} LIMIT {max(1, min(limit, MOST_ROWS))} OFFSET {max(0, offset)}"
        found = self._execute(f"SELECT count(*) OVER (), {selected} FROM {dataset} WHERE {where} {page}", values)
        rows = [dict(zip(shown, row[1:], strict=True)) for row in found]
        return {"total": found[0][0] if found else 0, "rows": rows}

    def read_row(self, dataset: str, identity: str) -> dict[str, Any]:
        """A whole row. Raises MusadataError where there is none."""
        self._require(dataset)
        rows = self._select(dataset, f"{DATASETS[dataset].key} = ?", identity)
        if not rows:
            raise MusadataError(f"{dataset} has no row {identity!r}", where=self.corpus, remedy="look at its list")
        return rows[0]

    def read_task(self, identity: str) -> dict[str, Any]:
        """A task with its rows in other datasets: whole candidates and analysis, ids of the rest."""
        about: dict[str, Any] = {"task": self.read_row("tasks", identity)}
        for name in _ABOUT_TASK:
            whole = name in ("annotations", "candidates")
            if whole:
                about[name] = self._select(name, "task_id = ?", identity)
            else:
                key = DATASETS[name].key
                family = ", family" if "family" in hints_of(DATASETS[name].kind) else ", ''"
                sql = f"SELECT {key}{family} FROM {name} WHERE task_id = ? ORDER BY ALL"
                about[name] = self._execute(sql, [identity])
        about["candidates"].sort(key=lambda one: (one["sample"], one["turn"]))
        return about

    def _select(self, dataset: str, condition: str, value: str) -> list[dict[str, Any]]:
        names = list(self._columns[dataset])
        rows = self._execute(f"SELECT * FROM {dataset} WHERE {condition}", [value])
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _execute(self, sql: str, values: list[Any]) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._connection.execute(sql, values).fetchall()

    def _require(self, dataset: str, *columns: str) -> dict[str, str]:
        """The columns of a dataset; names come from an address, and must be those of the schema."""
        known = self._columns.get(dataset)
        if known is None or not set(columns) <= set(known):
            raise MusadataError("there is no such dataset or column", where=dataset, remedy=", ".join(DATASETS))
        return known
