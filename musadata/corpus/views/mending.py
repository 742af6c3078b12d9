"""What was wrong in the failed answers of a conversation, from what mended each of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from musadata.corpus.views.answers import Sampled
from musadata.corpus.views.changes import Change, list_changes, name_place
from musadata.records import Candidate
from musadata.verifier.rules.catalogue import RULES

_MOST_CHANGES = 2  # more of them are another program, which says nothing of the fault
_MOST_LINES = 12


@dataclass(frozen=True)
class Step:
    """A failed program and an accepted one."""

    candidate: Candidate
    mended: Candidate

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        return _telling_changes(self.candidate.source, self.mended.source)


def list_steps(answers: Sequence[Sampled], candidates: Sequence[Candidate]) -> list[Step]:
    """For each failed answer of a conversation the small change to an accepted program: to the answer that ends it, or
    to another of the task's `candidates`. A failed answer that is like none of these has none, and neither has one with
    a seeded fault, which is found at a glance."""
    known = sorted(candidates, key=lambda one: one.candidate_id != answers[-1].candidate.candidate_id)
    right = [one for one in known if one.accepted and not one.fault]
    steps = ([Step(one, other) for other in right] for one in _failed(answers))
    return [small for found in steps if (small := next(filter(_is_small, found), None))]


def _failed(answers: Sequence[Sampled]) -> list[Candidate]:
    return [answer.candidate for answer in answers if not answer.is_right and not answer.candidate.fault]


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


def leaves_open(wrong: Candidate, right: Candidate) -> bool:
    """Whether the verifier's report on a program leaves something to find: it says neither what is not allowed nor how
    to mend it, as of strides, and names no line that has to change."""
    found = [RULES.get(finding.rule) for finding in wrong.findings]  # None: a rule of an older corpus
    names_remedy = bool(found) and all(rule is not None and rule.names_remedy for rule in found)
    if names_remedy or (wrong.error_class is not None and wrong.error_class.is_illegal):
        return False
    reported = {finding.line for finding in wrong.findings if finding.line}
    return not reported.intersection(lines_at_fault(wrong.source, right.source))


def show_changes(step: Step) -> str:
    """Each change as a difference, after the function in which it lies: "In the kernel `add_kernel`:"."""
    shown = []
    for change in step.changes:
        place = name_place(step.candidate.source, (change.old or (change.before,))[0].number)
        lines = [
            f" {change.before.text}",
            *(f"-{one.text}" for one in change.old),
            *(f"+{one.text}" for one in change.new),
        ]
        shown.append("\n".join([f"In {place}:\n", "```diff", *lines, "```"]))
    return "\n\n".join(shown)
