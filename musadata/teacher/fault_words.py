"""What is known of a kind of fault that the compiler teacher seeds, in words, without the compiler itself."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml


@dataclass(frozen=True)
class FaultWords:
    """`wrong` says what is wrong in a program with the fault, `rule` how it is done right; both without a full stop."""

    wrong: str
    rule: str


def describe_fault(name: str) -> FaultWords | None:
    """The words for a kind by its name; None if no such kind is known (any more)."""
    return _words().get(name)


@cache
def _words() -> dict[str, FaultWords]:
    table = yaml.safe_load(
        (Path(__file__).parents[1] / "compiler" / "faults" / "kinds.yaml").read_text(encoding="utf-8")
    )
    return {name: FaultWords(entry["review"], entry["mend"]) for name, entry in table.items()}
