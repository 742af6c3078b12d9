"""Pairs for preference training: two answers to the very same prompt."""

from collections import defaultdict
from collections.abc import Sequence

from musadata.corpus.views.answers import Prompt, Turn, list_turns, unique
from musadata.records import SCHEMA_VERSION, Annotation, Candidate, ErrorClass, Task, Trajectory
from musadata.rows import content_id
from musadata.training_rows import PreferenceRow


def preference_rows(
    task: Task, annotation: Annotation, candidates: Sequence[Candidate], trajectories: Sequence[Trajectory]
) -> list[PreferenceRow]:
    """Accepted against failed answers to the very same prompt, each failed one once.

    Failures of the infrastructure are nobody's fault, so they are not rejected answers.
    """
    found = {candidate.candidate_id: candidate for candidate in candidates}
    by_prompt: defaultdict[Prompt, list[Turn]] = defaultdict(list)
    for turn in list_turns(trajectories):
        by_prompt[turn.prompt].append(turn)
    rows = []
    for turns in by_prompt.values():
        accepted = [turn for turn in turns if found[turn.candidate_id].accepted]
        failed = [turn for turn in turns if _is_bad_answer(found[turn.candidate_id])]
        for index, turn in enumerate(failed if accepted else []):
            better = accepted[index % len(accepted)]  # spread the pairs over all accepted answers
            rows.append(_preference(task, better, turn, found))
    return unique(rows, lambda row: row.preference_id)


def _is_bad_answer(candidate: Candidate) -> bool:
    return not candidate.accepted and candidate.error_class not in (None, ErrorClass.INFRA)


def _preference(task: Task, better: Turn, worse: Turn, found: dict[str, Candidate]) -> PreferenceRow:
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
        chosen_reward_speed=chosen.reward_speed,
    )
