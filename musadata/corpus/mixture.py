"""`mixing.json` of a corpus: how often trainers should see its rows; and the ways in which their loaders use it.

from datasets import interleave_datasets, load_dataset
mixture = read_mixture(corpus, "sft")
parts, probabilities = parts_of(load_dataset(corpus, "sft", split="train"), mixture)
mixed = interleave_datasets(parts, probabilities=probabilities, seed=1, stopping_strategy="all_exhausted")
"""

import json
import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from musadata.config import Config
from musadata.corpus.datasets import DATASETS, Dataset
from musadata.errors import MusadataError
from musadata.records import OperatorFamily
from musadata.sampling.mixing import Cell, Measured, check_targets, mix, shares, weakness
from musadata.storage import files
from musadata.training_config import MixingConfig

if TYPE_CHECKING:
    import duckdb

MIXTURE = "mixing.json"
Weights = Mapping[tuple[str, str], float]  # by family, "" where a dataset has none, and operator family

# First answers that were judged, without seeded faults, which say nothing about a model, and without people's programs.
_MEASURED = """
    SELECT tasks.operator_family, count(*), count(*) FILTER (WHERE accepted)
    FROM candidates JOIN tasks USING (task_id)
    WHERE turn = 1 AND fault = '' AND teacher <> 'human' AND coalesce(error_class, '') NOT IN ('infra', 'unsupported')
    GROUP BY 1 ORDER BY 1
"""


def check_mixing(config: Config) -> None:
    """Find wrong targets before any work is done.

    Raises:
        MusadataError: a target names no operator family, or targets are not shares.
    """
    check_targets(config.mixing.families, "mixing.families")
    check_targets(config.mixing.operator_families, "mixing.operator_families", [one.value for one in OperatorFamily])


def describe_mixture(connection: "duckdb.DuckDBPyConnection", config: Any) -> dict[str, Any]:
    """What was measured, the weight of each kind of row of each dataset's training split, and what that achieves."""
    mixing = config.mixing if isinstance(config, Config) else MixingConfig()
    measured = [Measured(*row) for row in connection.sql(_MEASURED).fetchall()]
    weights = weakness(measured, mixing)
    described: dict[str, Any] = {
        "measured": [{**vars(one), "weight": round(weights[one.operator_family], 4)} for one in measured],
        "datasets": {},
        "achieved": {},
    }
    for dataset in DATASETS.values():
        if dataset.trainable and (cells := mix(_cells(connection, dataset), weights, mixing)):
            targets = mixing.families if dataset.name == "sft" else {}
            described["datasets"][dataset.name] = [{**vars(one), "weight": round(one.weight, 6)} for one in cells]
            described["achieved"][dataset.name] = {
                "families": shares(cells, targets, "family"),
                "operator_families": shares(cells, mixing.operator_families, "operator_family"),
            }
    return described


def _cells(connection: "duckdb.DuckDBPyConnection", dataset: Dataset) -> list[Cell]:
    columns = dataset.kind.__annotations__
    family = "family" if "family" in columns else "''"
    operator_family = "operator_family" if "operator_family" in columns else "extra_info.operator_family"
    sql = f"SELECT {family}, {operator_family}, count(*) FROM {dataset.name} WHERE split = 'train' GROUP BY ALL"
    return sorted(
        (Cell(*row) for row in connection.sql(sql).fetchall()), key=lambda one: (one.family, one.operator_family)
    )


def read_mixture(corpus: str, dataset: str) -> Weights:
    """The weights of a dataset's rows.

    Raises:
        MusadataError: the corpus has none.
    """
    path = files.join(corpus, MIXTURE)
    if not files.exists(path):
        raise MusadataError("there is none", where=path, remedy="run stage 3 to its end")
    cells = json.loads(files.read_bytes(path))["datasets"].get(dataset, [])
    return {(cell["family"], cell["operator_family"]): cell["weight"] for cell in cells}


def weights_of(rows: Any, mixture: Weights) -> list[float]:
    """The weight of each row of a `datasets.Dataset`, for a weighted sampler; 1 for a row of another kind."""
    return [mixture.get(key, 1.0) for key in _keys(rows)]


def parts_of(rows: Any, mixture: Weights) -> tuple[list[Any], list[float]]:
    """The rows of a `datasets.Dataset` by kind, and the probability of each, for `interleave_datasets`."""
    indices: dict[tuple[str, str], list[int]] = {}
    for index, key in enumerate(_keys(rows)):
        indices.setdefault(key, []).append(index)
    masses = [mixture.get(key, 1.0) * len(found) for key, found in indices.items()]
    return [rows.select(found) for found in indices.values()], [mass / sum(masses) for mass in masses]


def draw(weights: Sequence[float], count: int, seed: int) -> list[int]:
    """`count` different rows, in order, for a trainer whose loader knows no weights; a row is drawn the more likely the
    higher its weight (Efraimidis and Spirakis 2006)."""
    chance = random.Random(seed)
    keys = [(chance.random() ** (1 / weight), index) for index, weight in enumerate(weights)]
    return sorted(index for _, index in sorted(keys, reverse=True)[:count])


def _keys(rows: Any) -> list[tuple[str, str]]:
    families = rows["family"] if "family" in rows.column_names else [""] * len(rows)
    if "operator_family" in rows.column_names:
        return list(zip(families, rows["operator_family"], strict=True))
    return [(family, one["operator_family"]) for family, one in zip(families, rows["extra_info"], strict=True)]
