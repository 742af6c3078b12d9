"""From a task's conversations to the rows of `candidates/` and `trajectories/`."""

import dataclasses
from collections.abc import Sequence

from musadata.config import SamplingConfig
from musadata.records import Candidate, Message, Reject, Task, Trajectory, Turn
from musadata.rows import content_id
from musadata.sampling.diversity import choose_diverse
from musadata.sampling.returns import trajectory_return
from musadata.sampling.rollout import Attempt
from musadata.sampling.structure import describe_structure
from musadata.teacher.prompts import quote_answers, render_repair
from musadata.training_rows import ChatMessage
from musadata.verifier.extract import extract
from musadata.verifier.reward import reward_parts

Conversation = Sequence[Attempt]
KEEP = "keep"  # the step that chooses among accepted candidates
UNSEEN_FAULT = "unseen_fault"


def assemble(
    task: Task, conversations: Sequence[Conversation], teacher: str, config: SamplingConfig
) -> tuple[list[Candidate], list[Trajectory]]:
    """Every attempt as a candidate and every conversation as a trajectory, in order of sample and turn.

    Rewards weigh a speedup as `config` says, so they may differ from the verdicts' own, which are made with the
    defaults. No candidate is kept yet, see `keep_different`.
    """
    chains = [_chain(task, conversation, teacher, config) for conversation in conversations]
    candidates: dict[str, Candidate] = {}
    for candidate in (one for chain in chains for one in chain):
        candidates.setdefault(candidate.candidate_id, candidate)  # a retry begins with one of an earlier conversation
    trajectories = [
        _trajectory(task, conversation, chain, teacher, config)
        for conversation, chain in zip(conversations, chains, strict=True)
        if not has_unseen_fault(chain[-1])
    ]
    return list(candidates.values()), trajectories


def has_unseen_fault(candidate: Candidate) -> bool:
    """Whether a fault was put into an accepted candidate that changes no result: nothing to learn, and no mistake."""
    return candidate.accepted and bool(candidate.fault)


def keep_different(candidates: Sequence[Candidate], config: SamplingConfig) -> tuple[list[Candidate], list[Reject]]:
    """All candidates of a task, the kept ones marked with the reason, and a reject for each other accepted one.

    Of nearly identical candidates whose speed was not measured, one of an earlier turn is kept.
    """
    honest = (one for one in candidates if one.accepted and not has_unseen_fault(one))
    accepted = sorted(honest, key=lambda one: one.turn)
    choices = choose_diverse(
        [one.source for one in accepted], [one.speedup for one in accepted], config.keep, config.keep_by
    )
    because = {}
    rejects = {
        one.candidate_id: Reject("rft", KEEP, UNSEEN_FAULT, one.fault, one.candidate_id)
        for one in candidates
        if has_unseen_fault(one)
    }
    for candidate, choice in zip(accepted, choices, strict=True):
        if choice.chosen:
            because[candidate.candidate_id] = choice.reason
        else:
            detail = f"as {accepted[choice.instead].candidate_id}" if choice.instead >= 0 else candidate.algorithm
            rejects[candidate.candidate_id] = Reject("rft", KEEP, choice.reason, detail, candidate.candidate_id)
    marked = [
        dataclasses.replace(one, kept=True, chosen_because=because[one.candidate_id])
        if one.candidate_id in because
        else one
        for one in candidates
    ]
    return marked, [rejects[one.candidate_id] for one in candidates if one.candidate_id in rejects]


def _chain(task: Task, conversation: Conversation, teacher: str, config: SamplingConfig) -> list[Candidate]:
    chain: list[Candidate] = []
    for attempt in conversation:
        chain.append(_candidate(task, attempt, chain[-1].candidate_id if chain else "", teacher, config))
    return chain


def candidate_id(task: Task, attempt: Attempt, teacher: str) -> str:
    """The id of an attempt's candidate; `teacher` holds where the answer does not say who gave it."""
    request, answer = attempt.request, attempt.answer
    source = extract(answer.text).source or answer.text
    about = task.task_id, answer.teacher or teacher, request.sample, request.turn, source
    return content_id("candidate", *about)


def _candidate(task: Task, attempt: Attempt, parent_id: str, teacher: str, config: SamplingConfig) -> Candidate:
    request, answer, verdict = attempt.request, attempt.answer, attempt.verdict
    source = extract(answer.text).source or answer.text
    structure = describe_structure(source)
    teacher = answer.teacher or teacher
    parts = reward_parts(verdict.error_class, verdict.test_share, verdict.speedup, config)
    return Candidate(
        candidate_id=candidate_id(task, attempt, teacher),
        **task.columns(),
        sample=request.sample,
        turn=request.turn,
        parent_id=parent_id,
        source=source,
        teacher=teacher,
        schedule=answer.schedule,
        fault=answer.fault,
        accepted=verdict.accepted,
        kept=False,
        error_class=verdict.error_class,
        stage=verdict.stage,
        backend=verdict.backend,
        test_share=verdict.test_share,
        speedup=verdict.speedup,
        reward=parts.total,
        structure=structure.label,
        algorithm=structure.algorithm,
        findings=verdict.findings,
        feedback=verdict.feedback,
        reward_validity=parts.validity,
        reward_correctness=parts.correctness,
        reward_speed=parts.speed,
        **answer.provenance(),
        timings=verdict.timings,
        device=verdict.device if verdict.timings else "",
        policy=verdict.policy,
        facts=verdict.facts,
        expected_ms=answer.expected_ms,
        bound_ms=answer.bound_ms,
        costs=answer.costs,
    )


def _trajectory(
    task: Task, conversation: Conversation, chain: Sequence[Candidate], teacher: str, config: SamplingConfig
) -> Trajectory:
    last = conversation[-1]
    success = last.verdict.accepted
    rewards = tuple(candidate.reward for candidate in chain)
    judged = [None if one.error_class and one.error_class.is_undecided else one.reward for one in chain]
    return Trajectory(
        trajectory_id=content_id("trajectory", [candidate.candidate_id for candidate in chain]),
        **task.columns(),
        messages=_messages(last),
        candidates=tuple(candidate.candidate_id for candidate in chain),
        outcomes=tuple(_outcome(attempt) for attempt in conversation),
        rewards=rewards,
        fault=conversation[0].answer.fault,
        success=success,
        trajectory_return=trajectory_return(judged, success, config),
        teacher=last.answer.teacher or teacher,
        turns=tuple(Turn(attempt.request.messages[-1].content, attempt.answer.text) for attempt in conversation),
    )


def _messages(last: Attempt) -> tuple[Message, ...]:
    """The conversation as trainers read it: see `Trajectory`."""
    answer = ChatMessage("assistant", last.answer.text)
    comment = () if last.verdict.accepted else render_repair(last.verdict.feedback)
    spoken = quote_answers((*last.request.messages, answer, *comment))
    return tuple(Message(one.role, one.content, loss=one.role == "assistant") for one in spoken)


def _outcome(attempt: Attempt) -> str:
    if attempt.verdict.accepted:
        return "accepted"
    return attempt.verdict.error_class.value if attempt.verdict.error_class else "rejected"
