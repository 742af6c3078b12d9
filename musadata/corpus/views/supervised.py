"""Rows for supervised and rejection-sampled fine-tuning. Every completion is a teacher's own words, and every piece of
code in one was accepted by the verifier."""

import hashlib
import re
from collections.abc import Sequence
from itertools import pairwise

from musadata.corpus.views.answers import Prompt, Sampled, different, list_conversations, same_program
from musadata.corpus.views.mending import leaves_open
from musadata.records import Annotation, Candidate, Task, Trajectory
from musadata.rows import content_id
from musadata.teacher.prompts import lists_all, quote_answers, render_generation, render_steps
from musadata.tokens import count_columns
from musadata.training_rows import ChatMessage, RftRow, SftRow

REASONED = "reasoned"
# Tiles in shared memory, scans over lanes, tensor cores and asynchronous copies.
_DESIGNED = re.compile(r"__shared__[^;=]*\]\s*\[|extern __shared__|__shfl_up_sync|wmma|mma_sync|mma\.sync|async")
_NAME = re.compile(r"`([\w.]+)`")
_WORD = re.compile(r"[\w.]+")


def answer_rows(
    task: Task, annotation: Annotation, candidates: Sequence[Candidate], trajectories: Sequence[Trajectory]
) -> list[SftRow]:
    """What one task teaches by its best accepted program and by its repairs.

    The program is the fastest one where times were measured, else one in the schedule that the analysis plans, else the
    first that was kept; one whose kernels have a design that models do not surely know. Every second task has it as
    `reasoned`: facts to the six steps followed by the program, which is what a model without a teacher at its side has
    to do. That takes an analysis which plans this program's schedule, which the traces bear out, and for which the
    facts that the prompt shows are enough (`names_beyond`). All others have it as `generation`: the prompt and the
    answer as sampled. `repair`: answers that failed by themselves, the verifier's feedback on each, and the accepted
    answer, where the feedback on one leaves something to find (`leaves_open`).
    """
    conversations = list_conversations(candidates, trajectories)
    rows = []
    if best := choose_best(annotation, conversations):
        if _is_drawn(task) and _plans(annotation, best) and annotation.grounded and not names_beyond(task, annotation):
            question = render_generation(task, annotation.told)
            text = f"{render_steps(annotation.reasoning)}\n\n```python\n{best.candidate.source.strip()}\n```\n"
            rows.append(make_sft(task, REASONED, question, text, best.candidate.teacher, best.candidate))
        else:
            rows.append(_from_answer(task, "generation", best))
    found = [
        answers[-1]
        for answers in conversations
        if answers[-1].is_target and not answers[-1].is_first and not any(one.candidate.fault for one in answers)
        if any(leaves_open(failed.candidate, after.candidate) for failed, after in pairwise(answers))
    ]
    return [*rows, *(_from_answer(task, "repair", one) for one in different(found, _program))]


def _is_drawn(task: Task) -> bool:
    """Of every second task, by its id."""
    return hashlib.sha256(f"{REASONED}:{task.task_id}".encode()).digest()[0] % 2 == 0


def _plans(annotation: Annotation, answer: Sampled) -> bool:
    planned = (annotation.teacher, annotation.schedule)
    return bool(annotation.schedule) and (answer.candidate.teacher, answer.candidate.schedule) == planned


def choose_best(annotation: Annotation, conversations: Sequence[Sequence[Sampled]]) -> Sampled | None:
    """The accepted first answer that a model should give; none where there is none."""

    def rank(answer: Sampled) -> tuple[float, bool, bool]:
        one = answer.candidate
        return -(one.speedup or 0.0), not _plans(annotation, answer), not one.kept

    return min((one for one in _right(conversations) if one.is_target and _is_designed(one)), key=rank, default=None)


def why_no_target(candidates: Sequence[Candidate], trajectories: Sequence[Trajectory]) -> str:
    """Why right answers to the first question are no targets of `sft`; empty where there are none, or one is."""
    found = _right(list_conversations(candidates, trajectories))
    if not found or any(one.is_target and _is_designed(one) for one in found):
        return ""
    return "elements and rows alone" if any(one.is_target for one in found) else "slow beside its bound"


def _is_designed(answer: Sampled) -> bool:
    """Whether a program does more than compute each element, or reduce each row, for itself: of 30 programs that do
    that alone readers kept none for `sft`, of 13 others five. `rft` has all."""
    return bool(_DESIGNED.search(answer.candidate.source))


def names_beyond(task: Task, annotation: Annotation) -> list[str]:
    """Tensors that the six steps name and the prompt leaves out, as it does where there are many: nobody who has only
    the prompt could write these steps."""
    if lists_all(annotation.told):
        return []
    named = set(_NAME.findall(render_steps(annotation.reasoning)))
    made = {fact.name for trace in annotation.told for fact in trace.tensors}
    if not named & made:
        return []
    shown = set(_WORD.findall(render_generation(task, annotation.told)[-1].content))
    return sorted((named & made) - shown)


def choose_first_answers(conversations: Sequence[Sequence[Sampled]]) -> list[Sampled]:
    """The accepted answers to the first question that differ: those that were kept, or one if none of them was."""
    first = _right(conversations)
    kept = [one for one in first if one.candidate.kept]
    return different(kept or first[:1], _program)


def _right(conversations: Sequence[Sequence[Sampled]]) -> list[Sampled]:
    """The accepted answers to the first question."""
    return [answers[0] for answers in conversations if answers[0].is_right and answers[0].is_first]


def _program(answer: Sampled) -> str:
    return answer.candidate.source


def _from_answer(task: Task, family: str, answer: Sampled) -> SftRow:
    return make_sft(task, family, answer.prompt, answer.text, answer.candidate.teacher, answer.candidate)


def make_sft(
    task: Task,
    family: str,
    prompt: Prompt,
    completion: str,
    teacher: str,
    candidate: Candidate | None = None,
    evidence: str = "",
) -> SftRow:
    """A row of `sft`. No message of an assistant in its `conversation` is a failed answer."""
    answer = (ChatMessage("assistant", completion),)
    conversation = (*quote_answers(prompt), *answer)
    return SftRow(
        sft_id=content_id("sft", task.task_id, prompt, answer),
        **task.columns(),
        family=family,
        prompt=prompt,
        completion=answer,
        conversation=conversation,
        operator_family=task.operator_family,
        teacher=teacher,
        candidate_id=candidate.candidate_id if candidate else "",
        evidence=evidence,
        **count_columns(prompt=prompt, completion=answer, conversation=conversation),
    )


def rft_rows(
    task: Task, annotation: Annotation, candidates: Sequence[Candidate], trajectories: Sequence[Trajectory]
) -> list[RftRow]:
    """The further accepted programs of a task, each with the prompt that it was sampled from.

    They are those that were kept because they differ, without the one that `sft` has.
    """
    conversations = list_conversations(candidates, trajectories)
    best = choose_best(annotation, conversations)
    return [
        RftRow(
            rft_id=content_id("rft", task.task_id, one.candidate.candidate_id, one.prompt, one.message),
            **task.columns(),
            candidate_id=one.candidate.candidate_id,
            prompt=one.prompt,
            completion=one.message,
            conversation=(*one.prompt, *one.message),
            reward=one.candidate.reward,
            structure=one.candidate.structure,
            operator_family=task.operator_family,
            teacher=one.candidate.teacher,
            reward_speed=one.candidate.reward_speed,
            speedup=one.candidate.speedup,
            **count_columns(prompt=one.prompt, completion=one.message, conversation=(*one.prompt, *one.message)),
        )
        for one in choose_first_answers(conversations)
        if one.is_target and (best is None or not same_program(one.candidate.source, best.candidate.source))
    ]
