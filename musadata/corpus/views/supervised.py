"""Rows for supervised and rejection-sampled fine-tuning. Every completion is a teacher's own words, and every piece of
code in one was accepted by the verifier."""

import re
from collections.abc import Sequence

from musadata.corpus.views.answers import Prompt, Sampled, different, list_conversations
from musadata.records import SCHEMA_VERSION, Annotation, Candidate, Task, Trajectory
from musadata.rows import content_id
from musadata.teacher.prompts import lists_all, quote_answers, render_generation, render_reasoning, render_steps
from musadata.tokens import count_columns
from musadata.training_rows import ChatMessage, RftRow, SftRow

REASONING = "reasoning"
_NAME = re.compile(r"`([\w.]+)`")
_WORD = re.compile(r"[\w.]+")


def answer_rows(
    task: Task, annotation: Annotation, candidates: Sequence[Candidate], trajectories: Sequence[Trajectory]
) -> list[SftRow]:
    """What one task teaches by its analysis and its accepted programs, in four families.

    `reasoning`: facts to the six steps, where the traces bear all of them out and the facts that the prompt shows are
    enough (`names_beyond`). `generation`: facts and analysis to an accepted answer. `reasoned`: facts to the analysis
    followed by an accepted answer in the schedule that it plans, which is what a model without a teacher at its side
    has to do; there is none where the teacher does not say which schedules these are. Its program is another one than
    that of `generation` where there is a second.
    `repair`: answers that failed, the verifier's feedback on each, and the accepted answer.
    """
    conversations = list_conversations(candidates, trajectories)
    rows = []
    teaches = annotation.grounded and not names_beyond(task, annotation)
    if teaches:
        question = render_reasoning(task, annotation.told)
        rows.append(make_sft(task, REASONING, question, render_steps(annotation.reasoning), annotation.teacher))
    if generation := _choose_generation(annotation, conversations):
        rows.append(_from_answer(task, "generation", generation))
    for one in _choose_reasoned(annotation, conversations) if teaches else ():
        question = render_generation(task, annotation.told)
        completion = f"{render_steps(annotation.reasoning)}\n\n```python\n{one.candidate.source.strip()}\n```\n"
        rows.append(make_sft(task, "reasoned", question, completion, one.candidate.teacher, one.candidate))
    repaired = [answers[-1] for answers in conversations if answers[-1].is_target and not answers[-1].is_first]
    return [*rows, *(_from_answer(task, "repair", one) for one in different(repaired, _program))]


def _choose_reasoned(annotation: Annotation, conversations: Sequence[Sequence[Sampled]]) -> list[Sampled]:
    """An accepted answer of the annotation's teacher in the schedule that the annotation plans: the second that was
    kept, if it is one."""
    chosen, planned = choose_first_answers(conversations), (annotation.teacher, annotation.schedule)
    ordered = [*chosen[1:2], *chosen[:1], *_accepted(conversations)] if annotation.schedule else []
    return [one for one in ordered if (one.candidate.teacher, one.candidate.schedule) == planned][:1]


def _choose_generation(annotation: Annotation, conversations: Sequence[Sequence[Sampled]]) -> Sampled | None:
    """The first answer that was kept and is not that of `reasoned`, if there is one."""
    chosen = choose_first_answers(conversations)
    reasoned = [one.candidate.candidate_id for one in _choose_reasoned(annotation, conversations)]
    others = [one for one in chosen if one.candidate.candidate_id not in reasoned]
    return next(iter([*others, *chosen]), None)


def names_beyond(task: Task, annotation: Annotation) -> list[str]:
    """Tensors that the six steps name and the prompt leaves out, as it does where there are many: nobody who has only
    the prompt could write these steps."""
    if lists_all(annotation.told):
        return []
    named = set(_NAME.findall(render_steps(annotation.reasoning)))
    made = {fact.name for trace in annotation.told for fact in trace.tensors}
    if not named & made:
        return []
    shown = set(_WORD.findall(render_reasoning(task, annotation.told)[-1].content))
    return sorted((named & made) - shown)


def choose_first_answers(conversations: Sequence[Sequence[Sampled]]) -> list[Sampled]:
    """The accepted answers to the first question that differ: those that were kept, or one if none of them was."""
    first = _accepted(conversations)
    kept = [one for one in first if one.candidate.kept]
    return different(kept or first[:1], _program)


def _accepted(conversations: Sequence[Sequence[Sampled]]) -> list[Sampled]:
    """The accepted answers to the first question."""
    return [answers[0] for answers in conversations if answers[0].is_target and answers[0].is_first]


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
        schema_version=SCHEMA_VERSION,
        task_id=task.task_id,
        family=family,
        prompt=prompt,
        completion=answer,
        conversation=conversation,
        operator_family=task.operator_family,
        license=task.provenance.license,
        teacher=teacher,
        split=task.split,
        candidate_id=candidate.candidate_id if candidate else "",
        evidence=evidence,
        **count_columns(prompt=prompt, completion=answer, conversation=conversation),
    )


def rft_rows(
    task: Task, annotation: Annotation, candidates: Sequence[Candidate], trajectories: Sequence[Trajectory]
) -> list[RftRow]:
    """The further accepted programs of a task, each with the prompt that it was sampled from.

    They are those that were kept because they differ, without the one that `sft` has as `generation`.
    """
    conversations = list_conversations(candidates, trajectories)
    generation = _choose_generation(annotation, conversations)
    return [
        RftRow(
            rft_id=content_id("rft", task.task_id, one.candidate.candidate_id, one.prompt, one.message),
            schema_version=SCHEMA_VERSION,
            task_id=task.task_id,
            candidate_id=one.candidate.candidate_id,
            prompt=one.prompt,
            completion=one.message,
            conversation=(*one.prompt, *one.message),
            reward=one.candidate.reward,
            structure=one.candidate.structure,
            operator_family=task.operator_family,
            license=task.provenance.license,
            teacher=one.candidate.teacher,
            split=task.split,
            reward_speed=one.candidate.reward_speed,
            speedup=one.candidate.speedup,
            **count_columns(prompt=one.prompt, completion=one.message, conversation=(*one.prompt, *one.message)),
        )
        for one in choose_first_answers(conversations)
        if one != generation
    ]
