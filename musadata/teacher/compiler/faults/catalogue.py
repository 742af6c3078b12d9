"""The kinds of fault that the teacher can seed, with what they look like to somebody who mends them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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


KINDS: dict[str, FaultKind] = {}


def fault(name: str, *, cause: str, mend: str, compiles: bool = True) -> Callable[[Insert], Insert]:
    """Registers a kind of fault."""

    def register(insert: Insert) -> Insert:
        KINDS[name] = FaultKind(name, insert, cause, mend, compiles)
        return insert

    return register
