"""Prompts for reinforcement learning, with all that the verifier needs to score an answer."""

import hashlib
import json
from collections.abc import Sequence

from musadata.records import Annotation, Candidate, InputSpec, Task, Trace, Trajectory
from musadata.rows import content_id, plain, restore
from musadata.sampling.pass_rate import measure_pass_rate
from musadata.teacher.prompts import PromptForm, form_of, render_generation
from musadata.tokens import count_columns
from musadata.training_rows import ExtraInfo, RewardModel, RlRow

DATA_SOURCE = "musadata"  # verl: unknown to it, so that it asks for a custom reward function
ABILITY = "kernel-generation"


def rl_rows(
    task: Task, annotation: Annotation, candidates: Sequence[Candidate], trajectories: Sequence[Trajectory]
) -> list[RlRow]:
    """One prompt per annotated task, solved or not, with all that the verifier needs to score an answer.

    Two of three have the facts. The analysis is left out: the model that is trained has no teacher to write it.
    """
    return [rl_row(task, annotation.traces, candidates, annotation.declared)]


def rl_row(
    task: Task, traces: Sequence[Trace], candidates: Sequence[Candidate] = (), declared: Sequence[Trace] = ()
) -> RlRow:
    """The prompt of any task, with what was measured of its difficulty."""
    facts = () if form_of(task.task_id) is PromptForm.PROBLEM else (*declared, *traces)
    prompt, rate = render_generation(task, facts), measure_pass_rate(candidates)
    return RlRow(
        rl_id=content_id("rl", task.task_id, prompt),
        **task.columns(),
        data_source=DATA_SOURCE,
        prompt=prompt,
        ability=ABILITY,
        reward_model=RewardModel(style="rule", ground_truth=ground_truth(task, traces)),
        extra_info=ExtraInfo(
            index=int.from_bytes(hashlib.sha256(task.task_id.encode()).digest()[:6]),
            split=task.split,
            task_id=task.task_id,
            operator_family=task.operator_family,
            level=task.level,
        ),
        samples=rate.samples,
        passed=rate.passed,
        avg_at_k=rate.average,
        pass_at_k=rate.curve,
        **count_columns(prompt=prompt),
    )


def ground_truth(task: Task, traces: Sequence[Trace]) -> str:
    """What a reward function hands to the verifier: the task and the other sets of shapes, as JSON.

    The text signature only serves near-duplicates and is left out.
    """
    shape_sets = [plain(trace.inputs) for trace in traces]
    return json.dumps({"task": {**plain(task), "text_signature": []}, "shape_sets": shape_sets}, ensure_ascii=False)


def task_of(truth: str) -> Task:
    """The task back from `RlRow.reward_model.ground_truth`, for `musadata.verifier.verify`."""
    return restore(Task, json.loads(truth)["task"])


def shape_sets_of(truth: str) -> tuple[tuple[InputSpec, ...], ...]:
    """The sets of input shapes that an answer is verified on, for `musadata.verifier.verify`."""
    return tuple(tuple(restore(InputSpec, spec) for spec in some) for some in json.loads(truth)["shape_sets"])
