"""Where a row came from: from any row to repository, lines, licence, prompt, teacher, candidate, verdict and device."""

from dataclasses import dataclass
from typing import Any

from musadata.corpus.datasets import DATASETS
from musadata.corpus.query import connect
from musadata.errors import MusadataError

# Columns that name rows of other datasets.
_LINKS = {
    "task_id": "tasks",
    "candidate_id": "candidates",
    "parent_id": "candidates",
    "chosen_id": "candidates",
    "rejected_id": "candidates",
    "candidates": "candidates",
    "honest": "candidates",
}


@dataclass(frozen=True)
class Step:
    """A row on the way back. `through`: the column of another row that names it; "" for the row that was asked for."""

    dataset: str
    through: str
    row: dict[str, Any]

    @property
    def id(self) -> str:
        return str(self.row[DATASETS[self.dataset].key])


def trace_row(corpus: str, identity: str) -> list[Step]:
    """The row whose id begins with `identity`, and the rows that it was made from, nearest first.

    Raises:
        MusadataError: no row, or rows of several ids, begin with it.
    """
    connection = connect(corpus)

    def rows(dataset: str, condition: str, value: str) -> list[dict[str, Any]]:
        relation = connection.sql(f"SELECT * FROM {dataset} WHERE {condition} LIMIT 2", params=[value])
        found: list[dict[str, Any]] = relation.to_arrow_table().to_pylist()
        return found

    datasets = [one for one in DATASETS.values() if one.name != "rejects"]
    found = [
        Step(one.name, "", row) for one in datasets for row in rows(one.name, f"starts_with({one.key}, ?)", identity)
    ]
    if len(found) != 1:
        problem = "several rows have an id" if found else "no row has an id"
        raise MusadataError(f"{problem} that begins with {identity!r}", where=corpus, remedy="give more of the id")
    steps, left = found, list(found)
    while left:
        step = left.pop(0)
        for column, dataset in _LINKS.items():
            values = step.row.get(column) or []
            for value in [values] if isinstance(values, str) else values:
                if value and value not in {one.id for one in steps}:
                    named = [Step(dataset, column, row) for row in rows(dataset, f"{DATASETS[dataset].key} = ?", value)]
                    steps, left = [*steps, *named], [*left, *named]
    tasks = [step.id for step in steps if step.dataset == "tasks"]
    analyses = [
        Step("annotations", "task_id", row) for task in tasks for row in rows("annotations", "task_id = ?", task)
    ]
    order = [*DATASETS][::-1]
    known = {step.id for step in steps}
    steps += [one for one in analyses if one.id not in known]
    return [steps[0], *sorted(steps[1:], key=lambda step: order.index(step.dataset))]
