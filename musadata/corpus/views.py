"""From what the stages commit to what trainers read: pure functions of one task's rows.

Every completion is a teacher's own words, and every piece of code in one was accepted by the verifier. The loss is on
the last answer only.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, TypeVar

from musadata.records import SCHEMA_VERSION, Annotation, Candidate, ErrorClass, InputSpec, Message, Task, Trajectory
from musadata.rows import content_id, plain, restore
from musadata.teacher.prompts import render_generation, render_reasoning, render_steps
from musadata.training_rows import ChatMessage, ExtraInfo, PreferenceRow, RewardModel, RftRow, RlRow, SftRow

DATA_SOURCE = "musadata"  # verl: unknown to it, so that it asks for a custom reward function
ABILITY = "kernel-generation"
Prompt = tuple[ChatMessage, ...]
Row = TypeVar("Row")


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
    return _unique(rows, lambda row: row.sft_id)


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
        )
        for turn in _turns(trajectories)
        if (candidate := kept.pop(turn.candidate_id, None))
    ]


def preference_rows(
    task: Task, annotation: Annotation, candidates: Sequence[Candidate], trajectories: Sequence[Trajectory]
) -> list[PreferenceRow]:
    """Accepted against failed answers to the very same prompt, each failed one once.

    Failures of the infrastructure are nobody's fault, so they are not rejected answers.
    """
    found = {candidate.candidate_id: candidate for candidate in candidates}
    by_prompt: defaultdict[Prompt, list[_Turn]] = defaultdict(list)
    for turn in _turns(trajectories):
        by_prompt[turn.prompt].append(turn)
    rows = []
    for turns in by_prompt.values():
        accepted = [turn for turn in turns if found[turn.candidate_id].accepted]
        failed = [turn for turn in turns if _is_bad_answer(found[turn.candidate_id])]
        for index, turn in enumerate(failed if accepted else []):
            better = accepted[index % len(accepted)]  # spread the pairs over all accepted answers
            rows.append(_preference(task, better, turn, found))
    return _unique(rows, lambda row: row.preference_id)


def _is_bad_answer(candidate: Candidate) -> bool:
    return not candidate.accepted and candidate.error_class not in (None, ErrorClass.INFRA)


def _preference(task: Task, better: "_Turn", worse: "_Turn", found: dict[str, Candidate]) -> PreferenceRow:
    chosen, rejected = found[better.candidate_id], found[worse.candidate_id]
    return PreferenceRow(
        preference_id=content_id("preference", task.task_id, better.prompt, better.answer, worse.answer),
        schema_version=SCHEMA_VERSION,
        task_id=task.task_id,
        prompt=better.prompt,
        chosen=better.answer,
        rejected=worse.answer,
        chosen_id=chosen.candidate_id,
        rejected_id=rejected.candidate_id,
        chosen_reward=chosen.reward,
        rejected_reward=rejected.reward,
        rejected_error=rejected.error_class or ErrorClass.INFRA,
        operator_family=task.operator_family,
        license=task.provenance.license,
        teacher=chosen.teacher,
        split=task.split,
    )


def rl_rows(
    task: Task, annotation: Annotation, candidates: Sequence[Candidate], trajectories: Sequence[Trajectory]
) -> list[RlRow]:
    """One prompt per annotated task, solved or not, with all that the verifier needs to score an answer.

    The analysis is left out: the model that is trained has no teacher to write it.
    """
    prompt = render_generation(task, annotation.traces)
    return [
        RlRow(
            rl_id=content_id("rl", task.task_id, prompt),
            schema_version=SCHEMA_VERSION,
            task_id=task.task_id,
            data_source=DATA_SOURCE,
            prompt=prompt,
            ability=ABILITY,
            reward_model=RewardModel(style="rule", ground_truth=ground_truth(task, annotation)),
            extra_info=ExtraInfo(
                index=int.from_bytes(hashlib.sha256(task.task_id.encode()).digest()[:6]),
                split=task.split,
                task_id=task.task_id,
                operator_family=task.operator_family,
                level=task.level,
            ),
            license=task.provenance.license,
            split=task.split,
        )
    ]


# What trainers read: each dataset from all that is known of one task. Stage 3 writes them all.
VIEWS: dict[str, Callable[[Task, Annotation, Sequence[Candidate], Sequence[Trajectory]], Sequence[Any]]] = {
    "sft": sft_rows,
    "rft": rft_rows,
    "preferences": preference_rows,
    "rl": rl_rows,
}


def ground_truth(task: Task, annotation: Annotation) -> str:
    """What a reward function hands to the verifier: the task and the other sets of shapes, as JSON.

    The text signature only serves near-duplicates and is left out.
    """
    shape_sets = [plain(trace.inputs) for trace in annotation.traces]
    return json.dumps({"task": {**plain(task), "text_signature": []}, "shape_sets": shape_sets}, ensure_ascii=False)


def task_of(truth: str) -> Task:
    """The task back from `RlRow.reward_model.ground_truth`, for `musadata.verifier.verify`."""
    return restore(Task, json.loads(truth)["task"])


def shape_sets_of(truth: str) -> tuple[tuple[InputSpec, ...], ...]:
    """The sets of input shapes that an answer is verified on, for `musadata.verifier.verify`."""
    return tuple(tuple(restore(InputSpec, spec) for spec in some) for some in json.loads(truth)["shape_sets"])


@dataclass(frozen=True)
class _Turn:
    """One answer in a conversation and all that was said before it."""

    candidate_id: str
    prompt: Prompt
    answer: Prompt


def _turns(trajectories: Sequence[Trajectory]) -> Iterator[_Turn]:
    for trajectory in trajectories:
        answers = [index for index, message in enumerate(trajectory.messages) if message.role == "assistant"]
        for candidate_id, index in zip_longest(trajectory.candidates, answers):
            if candidate_id is None or index is None:
                raise ValueError(f"{trajectory.trajectory_id} has {len(answers)} answers and other candidates")
            messages = chat(trajectory.messages[: index + 1])
            yield _Turn(candidate_id, messages[:-1], messages[-1:])


def chat(messages: Sequence[Message]) -> Prompt:
    """Messages as trainers read them."""
    return tuple(ChatMessage(message.role, message.content) for message in messages)


def _unique(rows: Iterable[Row], key: Callable[[Row], str]) -> list[Row]:
    """Without rows whose content was there before: two samples may give the same answer."""
    first: dict[str, Row] = {}
    for row in rows:
        first.setdefault(key(row), row)
    return list(first.values())
