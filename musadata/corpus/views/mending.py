"""What was wrong in the failed answers of a conversation, from what mended each of them; and the words for it."""

from collections.abc import Sequence
from dataclasses import dataclass

from musadata.corpus.views.answers import Sampled
from musadata.corpus.views.changes import Change, Line, list_changes, name_place
from musadata.corpus.views.wording import choose
from musadata.records import Candidate

_MOST_CHANGES = 2  # more of them are another program, which says nothing of the fault
_MOST_LINES = 12


@dataclass(frozen=True)
class Step:
    """A failed program, the changes to the next answer of its conversation, and the fault that these mend.

    `fault` is the name of a seeded fault that is known to be mended, "" for none: then the candidate says what it does.
    """

    candidate: Candidate
    mended: Candidate
    changes: tuple[Change, ...]
    fault: str

    @property
    def rule(self) -> str:
        """Why the mended place is right; "" where nobody knows."""
        return self.candidate.fault_mend if self.fault else ""


def list_chains(answers: Sequence[Sampled], candidates: Sequence[Candidate]) -> list[list[Step]]:
    """For each failed answer of a conversation the small changes that lead to an accepted program.

    They go by way of the answers that follow, or at once to another of the task's `candidates`. A failed answer that is
    like none of these has none.
    """
    right = [one for one in candidates if one.accepted and not one.fault]
    chains: list[list[Step]] = []
    after: Sampled | None = None
    for answer in reversed(answers):
        if not answer.is_target:
            chains.append(_chain(answer.candidate, after, chains[-1] if chains else [], right))
        after = answer
    return [chain for chain in reversed(chains) if chain]


def _chain(one: Candidate, after: Sampled | None, rest: list[Step], right: Sequence[Candidate]) -> list[Step]:
    """`rest` is the chain of the answer that comes `after`."""
    leads_on = after is not None and (after.is_target or rest) and _faults(after.candidate) <= _faults(one)
    if after and leads_on and _is_small(step := _step(one, after.candidate)):
        return [step, *rest]
    return next(([step] for other in right if _is_small(step := _step(one, other))), [])


def _faults(candidate: Candidate) -> set[str]:
    return set(candidate.fault.split("+")) - {""}


def _step(one: Candidate, other: Candidate) -> Step:
    mended = sorted(_faults(one) - _faults(other))
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


def leaves_open(wrong: Candidate, right: Candidate) -> bool:
    """Whether the verifier's report on a program leaves something to find: it neither says what is not allowed nor
    names a line that has to change."""
    if wrong.error_class is not None and wrong.error_class.is_illegal:
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
    does = step.candidate.fault_effect if step.fault else ""
    return " ".join(filter(None, [*(word("place", change, step) for change in step.changes), shown, does]))


def _show(lines: Sequence[Line]) -> str:
    return ", ".join(f"``{one.text}``" if "`" in one.text else f"`{one.text}`" for one in lines)


def show_difference(change: Change, rule: str) -> str:
    """A change of several lines as a difference, after how it is done right."""
    lines = [*(f"- {one.text}" for one in change.old), *(f"+ {one.text}" for one in change.new)]
    heading = f"{rule[:1].upper()}{rule[1:]}:" if rule else "The change:"
    return "\n".join([f"\n\n{heading}\n", "```diff", *lines, "```"])
