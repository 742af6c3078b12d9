"""Diagnoses: a program that failed, and the tools' report on it. The answer is where the fault is, and the change."""

import json
from collections.abc import Sequence

from musadata.corpus.views.answers import list_conversations
from musadata.corpus.views.mending import leaves_open, lines_at_fault, list_steps, show_changes
from musadata.corpus.views.supervised import make_sft
from musadata.records import Annotation, Candidate, Task, Trajectory
from musadata.teacher.prompts import render_diagnosis
from musadata.training_rows import SftRow

FAMILY = "feedback"
READER = "musadata"  # whose words the answers are


def diagnosis_rows(
    task: Task, annotation: Annotation, candidates: Sequence[Candidate], trajectories: Sequence[Trajectory]
) -> list[SftRow]:
    """One for each failed answer that a small change would mend, and of which the tools do not name the place: the
    change is what the cause is known from."""
    conversations = list_conversations(candidates, trajectories)
    steps = {step.candidate.source: step for answers in conversations for step in list_steps(answers, candidates)}
    rows = []
    for step in steps.values():
        wrong = step.candidate
        if not wrong.feedback or not leaves_open(wrong, step.mended):
            continue
        evidence = {
            "error_class": wrong.error_class,
            "rules": [finding.rule for finding in wrong.findings],
            "lines": lines_at_fault(wrong.source, step.mended.source),
            "reported_lines": [finding.line for finding in wrong.findings if finding.line],
            "mended_by": step.mended.candidate_id,
        }
        question = render_diagnosis(task, annotation.told, wrong.source, wrong.feedback)
        rows.append(make_sft(task, FAMILY, question, show_changes(step), READER, wrong, json.dumps(evidence)))
    return rows
