"""What was wrong in the failed answers of a conversation, from what mended each of them; and the words for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from musadata.corpus.views.answers import Sampled
from musadata.corpus.views.changes import Change, Line, list_changes, name_place
from musadata.corpus.views.wording import as_sentence, choose
from musadata.records import Candidate
from musadata.teacher.fault_words import FaultWords, describe_fault

_MOST_CHANGES = 2  # more of them are another program, which says nothing of the fault
_MOST_LINES = 12


@dataclass(frozen=True)
class Step:
    """A failed program, the changes to the next answer of its conversation, and the fault that these mend.

    `fault` is the name of a seeded fault, "" where none is known.
    """

    candidate: Candidate
    mended: Candidate
    changes: tuple[Change, ...]
    fault: str

    @property
    def words(self) -> FaultWords | None:
        return describe_fault(self.fault)


def list_steps(answers: Sequence[Sampled]) -> list[Step]:
    """The steps of a conversation that ends with an accepted answer; none where some step rewrites the program."""
    if not answers[-1].is_target:
        return []
    candidates = [answer.candidate for answer in answers]
    steps = [_step(one, other) for one, other in pairwise(candidates)]
    return steps if all(map(_is_small, steps)) else []


def _step(one: Candidate, other: Candidate) -> Step:
    left = other.fault.split("+") if other.fault else []
    mended = [name for name in one.fault.split("+") if name and name not in left]
    return Step(one, other, _telling_changes(one.source, other.source), mended[0] if len(mended) == 1 else "")


def _telling_changes(wrong: str, right: str) -> tuple[Change, ...]:
    """Without those of imports, where there are others: what is imported only follows from them."""
    changes = list_changes(wrong, right)
    return tuple(change for change in changes if not _only_imports(change)) or changes


def _only_imports(change: Change) -> bool:
    return all(line.text.startswith(("import ", "from ")) for line in (*change.old, *change.new))


def _is_small(step: Step) -> bool:
    lines = sum(len(change.old) + len(change.new) for change in step.changes)
    judged = step.candidate.error_class is not None and not step.candidate.error_class.is_undecided
    return judged and 0 < len(step.changes) <= _MOST_CHANGES and lines <= _MOST_LINES


def lines_at_fault(wrong: str, right: str) -> list[int]:
    """1-based, in the wrong program: the lines that were replaced, or the line after which something is missing."""
    return [line.number for change in _telling_changes(wrong, right) for line in change.old or (change.before,)]


def place_of(change: Change, step: Step) -> str:
    """The function in which a change lies: "the kernel `add_kernel`"."""
    return name_place(step.candidate.source, (change.old or (change.before,))[0].number)


def word(name: str, change: Change, step: Step, **values: str) -> str:
    """What the table of wordings says under a name of a change of this kind."""
    kind = "missing" if not change.old else "replaced" if change.new else "superfluous"
    shown = {"old": _show(change.old or (change.before,)), "new": _show(change.new), "place": place_of(change, step)}
    bare = "_bare" if "rule" in values and not values["rule"] else ""
    return choose(
        f"{name}_{kind}{bare}", step.candidate.candidate_id, step.changes.index(change), **{**shown, **values}
    )


def name_fault(step: Step) -> str:
    """Where the fault is, and what is wrong there."""
    parts = [word("place", change, step) for change in step.changes]
    return " ".join([*parts, *([as_sentence(step.words.wrong)] if step.words else [])])


def _show(lines: Sequence[Line]) -> str:
    return ", ".join(f"``{one.text}``" if "`" in one.text else f"`{one.text}`" for one in lines)
