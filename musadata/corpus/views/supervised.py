"""Rows for supervised and rejection-sampled fine-tuning. Every completion is a teacher's own words, and every piece of
code in one was accepted by the verifier."""

from collections.abc import Sequence

from musadata.corpus.views.answers import Prompt, chat, list_turns, unique
from musadata.records import SCHEMA_VERSION, Annotation, Candidate, Task, Trajectory
from musadata.rows import content_id
from musadata.teacher.prompts import render_generation, render_reasoning, render_steps
from musadata.training_rows import ChatMessage, RftRow, SftRow


def sft_rows(
    task: Task, annotation: Annotation, candidates: Sequence[Candidate], trajectories: Sequence[Trajectory]
) -> list[SftRow]:
    """What one task teaches, in four families.

    `reasoning`: facts to the six steps, where the traces bear all of them out. `generation`: facts and analysis to an
    accepted answer. `reasoned`: facts to the analysis followed by an accepted answer, which is what a model without a
    teacher at its side has to do. `repair`: an answer that failed, the verifier's feedback, and the accepted answer.
    """
    analysis = render_steps(annotation.reasoning)
    rows = []
    if annotation.grounded:
        question = render_reasoning(task, annotation.traces)
        rows.append(_sft(task, "reasoning", question, _answer(analysis), annotation.teacher))
    for trajectory in trajectories:
        if not trajectory.success:
            continue
        *before, last = trajectory.messages
        family = "repair" if len(trajectory.candidates) > 1 else "generation"
        rows.append(_sft(task, family, chat(before), chat([last]), trajectory.teacher))
        if annotation.grounded and family == "generation":
            question = render_generation(task, annotation.traces)
            completion = _answer(f"{analysis}\n\n{last.content}")
            rows.append(_sft(task, "reasoned", question, completion, trajectory.teacher))
    return unique(rows, lambda row: row.sft_id)


def _answer(text: str) -> Prompt:
    return (ChatMessage("assistant", text),)


def _sft(task: Task, family: str, prompt: Prompt, completion: Prompt, teacher: str) -> SftRow:
    return SftRow(
        sft_id=content_id("sft", task.task_id, prompt, completion),
        schema_version=SCHEMA_VERSION,
        task_id=task.task_id,
        family=family,
        prompt=prompt,
        completion=completion,
        conversation=(*prompt, *completion),
        operator_family=task.operator_family,
        license=task.provenance.license,
        teacher=teacher,
        split=task.split,
    )


def rft_rows(
    task: Task, annotation: Annotation, candidates: Sequence[Candidate], trajectories: Sequence[Trajectory]
) -> list[RftRow]:
    """The accepted candidates that were kept because they differ, each with the prompt that it was sampled from."""
    kept = {candidate.candidate_id: candidate for candidate in candidates if candidate.accepted and candidate.kept}
    return [
        RftRow(
            rft_id=content_id("rft", task.task_id, candidate.candidate_id, turn.prompt, turn.answer),
            schema_version=SCHEMA_VERSION,
            task_id=task.task_id,
            candidate_id=candidate.candidate_id,
            prompt=turn.prompt,
            completion=turn.answer,
            conversation=(*turn.prompt, *turn.answer),
            reward=candidate.reward,
            structure=candidate.structure,
            operator_family=task.operator_family,
            license=task.provenance.license,
            teacher=candidate.teacher,
            split=task.split,
            reward_speed=candidate.reward_speed,
            speedup=candidate.speedup,
        )
        for turn in list_turns(trajectories)
        if (candidate := kept.pop(turn.candidate_id, None))
    ]
