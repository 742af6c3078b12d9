"""Understanding of feedback: a program and what a tool said of it. The answer names the cause and the place."""

import json
import re
from collections.abc import Sequence

from musadata.corpus.views.answers import list_conversations
from musadata.corpus.views.mending import (
    Step,
    leaves_open,
    lines_at_fault,
    list_steps,
    name_fault,
    place_of,
    show_difference,
    word,
)
from musadata.corpus.views.supervised import make_sft
from musadata.corpus.views.symptoms import kernel_of
from musadata.corpus.views.wording import choose
from musadata.records import Annotation, Candidate, ErrorClass, Task, Trajectory
from musadata.teacher.evidence import read_evidence
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
    steps = [step for answers in conversations for step in list_steps(answers, candidates)]
    open_ones = [step for step in steps if step.candidate.feedback and leaves_open(step.candidate, step.mended)]
    return [_row(task, annotation, step) for step in {step.candidate.source: step for step in open_ones}.values()]


def _row(task: Task, annotation: Annotation, step: Step) -> SftRow:
    candidate = step.candidate
    evidence = {
        "error_class": candidate.error_class,
        "rules": [finding.rule for finding in candidate.findings],
        "fault": candidate.fault,
        "lines": lines_at_fault(candidate.source, step.mended.source),
        "reported_lines": [finding.line for finding in candidate.findings if finding.line],
        "mended_by": step.mended.candidate_id,
    }
    question = render_diagnosis(task, annotation.told, candidate.source, candidate.feedback)
    cause = name_fault(step, read_evidence(candidate.feedback))
    answer = _join(cause, _place_report(step), *_mend(step))
    return make_sft(task, FAMILY, question, answer, READER, candidate, json.dumps(evidence))


def _join(*parts: str) -> str:
    """Sentences and differences, each difference a paragraph of its own."""
    return " ".join(filter(None, parts)).replace(" \n\n", "\n\n").replace("\n``` ", "\n```\n\n")


def _mend(step: Step) -> list[str]:
    rule = step.candidate.fault_mend
    told = [(change, "" if number else rule) for number, change in enumerate(step.changes)]
    return [
        show_difference(change, said)
        if max(len(change.old), len(change.new)) > 1
        else word("mend", change, step, rule=said)
        for change, said in told
    ]


def _place_report(step: Step) -> str:
    """How the place that the tool names and the place of the fault go together; "" where the tool names none."""
    candidate, key = step.candidate, step.candidate.candidate_id
    finding = candidate.findings[0] if candidate.findings else None
    if finding is None:
        return ""
    kernel, places = kernel_of(finding), [place_of(change, step) for change in step.changes]
    if kernel and any(place.startswith("the kernel") for place in places):
        elsewhere = not any(f"`{kernel}`" in place for place in places)
        return choose("other_kernel", key, reported=kernel) if elsewhere else ""
    if candidate.error_class is ErrorClass.COMPILE:
        reported = _reported_line(finding.message)
        changed = {line.text for change in step.changes for line in change.old}
        return choose("later_line", key, reported=reported) if reported and reported not in changed else ""
    return ""


def _reported_line(message: str) -> str:
    """The line of the program that a compiler's first message shows below it; "" for none."""
    found = re.match(r"[^\n]*error:[^\n]*\n {4}(\S[^\n]*)", message)
    return found.group(1).strip() if found else ""
