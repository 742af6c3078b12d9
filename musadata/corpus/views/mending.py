"""What was wrong in the failed answers of a conversation, from what mended each of them; and the words for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from musadata.corpus.views.answers import Sampled
from musadata.corpus.views.changes import Change, Line, list_changes, name_place
from musadata.corpus.views.wording import choose
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
    to another of the task's `candidates`. A failed answer that is like none of these has none."""
    known = sorted(candidates, key=lambda one: one.candidate_id != answers[-1].candidate.candidate_id)
    right = [one for one in known if one.accepted and not one.fault]
    steps = ([Step(one, other) for other in right] for one in _failed(answers))
    return [small for found in steps if (small := next(filter(_is_small, found), None))]


def _failed(answers: Sequence[Sampled]) -> list[Candidate]:
    return [answer.candidate for answer in answers if not answer.is_right]


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


def name_fault(step: Step, evidence: str = "") -> str:
    """Where the fault is, what the report shows, and what the fault does."""
    shown = f"The report shows that {evidence}." if evidence else ""
    places = [word("place", change, step) for change in step.changes]
    return " ".join(filter(None, [*places, shown, step.candidate.fault_effect]))


def _show(lines: Sequence[Line]) -> str:
    return ", ".join(f"``{one.text}``" if "`" in one.text else f"`{one.text}`" for one in lines)


def show_difference(change: Change, rule: str) -> str:
    """A change of several lines as a difference, after how it is done right."""
    lines = [*(f"- {one.text}" for one in change.old), *(f"+ {one.text}" for one in change.new)]
    heading = f"{rule[:1].upper()}{rule[1:]}:" if rule else "The change:"
    return "\n".join([f"\n\n{heading}\n", "```diff", *lines, "```"])
