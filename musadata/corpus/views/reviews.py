"""Reviews: a program and the question whether it is right. The answer is the verdict, with the change that mends it.

Every wrong program is asked about together with the right one that it was mended to. The two are equal but for the
fault, so neither their length nor their style gives the answer away. Programs that only do what is not allowed are left
out: that is read off, not found.
"""

import json
from collections.abc import Sequence

from musadata.corpus.views.answers import different, list_conversations
from musadata.corpus.views.mending import lines_at_fault, list_steps, show_changes
from musadata.corpus.views.supervised import make_sft
from musadata.records import Annotation, Candidate, Task, Trajectory
from musadata.teacher.prompts import render_review
from musadata.training_rows import SftRow

FAMILY = "review"
REVIEWER = "musadata"  # whose words the answers are
RIGHT = "Verdict: right"


def review_rows(
    task: Task, annotation: Annotation, candidates: Sequence[Candidate], trajectories: Sequence[Trajectory]
) -> list[SftRow]:
    """A wrong and a right program for each failed answer that a small change mends, one for each right program."""
    conversations = list_conversations(candidates, trajectories)
    mended = [step for answers in conversations for step in list_steps(answers, candidates)]
    rows = []
    for step in different(mended, lambda step: step.mended.source):
        wrong, right = step.candidate, step.mended
        if wrong.error_class is not None and wrong.error_class.is_illegal:
            continue
        verdict = f"Verdict: wrong ({wrong.error_class})\n\n{show_changes(step)}"
        rows += [_row(task, annotation, wrong, right, verdict), _row(task, annotation, right, wrong, RIGHT)]
    return rows


def _row(task: Task, annotation: Annotation, candidate: Candidate, other: Candidate, answer: str) -> SftRow:
    evidence = {
        "accepted": candidate.accepted,
        "error_class": candidate.error_class,
        "rules": [finding.rule for finding in candidate.findings],
        "lines": [] if candidate.accepted else lines_at_fault(candidate.source, other.source),
        "compared_with": other.candidate_id,
    }
    question = render_review(task, annotation.told, candidate.source)
    return make_sft(task, FAMILY, question, answer, REVIEWER, candidate, json.dumps(evidence))
