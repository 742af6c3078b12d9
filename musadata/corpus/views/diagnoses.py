"""Understanding of feedback: a program and what a tool said of it. The answer names the cause and the place."""

import json
import re
from collections.abc import Sequence

from musadata.corpus.views.answers import list_conversations
from musadata.corpus.views.mending import (
    Step,
    leaves_open,
    lines_at_fault,
    list_chains,
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
    chains = [chain for answers in conversations for chain in list_chains(answers, candidates)]
    open_ones = [chain for chain in chains if leaves_open(chain[0].candidate, chain[0].mended) or len(chain) > 1]
    asked = {chain[0].candidate.source: chain for chain in open_ones if chain[0].candidate.feedback}
    return [_row(task, annotation, chain) for chain in asked.values()]


def _row(task: Task, annotation: Annotation, chain: Sequence[Step]) -> SftRow:
    """`chain` begins with the answer in question; its other steps mend what the tools could not see in it yet."""
    step, *others = chain
    candidate = step.candidate
    evidence = {
        "error_class": candidate.error_class,
        "rules": [finding.rule for finding in candidate.findings],
        "fault": step.fault,
        "lines": lines_at_fault(candidate.source, step.mended.source),
        "reported_lines": [finding.line for finding in candidate.findings if finding.line],
        "mended_by": step.mended.candidate_id,
        "hidden": [
            {"fault": one.fault, "lines": lines_at_fault(one.candidate.source, one.mended.source)} for one in others
        ],
    }
    question = render_diagnosis(task, annotation.told, candidate.source, candidate.feedback)
    cause = name_fault(step, read_evidence(candidate.feedback, candidate.source))
    answer = _join(cause, _place_report(step), *_mend(step))
    for other in others:
        hidden = _join(choose("hidden", other.candidate.candidate_id), name_fault(other), *_mend(other))
        answer = f"{answer}\n\n{hidden}"
    return make_sft(task, FAMILY, question, answer, READER, candidate, json.dumps(evidence))


def _join(*parts: str) -> str:
    """Sentences and differences, each difference a paragraph of its own."""
    return " ".join(filter(None, parts)).replace(" \n\n", "\n\n").replace("\n``` ", "\n```\n\n")


def _mend(step: Step) -> list[str]:
    rule = step.rule
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
