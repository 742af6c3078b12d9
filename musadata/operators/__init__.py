"""What is known of aten's operators: `operators.yaml`, which tracing, tasks, the compiler and its reasoning read."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

_TABLE = yaml.safe_load(Path(__file__).with_name("operators.yaml").read_text(encoding="utf-8"))
FAMILIES: tuple[str, ...] = tuple(_TABLE["families"])  # the heaviest first


@dataclass(frozen=True)
class Operator:
    """A row; the table's head says what its columns mean."""

    family: str | None = None
    idle: str | None = None
    flops: int | None = None
    reads: str | None = None
    whole: bool | None = None
    unnamed: bool | None = None
    called: str | None = None
    several: bool | None = None
    same: str | None = None


OPERATORS: dict[str, Operator] = {name: Operator(**row) for name, row in _TABLE["operators"].items()}


@cache
def column(name: str) -> dict[str, Any]:
    """What a column says, by the names of the operators that it says something of."""
    found = {operator: getattr(row, name) for operator, row in OPERATORS.items()}
    return {operator: value for operator, value in found.items() if value is not None}
