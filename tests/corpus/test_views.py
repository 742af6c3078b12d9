"""What trainers read is what was said and what was accepted, and the loss is on the last answer."""

import dataclasses
import json

import pytest

from musadata.corpus.views import preference_rows, rft_rows, rl_rows, sft_rows, shape_sets_of, task_of
from musadata.records import ErrorClass
from musadata.rows import plain
from musadata.teacher.grounding import parse_steps


@pytest.fixture
def story(make_row):
    """One task: accepted at once, repaired at the second turn, never solved."""
    task = make_row.task(3)
    played = [
        make_row.conversation(task, sample, outcomes)
        for sample, outcomes in enumerate(
            (["accepted"], ["correctness", "accepted"], ["compile", "runtime", "compile"])
        )
    ]
    candidates = [candidate for some, _ in played for candidate in some]
    return task, make_row.annotation(task), candidates, [trajectory for _, trajectory in played]


def test_sft_has_a_row_per_family(story):
    assert sorted(row.family for row in sft_rows(*story)) == ["generation", "reasoned", "reasoning", "repair"]


def test_sft_learns_only_accepted_last_answers(story):
    _, _, candidates, trajectories = story
    accepted = {candidate.source for candidate in candidates if candidate.accepted}
    for row in sft_rows(*story):
        assert [message.role for message in row.completion] == ["assistant"]
        assert row.prompt[-1].role == "user"
        if row.family != "reasoning":
            assert any(source in row.completion[0].content for source in accepted)
    repair = next(row for row in sft_rows(*story) if row.family == "repair")
    assert [message.role for message in repair.prompt] == ["system", "user", "assistant", "user"]
    assert repair.completion[0].content == trajectories[1].messages[-1].content


def test_reasoning_is_learnt_only_where_the_traces_bear_it_out(story):
    task, annotation, candidates, trajectories = story
    doubtful = dataclasses.replace(annotation, grounded=False, ungrounded=("37",))
    assert {row.family for row in sft_rows(task, doubtful, candidates, trajectories)} == {"generation", "repair"}


def test_the_six_steps_can_be_read_back_from_what_is_learnt(story):
    row = next(row for row in sft_rows(*story) if row.family == "reasoning")
    assert tuple(parse_steps(row.completion[0].content)) == story[1].reasoning


def test_a_reasoned_answer_starts_with_the_analysis_that_its_prompt_does_not_have(story):
    row = next(row for row in sft_rows(*story) if row.family == "reasoned")
    first = story[1].reasoning[0].text
    assert first in row.completion[0].content
    assert not any(first in message.content for message in row.prompt)


def test_two_equal_answers_make_one_row(story):
    task, annotation, candidates, trajectories = story
    twice = [trajectories[0], dataclasses.replace(trajectories[0], trajectory_id="other")]
    assert len(sft_rows(task, annotation, candidates, twice)) == len(sft_rows(task, annotation, candidates, twice[:1]))


def test_rft_holds_the_kept_candidates_with_the_prompt_that_they_were_sampled_from(story):
    task, annotation, candidates, trajectories = story
    rows = rft_rows(*story)
    assert [row.candidate_id for row in rows] == [one.candidate_id for one in candidates if one.accepted]
    assert len(rows[1].prompt) == 4  # it was found by repair
    dropped = [dataclasses.replace(candidate, kept=False) for candidate in candidates]
    assert rft_rows(task, annotation, dropped, trajectories) == []


def test_preferences_are_answers_to_the_very_same_prompt(story):
    rows = preference_rows(*story)
    by_id = {candidate.candidate_id: candidate for candidate in story[2]}
    assert len(rows) == 2
    for row in rows:
        chosen, rejected = by_id[row.chosen_id], by_id[row.rejected_id]
        assert chosen.accepted and not rejected.accepted
        assert chosen.turn == rejected.turn == 1
        assert row.chosen[0].content != row.rejected[0].content
        assert row.chosen_reward > row.rejected_reward


def test_failures_of_the_infrastructure_are_not_rejected_answers(story):
    task, annotation, candidates, trajectories = story
    ours = [
        candidate if candidate.accepted else dataclasses.replace(candidate, error_class=ErrorClass.INFRA)
        for candidate in candidates
    ]
    assert preference_rows(task, annotation, ours, trajectories) == []


def test_a_task_without_an_accepted_answer_has_no_pairs_but_a_prompt(make_row):
    task = make_row.task(1)
    candidates, trajectory = make_row.conversation(task, 0, ["compile"])
    rows = (task, make_row.annotation(task, grounded=False), candidates, [trajectory])
    assert sft_rows(*rows) == [] and rft_rows(*rows) == [] and preference_rows(*rows) == []
    assert len(rl_rows(*rows)) == 1


def test_rl_rows_hold_all_that_the_verifier_needs(story):
    task, annotation = story[:2]
    (row,) = rl_rows(*story)
    assert row.data_source == "musadata" and row.reward_model.style == "rule"
    truth = row.reward_model.ground_truth
    assert task_of(truth) == dataclasses.replace(task, text_signature=())
    assert shape_sets_of(truth) == tuple(trace.inputs for trace in annotation.traces)
    assert json.loads(truth)
    assert 0 <= row.extra_info.index < 2**48
    assert row.extra_info.split == row.split == task.split


def test_rl_prompts_do_not_hold_the_analysis(story):
    (row,) = rl_rows(*story)
    assert not any(step.text in message.content for step in story[1].reasoning for message in row.prompt)


@pytest.mark.parametrize("view", [sft_rows, rft_rows, preference_rows, rl_rows])
def test_views_are_pure_and_their_ids_unique(view, story):
    rows = view(*story)
    assert [plain(row) for row in rows] == [plain(row) for row in view(*story)]
    ids = [next(iter(plain(row).values())) for row in rows]
    assert len(set(ids)) == len(ids)
    assert {row.license for row in rows} == {"BSD-3-Clause"}


def test_a_trajectory_that_does_not_fit_its_candidates_is_a_bug(story):
    task, annotation, candidates, trajectories = story
    torn = dataclasses.replace(trajectories[0], candidates=())
    with pytest.raises(ValueError, match="answers"):
        rft_rows(task, annotation, candidates, [torn])
