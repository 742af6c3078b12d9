"""The kinds of fault that the teacher can seed."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from musadata.compiler.emission.candidate import Candidate
from musadata.compiler.faults.fault_context import Condition, FaultContext
from musadata.compiler.faults.kernel_changes import CHANGES, within_tanh
from musadata.compiler.ir.code import walk

Insert = Callable[[FaultContext], Candidate | None]


@dataclass(frozen=True)
class FaultKind:
    """One kind of mistake.

    Attributes:
        name: countable name, as it stands in the corpus.
        insert: the candidate with the mistake in it, or None where it would not matter for this task.
        weight: how often it is drawn, compared with others that fit the task.
    """

    name: str
    insert: Insert
    weight: float = 1.0


_TABLE: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("kinds.yaml").read_text(encoding="utf-8"))


def _kind(name: str, insert: Insert) -> FaultKind:
    return FaultKind(name, insert, _TABLE[name].get("weight", 1.0))


WORDS: dict[str, Any] = {name: entry["words"] for name, entry in _TABLE.items() if "words" in entry}

_CONDITIONS: dict[str, Condition] = {
    "": lambda site: True,
    "has an inner loop": lambda site: max(site.inner) > 1,
    "has rows longer than a block": lambda site: max(site.inner) > site.threads,
    "has a tail of less than four": lambda site: site.ragged(4),
    "shuffles more than half a warp": lambda site: (
        # A lane has up to eight neighbours where rows are loaded so.
        max(site.inner) > (128 if site.calls("load_row") else 16) and site.calls("warp_", "block_")
    ),
    "shares a loop of more than half a block": lambda site: (
        max(site.inner) > site.threads // 2 and site.calls("block_")
    ),
    "reduces in a loop": lambda site: (
        bool(site.emitted.kernel.reductions) and not any(name.endswith("_tile") for name in site.names)
    ),
}


SPARED = {"overflowing_softplus": within_tanh}  # what takes the effect of a change away


def _replacing(entry: dict[str, Any]) -> Insert | None:
    """The edit that an entry of the table describes, if it describes one."""
    where = _CONDITIONS[entry.get("where", "")]
    match entry:
        case {"change": name}:
            change, spared = CHANGES[name], SPARED.get(name)
            return lambda context: context.replace_node(
                change, lambda site: where(site) and not (spared and any(map(spared, walk(site.function))))
            )
        case {"replace_in_helper": [old, new]}:
            return lambda context: context.replace_in_helper(old, new) if any(map(where, context.sites())) else None
    return None


KINDS = {name: _kind(name, insert) for name, entry in _TABLE.items() if (insert := _replacing(entry))}


def fault(insert: Insert) -> Insert:
    """Registers a function as the kind of fault that has its name."""
    KINDS[insert.__name__] = _kind(insert.__name__, insert)
    return insert
