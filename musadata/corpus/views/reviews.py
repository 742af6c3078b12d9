"""Reviews: a program and the question whether it is right. The answer is the verdict with the place and the reason.

Every wrong program is asked about together with the right one that it was mended to. The two are equal but for the
fault, so neither their length nor their style gives the answer away; of the right one the answer says why the place is
right that is wrong in the other. Where that is not known, there is no row of the right one. Programs that only do what
is not allowed are left out: that is read off, not found.
"""

import hashlib
import json
from collections.abc import Sequence

from musadata.corpus.views.answers import different, list_conversations
from musadata.corpus.views.mending import Step, lines_at_fault, list_chains, name_fault, word
from musadata.corpus.views.supervised import make_sft
from musadata.corpus.views.symptoms import describe_symptom
from musadata.corpus.views.wording import after_comma, choose
from musadata.records import Annotation, Candidate, Task, Trajectory
from musadata.teacher.prompts import render_review
from musadata.training_rows import SftRow

FAMILY = "review"
REVIEWER = "musadata"  # whose words the answers are
RIGHT = "Verdict: right"
_COUNTS = ("no", "one", "two", "three")


def review_rows(
    task: Task, annotation: Annotation, candidates: Sequence[Candidate], trajectories: Sequence[Trajectory]
) -> list[SftRow]:
    """A wrong and a right program for each conversation with a program that small changes mend.

    Of several failed answers one is drawn by its id, so that those with two faults are asked about as well.
    """
    conversations = list_conversations(candidates, trajectories)
    mended = [chains for answers in conversations if (chains := list_chains(answers, candidates))]
    rows = []
    for chains in different(mended, lambda chains: chains[-1][-1].mended.source):
        drawn = int.from_bytes(hashlib.sha256(chains[0][0].candidate.candidate_id.encode()).digest()[:4])
        chain = chains[drawn % len(chains)]
        wrong, right = chain[0].candidate, chain[-1].mended
        if wrong.error_class is not None and wrong.error_class.is_illegal:
            continue
        rows.append(_row(task, annotation, wrong, right, _reject(chain)))
        if reasons := list(dict.fromkeys(filter(None, map(_defend, chain)))):
            rows.append(_row(task, annotation, right, wrong, "\n\n".join([RIGHT, *reasons])))
    return rows


def _row(task: Task, annotation: Annotation, candidate: Candidate, other: Candidate, answer: str) -> SftRow:
    evidence = {
        "accepted": candidate.accepted,
        "error_class": candidate.error_class,
        "rules": [finding.rule for finding in candidate.findings],
        "fault": candidate.fault,
        "lines": [] if candidate.accepted else lines_at_fault(candidate.source, other.source),
        "compared_with": other.candidate_id,
    }
    question = render_review(task, annotation.told, candidate.source)
    return make_sft(task, FAMILY, question, answer, REVIEWER, candidate, json.dumps(evidence))


def _defend(step: Step) -> str:
    """Why the place is right that is wrong in the other program; "" where no rule says it, or nothing stands there."""
    new = next((change for change in step.changes if change.new), None)
    return word("right", new, step, rule=step.rule, effect=step.candidate.fault_effect) if new and step.rule else ""


def _reject(chain: Sequence[Step]) -> str:
    first = chain[0].candidate
    parts = [f"Verdict: wrong ({first.error_class})"]
    if len(chain) > 1:
        parts.append(choose("several", first.candidate_id, count=_COUNTS[len(chain)]))
    for number, step in enumerate(chain):
        seen = describe_symptom(step.candidate)
        if number and seen:
            seen = choose("next_symptom", step.candidate.candidate_id, symptom=after_comma(seen))
        parts.append(" ".join(filter(None, [name_fault(step), seen])))
    return "\n\n".join(parts)
