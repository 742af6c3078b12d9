"""A conversation is a pure function of what its teacher answers and its judge finds: both stand-ins here are that."""

import dataclasses

import pytest

from musadata.config import SamplingConfig
from musadata.records import (
    Annotation,
    ErrorClass,
    InputSpec,
    OperatorFamily,
    Provenance,
    SourceKind,
    Task,
    Verdict,
    VerifyStage,
)
from musadata.sampling.assembly import assemble, keep_different
from musadata.sampling.rollout import NotKnownYet, request_seed, run_rollout
from musadata.teacher.protocol import Answer, CannotAnswer, RequestKind

TASK = Task(
    task_id="task-1",
    source_kind=SourceKind.MINED,
    name="Double",
    reference="class Model: ...",
    operators=("aten.mul.Tensor",),
    operator_family=OperatorFamily.ELEMENTWISE,
    level=1,
    inputs=(InputSpec("x", "normal", "float32", (3, 5)),),
    provenance=Provenance("directory:x", "", "1", "x.py", "1-9", "MIT"),
    split="train",
    text_signature=(),
    graph_fingerprint="f",
)
ANNOTATION = Annotation("annotation-1", "task-1", (), (), True, (), "teacher", "train")
VERDICT = Verdict(
    accepted=True,
    stage=VerifyStage.COMPARE,
    test_share=1.0,
    backend="emulated",
    reward=1.0,
    policy="strict",
)
WRONG = dataclasses.replace(
    VERDICT, accepted=False, error_class=ErrorClass.CORRECTNESS, reward=-1.0, feedback="row 3 is wrong"
)


def answer(turn: int, fault: str = "") -> Answer:
    code = f"__global__ void k(float* y) {{ y[{turn}] = 0; }}"
    return Answer(f"Turn {turn}.\n```python\nsource = '''{code}'''\nclass ModelNew: ...\n```", "naive", fault)


def converse(verdicts, turns=3, sample=0, fault="missing bounds check"):
    asked = []

    def ask(request):
        asked.append(request)
        return answer(request.turn, fault if request.turn == 1 else "")

    attempts = run_rollout(
        TASK, ANNOTATION, sample, turns, 7, ask, lambda task, annotation, given: verdicts[len(asked) - 1]
    )
    return attempts, asked


def test_conversation_ends_at_the_first_accepted_answer():
    attempts, asked = converse([WRONG, VERDICT, VERDICT])
    assert [attempt.verdict.accepted for attempt in attempts] == [False, True]
    assert [request.kind for request in asked] == [RequestKind.GENERATE, RequestKind.REPAIR]


def test_the_next_turn_sees_the_verifiers_feedback_and_its_own_answer():
    _, asked = converse([WRONG, VERDICT])
    contents = [message.content for message in asked[1].messages]
    assert any("row 3 is wrong" in content for content in contents)
    assert answer(1).text in contents


def test_conversation_ends_after_the_last_turn():
    attempts, _ = converse([WRONG, WRONG, WRONG])
    assert len(attempts) == 3


def test_conversation_ends_where_the_verifier_could_not_say():
    undecided = dataclasses.replace(WRONG, error_class=ErrorClass.INFRA, feedback="")
    attempts, _ = converse([WRONG, undecided, VERDICT])
    assert [attempt.verdict.error_class for attempt in attempts] == [ErrorClass.CORRECTNESS, ErrorClass.INFRA]


def test_a_judge_that_only_remembers_stops_the_conversation_where_it_is():
    def judge(task, annotation, given):
        raise NotKnownYet

    with pytest.raises(NotKnownYet):
        run_rollout(TASK, ANNOTATION, 0, 3, 7, lambda request: answer(1), judge)


def test_a_teacher_without_an_answer_is_heard():
    def ask(request):
        raise CannotAnswer("no lowering")

    with pytest.raises(CannotAnswer):
        run_rollout(TASK, ANNOTATION, 0, 3, 7, ask, lambda *_: VERDICT)


def test_seeds_differ_by_task_sample_and_turn_and_by_nothing_else():
    seeds = {request_seed(1, task, sample, turn) for task in "ab" for sample in range(3) for turn in range(3)}
    assert len(seeds) == 18
    assert request_seed(1, "a", 2, 2) == request_seed(1, "a", 2, 2) < 2**63


def test_a_repaired_conversation_becomes_a_chain_of_candidates_and_one_trajectory():
    attempts, _ = converse([WRONG, VERDICT])
    candidates, trajectories = assemble(TASK, [attempts], "teacher", SamplingConfig())
    assert [candidate.parent_id for candidate in candidates] == ["", candidates[0].candidate_id]
    assert [candidate.accepted for candidate in candidates] == [False, True]
    (trajectory,) = trajectories
    assert trajectory.success
    assert trajectory.outcomes == ("correctness", "accepted")
    assert trajectory.fault == "missing bounds check"


def test_loss_is_on_the_last_answer_only():
    attempts, _ = converse([WRONG, VERDICT])
    _, (trajectory,) = assemble(TASK, [attempts], "teacher", SamplingConfig())
    assert [message.loss for message in trajectory.messages] == [False] * (len(trajectory.messages) - 1) + [True]


def test_nothing_is_trained_on_in_a_conversation_that_failed():
    attempts, _ = converse([WRONG, WRONG, WRONG])
    _, (trajectory,) = assemble(TASK, [attempts], "teacher", SamplingConfig())
    assert not trajectory.success
    assert not any(message.loss for message in trajectory.messages)


def test_only_different_accepted_candidates_are_kept():
    one, _ = converse([VERDICT], fault="")
    two, _ = converse([VERDICT], sample=1, fault="")
    candidates, rejects = keep_different(assemble(TASK, [one, two], "teacher", SamplingConfig())[0], SamplingConfig())
    assert [candidate.kept for candidate in candidates] == [True, False]
    assert [candidate.chosen_because for candidate in candidates] == ["only structure", ""]
    assert [(one.step, one.reason, one.origin) for one in rejects] == [
        ("keep", "same_structure", candidates[1].candidate_id)
    ]


def test_a_seeded_fault_that_changes_no_result_is_no_target():
    attempts, _ = converse([VERDICT], fault="wrong identity")
    candidates, trajectories = assemble(TASK, [attempts], "teacher", SamplingConfig())
    [marked], [reject] = keep_different(candidates, SamplingConfig())
    assert not trajectories and marked.accepted and not marked.kept
    assert (reject.reason, reject.detail) == ("unseen_fault", "wrong identity")


def test_rewards_weigh_the_speedup_as_the_config_says():
    fast = dataclasses.replace(VERDICT, accepted=True, error_class=None, test_share=1.0, speedup=9.0)
    attempts = run_rollout(TASK, ANNOTATION, 0, 1, 7, lambda request: answer(1), lambda *_: fast)
    config = SamplingConfig(speedup_weight=0.1, speedup_cap=2.0, first_turn_weight=1.0, early_bonus=(0.0,))
    (candidate,), (trajectory,) = assemble(TASK, [attempts], "teacher", config)
    assert candidate.reward == trajectory.rewards[0] == trajectory.trajectory_return == pytest.approx(1.2)
    assert (candidate.reward_validity, candidate.reward_correctness) == (0.0, 1.0)
    assert candidate.reward_speed == pytest.approx(0.2)


def test_a_turn_that_was_not_judged_leaves_the_return_as_it_was():
    undecided = dataclasses.replace(WRONG, error_class=ErrorClass.INFRA, feedback="")
    attempts, _ = converse([dataclasses.replace(WRONG, test_share=0.5), undecided])
    (_, unjudged), (trajectory,) = assemble(TASK, [attempts], "teacher", SamplingConfig())
    assert (unjudged.reward_validity, unjudged.reward_correctness, unjudged.reward_speed) == (0.0, 0.0, 0.0)
    assert trajectory.trajectory_return == trajectory.rewards[0] == -0.25
