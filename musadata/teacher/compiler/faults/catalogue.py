"""The kinds of fault that the teacher can seed, each with the explanation that its repair gives."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from musadata.teacher.compiler.faults.fault_context import FaultContext

Insert = Callable[[FaultContext], str | None]


@dataclass(frozen=True)
class FaultKind:
    """One kind of mistake.

    Attributes:
        name: countable name, as it stands in the corpus.
        insert: the candidate with the mistake in it, or None where it would not matter for this task.
        cause: what was wrong, as the repair says it.
        mend: what the repair changes.
        compiles: the mistake gets past the compiler.
    """

    name: str
    insert: Insert
    cause: str
    mend: str
    compiles: bool = True


_TABLE: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("kinds.yaml").read_text(encoding="utf-8"))


def _kind(name: str, insert: Insert) -> FaultKind:
    entry = _TABLE[name]
    return FaultKind(name, insert, entry["cause"], entry["mend"], entry.get("compiles", True))


def _replacing(entry: dict[str, Any]) -> Insert:
    if "replace" in entry:
        return lambda context: context.replace_in_kernel(*entry["replace"])
    return lambda context: context.replace_one(context.source, *entry["replace_in_source"])


KINDS = {
    name: _kind(name, _replacing(entry))
    for name, entry in _TABLE.items()
    if "replace" in entry or "replace_in_source" in entry
}


def fault(insert: Insert) -> Insert:
    """Registers a function as the kind of fault that has its name."""
    KINDS[insert.__name__] = _kind(insert.__name__, insert)
    return insert
