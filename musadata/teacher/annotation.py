"""From a traced task to its annotation: ask for the six steps and check them against the facts."""

from collections.abc import Callable

from musadata.records import SCHEMA_VERSION, Annotation, Reject, Task, Trace
from musadata.rows import content_id
from musadata.teacher.grounding import check_grounding, parse_steps
from musadata.teacher.prompts import STEPS, render_reasoning
from musadata.teacher.protocol import REQUEST_FAILED, Answer, CannotAnswer, Request, RequestFailed, RequestKind


def annotate(
    task: Task, traces: tuple[Trace, ...], ask: Callable[[Request], Answer], teacher: str, seed: int
) -> Annotation | Reject:
    """The annotation of a task, with its ungrounded claims; a reject if the teacher does not give all six steps."""
    messages = render_reasoning(task, traces)
    try:
        answer = ask(Request(RequestKind.REASON, task, traces, messages, seed=seed))
    except RequestFailed as failure:
        return _reject(task, REQUEST_FAILED, str(failure))
    except CannotAnswer as refusal:
        return _reject(task, "no answer", str(refusal))
    steps = parse_steps(answer.text)
    missing = [name for name in STEPS if name not in [step.step for step in steps]]
    if missing:
        return _reject(task, "steps missing", ", ".join(missing))
    ungrounded = check_grounding(steps, traces)
    return Annotation(
        annotation_id=content_id("annotation", task.task_id, traces, steps, answer.teacher or teacher),
        schema_version=SCHEMA_VERSION,
        task_id=task.task_id,
        traces=traces,
        reasoning=steps,
        grounded=not ungrounded,
        ungrounded=ungrounded,
        teacher=answer.teacher or teacher,
        split=task.split,
        **answer.provenance(),
    )


def _reject(task: Task, reason: str, detail: str) -> Reject:
    return Reject(SCHEMA_VERSION, "annotations", "reason", reason, detail, task.task_id)
