"""The kinds of fault that the teacher can seed, each with the explanation that its repair gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from musadata.teacher.compiler.faults.fault_context import Condition, FaultContext, Replacement

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


def in_kernel(pattern: str, new: Replacement, where: Condition = lambda site: True) -> Insert:
    """Replaces one match of a pattern in the first kernel that meets the condition and has one."""
    return lambda context: context.in_some_kernel(lambda text: context.replace_one(text, pattern, new), where)


def in_source(pattern: str, new: Replacement) -> Insert:
    """Replaces one match of a pattern in the whole candidate."""
    return lambda context: context.replace_one(context.source, pattern, new)
