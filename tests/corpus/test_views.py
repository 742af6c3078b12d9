"""What trainers read is what was said and what was accepted, and the loss is on the last answer."""

import dataclasses
import json

import pytest

from musadata.corpus.views import preference_rows, rft_rows, rl_rows, sft_rows, shape_sets_of, task_of
from musadata.corpus.views.knowledge import question_row, unit_test_row
from musadata.corpus.views.mending import lines_at_fault
from musadata.corpus.views.supervised import _is_drawn, answer_rows, why_no_target
from musadata.records import ErrorClass, Finding, Question, Timing, UnitTest
from musadata.rows import plain
from musadata.sampling.pass_rate import measure_pass_rate
from musadata.teacher.claims.steps import parse_steps
from musadata.training_rows import PreferenceKind

CHAT_TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|end|>"
    "{% endgeneration %}{% else %}{{ m.content }}<|end|>{% endif %}{% endfor %}"
)


@pytest.fixture
def story(make_row):
    """One task: accepted at once, repaired at the second turn, never solved, and accepted in another way."""
    task = make_row.task(3)
    played = [
        make_row.conversation(task, sample, outcomes)
        for sample, outcomes in enumerate(
            (["accepted"], ["correctness", "accepted"], ["compile", "runtime", "compile"], ["accepted"])
        )
    ]
    candidates = [candidate for some, _ in played for candidate in some]
    return task, make_row.annotation(task), candidates, [trajectory for _, trajectory in played]


def named(task, *, drawn):
    """The task under an id by which its program is a target of `reasoned`, or of `generation`."""
    ids = (f"task-{number}" for number in range(100))
    return next(one for name in ids if _is_drawn(one := dataclasses.replace(task, task_id=name)) == drawn)


def test_the_best_program_is_a_target_once_after_the_steps_or_as_it_was_sampled(story):
    for drawn, family in ((True, "reasoned"), (False, "generation")):
        rows = answer_rows(named(story[0], drawn=drawn), *story[1:])
        assert sorted(row.family for row in rows) == sorted([family, "repair"])
        assert rows[0].candidate_id == story[2][0].candidate_id


def timed(median_ms):
    return (Timing("candidate", median_ms, median_ms, median_ms, 10),)


@pytest.mark.parametrize(
    ("cost", "is_learnt"),
    [
        ({"expected_ms": 1.6, "bound_ms": 1.0}, False),
        ({"expected_ms": 0.007, "bound_ms": 0.0002}, True),  # a launch alone takes that
        ({"expected_ms": 1.4, "bound_ms": 1.0}, True),
        ({"expected_ms": 0.4, "bound_ms": 1.0}, False),  # sums by atomics have no model
        ({"expected_ms": 2.1}, True),
        ({"expected_ms": 2.1, "bound_ms": 1.0, "speedup": 1.2, "timings": timed(1.3)}, True),
        ({"expected_ms": 1.2, "bound_ms": 1.0, "speedup": 3.0, "timings": timed(1.5)}, False),
        ({"expected_ms": 1.2, "bound_ms": 1.0, "speedup": 0.7, "timings": timed(1.4)}, False),
        ({"expected_ms": 1.2, "bound_ms": 1.0, "speedup": 0.97, "timings": timed(1.4)}, True),  # as fast as PyTorch
        ({"expected_ms": 2.1, "bound_ms": 1.0, "speedup": 0.97, "timings": timed(1.4)}, False),
    ],
)
def test_an_answer_that_its_cost_table_or_a_device_condemns_is_no_target(story, cost, is_learnt):
    task, annotation, candidates, trajectories = story
    rated = [dataclasses.replace(one, **cost) for one in candidates]
    rows = answer_rows(task, annotation, rated, trajectories)
    assert bool(rows) == bool(rft_rows(task, annotation, rated, trajectories)) == is_learnt
    assert any(row.chosen_id for row in preference_rows(task, annotation, rated, trajectories)) == is_learnt


def test_sft_learns_only_accepted_last_answers(story):
    _, _, candidates, trajectories = story
    accepted = {candidate.source for candidate in candidates if candidate.accepted}
    for row in answer_rows(*story):
        assert [message.role for message in row.completion] == ["assistant"]
        assert row.prompt[-1].role == "user"
        assert any(source in row.completion[0].content for source in accepted)
    repair = next(row for row in answer_rows(*story) if row.family == "repair")
    assert [message.role for message in repair.prompt] == ["system", "user", "assistant", "user"]
    assert repair.completion[0].content == trajectories[1].turns[-1].answer


def test_steps_are_learnt_only_where_the_traces_bear_them_out(story):
    task, annotation, candidates, trajectories = story
    doubtful = dataclasses.replace(annotation, grounded=False, ungrounded=("37",))
    rows = answer_rows(named(task, drawn=True), doubtful, candidates, trajectories)
    assert {row.family for row in rows} == {"generation", "repair"}


def test_steps_that_name_what_the_prompt_leaves_out_are_not_learnt(story):
    task, annotation, candidates, trajectories = story
    [first, *rest] = annotation.traces[0].tensors
    many = [dataclasses.replace(first, name=f"view_{n}", role="intermediate") for n in range(80)]
    trace = dataclasses.replace(annotation.traces[0], tensors=(first, *many, *rest))

    def families_of(text):
        step = dataclasses.replace(annotation.reasoning[0], text=text)
        told = dataclasses.replace(annotation, traces=(trace,), reasoning=(step, *annotation.reasoning[1:]))
        return {row.family for row in answer_rows(named(task, drawn=True), told, candidates, trajectories)}

    assert families_of("`view_1` renames strides.") == {"reasoned", "repair"}
    assert families_of("`view_79` renames strides.") == {"generation", "repair"}


def test_the_six_steps_can_be_read_back_from_what_is_learnt(story):
    row = answer_rows(named(story[0], drawn=True), *story[1:])[0]
    steps, _, _ = row.completion[0].content.partition("\n\n```python")
    assert tuple(parse_steps(steps)) == story[1].reasoning


def test_a_reasoned_answer_starts_with_the_analysis_that_its_prompt_does_not_have(story):
    row = answer_rows(named(story[0], drawn=True), *story[1:])[0]
    first = story[1].reasoning[0].text
    assert first in row.completion[0].content
    assert not any(first in message.content for message in row.prompt)


def test_words_and_program_of_a_reasoned_answer_are_of_one_schedule_and_teacher(story):
    task, annotation, candidates, trajectories = story

    def reasoned(annotation, **others):
        first, *rest = (dataclasses.replace(one, **others) if one.sample == 0 else one for one in candidates)
        rows = answer_rows(named(task, drawn=True), annotation, [first, *rest], trajectories)
        return [row.candidate_id for row in rows if row.family == "reasoned"]

    last = [one.candidate_id for one in candidates if one.sample == 3]
    assert reasoned(dataclasses.replace(annotation, schedule="another")) == []
    assert reasoned(dataclasses.replace(annotation, schedule=""), schedule="") == []
    assert reasoned(dataclasses.replace(annotation, teacher="another")) == []
    assert reasoned(annotation, schedule="another") == last
    mine = dataclasses.replace(annotation, schedule="mine")
    assert reasoned(mine, schedule="mine") == [candidates[0].candidate_id]


def test_the_fastest_program_is_the_best_whatever_was_planned(story):
    task, annotation, candidates, trajectories = story
    timed = [dataclasses.replace(one, speedup=1.0 + one.sample) if one.accepted else one for one in candidates]
    planned = dataclasses.replace(annotation, schedule=candidates[0].schedule)
    rows = answer_rows(named(task, drawn=False), planned, timed, trajectories)
    assert rows[0].candidate_id == candidates[-1].candidate_id


@pytest.mark.parametrize("given_away", ["the line is named", "it is not allowed", "the remedy is named"])
def test_what_the_report_says_itself_is_no_repair(story, given_away):
    task, annotation, candidates, trajectories = story
    failed = next(one for one in candidates if one.sample == 1 and not one.accepted)
    mended = next(one for one in candidates if one.sample == 1 and one.accepted)
    [line, *_] = lines_at_fault(failed.source, mended.source)
    kind = ErrorClass.NOT_ALLOWED if given_away == "it is not allowed" else ErrorClass.COMPILE
    finding = Finding("compile.error", "error: here", line=line)
    if given_away == "the remedy is named":
        kind, finding = ErrorClass.CORRECTNESS, Finding("correctness.strides", "Wrong (call .contiguous()).")
    told = dataclasses.replace(failed, error_class=kind, findings=(finding,))
    others = [told if one is failed else one for one in candidates]
    assert "repair" not in {row.family for row in answer_rows(task, annotation, others, trajectories)}


def test_a_program_is_a_target_once_in_each_family(story):
    task, annotation, candidates, trajectories = story
    twice = [*trajectories, *(dataclasses.replace(one, trajectory_id="other") for one in trajectories)]
    by_id = {candidate.candidate_id: candidate.source for candidate in candidates}
    for view in (sft_rows, rft_rows, preference_rows):
        rows = view(task, annotation, candidates, twice)
        targets = [_target(row, by_id) for row in rows]
        assert targets and len(set(targets)) == len(targets)


def _target(row, by_id):
    return getattr(row, "family", ""), by_id[getattr(row, "chosen_id", "") or row.candidate_id]


def test_a_renamed_program_is_the_same_target(story):
    task, annotation, candidates, trajectories = story
    copy = dataclasses.replace(
        candidates[0], candidate_id="copy", source=candidates[0].source.replace("softmax_kernel", "my_kernel")
    )
    told = dataclasses.replace(trajectories[0], trajectory_id="other", candidates=("copy",))
    first = dataclasses.replace(candidates[0], kept=True)
    assert rft_rows(task, annotation, [first, copy], [trajectories[0], told]) == []


def test_rft_holds_what_sft_does_not(story):
    task, annotation, candidates, trajectories = story
    (shown,) = [row for row in sft_rows(*story) if row.family in ("generation", "reasoned")]
    (further,) = rft_rows(*story)
    accepted = [one.candidate_id for one in candidates if one.accepted and one.turn == 1]
    assert [shown.candidate_id, further.candidate_id] == accepted
    assert len(further.prompt) == 2  # what was found by repair is a target of `repair` alone
    dropped = [dataclasses.replace(candidate, kept=False) for candidate in candidates]
    assert rft_rows(task, annotation, dropped, trajectories) == []
    assert {"generation", "reasoned"} & {row.family for row in sft_rows(task, annotation, dropped, trajectories)}


def test_a_program_without_a_design_is_no_target_of_sft_and_says_so(story):
    task, annotation, candidates, trajectories = story
    tile = "    __shared__ float tile[8][33];\n"
    simple = [dataclasses.replace(one, source=one.source.replace(tile, "")) for one in candidates]
    families = {row.family for row in sft_rows(task, annotation, simple, trajectories)}
    assert not families & {"generation", "reasoned"} and rft_rows(task, annotation, simple, trajectories)
    assert why_no_target(simple, trajectories) == "elements and rows alone"
    assert why_no_target(candidates, trajectories) == ""


def test_a_seeded_fault_that_was_accepted_is_no_target(story):
    task, annotation, candidates, trajectories = story
    seeded = [dataclasses.replace(one, fault="off_by_one") if one.accepted else one for one in candidates]
    assert answer_rows(task, annotation, seeded, trajectories) == []
    assert rft_rows(task, annotation, seeded, trajectories) == []
    assert preference_rows(task, annotation, seeded, trajectories) == []


def test_no_answer_that_trainers_learn_from_is_a_failed_program(story):
    """verl, ms-swift, slime and others learn from every assistant's message of a list of messages."""
    failed = [one.source for one in story[2] if not one.accepted]
    learnt = [row.conversation for row in (*sft_rows(*story), *rft_rows(*story))]
    learnt += [trajectory.messages for trajectory in story[3]]
    learnt += [row.completion for row in sft_rows(*story)] + [row.prompt for row in preference_rows(*story)]
    for messages in learnt:
        spoken = [message.content for message in messages if message.role == "assistant"]
        assert len(spoken) <= 1 and not any(source in text for source in failed for text in spoken)


def test_an_answer_of_ten_megabytes_is_learnt_by_nobody(story):
    task, annotation, candidates, trajectories = story
    text = "int i = 0;\n" * 1_000_000
    long = dataclasses.replace(candidates[1], source=text)
    told = dataclasses.replace(
        trajectories[1], turns=(dataclasses.replace(trajectories[1].turns[0], answer=text), trajectories[1].turns[1])
    )
    rows = (task, annotation, [candidates[0], long, *candidates[2:]], [trajectories[0], told, *trajectories[2:]])
    assert {row.family for row in answer_rows(*rows)} <= {"generation", "reasoned"}
    assert all(len(row.prompt[-1].content) < len(text) for row in sft_rows(*rows))
    assert all(len(row.rejected[0].content) < len(text) for row in preference_rows(*rows))


def test_transformers_masks_learn_one_accepted_answer_of_a_conversation(story):
    tokenizer = pytest.importorskip("transformers").PreTrainedTokenizerFast(tokenizer_object=_bytes_tokenizer())
    for row in (*sft_rows(*story), *rft_rows(*story)):
        made = tokenizer.apply_chat_template(
            [plain(message) for message in row.conversation],
            chat_template=CHAT_TEMPLATE,
            return_assistant_tokens_mask=True,
            return_dict=True,
        )
        kept = [token for token, mask in zip(made["input_ids"], made["assistant_masks"], strict=True) if mask]
        assert tokenizer.decode(kept) == f"{row.completion[0].content}<|end|>"


def _bytes_tokenizer():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={token: index for index, token in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def test_a_repair_quotes_every_failed_answer_and_what_was_said_of_it_word_for_word(story):
    repair = next(row for row in sft_rows(*story) if row.family == "repair")
    quoted = repair.conversation[1].content
    for message in repair.prompt[1:]:
        assert message.content.strip() in quoted
    assert [message.role for message in repair.conversation] == ["system", "user", "assistant"]


def test_preferences_are_answers_to_the_very_same_prompt(story):
    rows = preference_rows(*story)
    by_id = {candidate.candidate_id: candidate for candidate in story[2]}
    assert rows
    for row in rows:
        chosen, rejected = by_id[row.chosen_id], by_id[row.rejected_id]
        assert chosen.accepted and not rejected.accepted
        assert chosen.turn == rejected.turn == 1
        assert row.chosen[0].content != row.rejected[0].content
        assert row.chosen_reward > row.rejected_reward
        assert row.decisions >= 1


def _pair(story, chosen, rejected, **changes):
    """The story of two samples: an accepted program with one body, and a failed one with another."""
    task, annotation, candidates, trajectories = story
    template = candidates[0]
    body = template.source[template.source.index("__global__") : template.source.index('"""', 200)]
    right = dataclasses.replace(template, candidate_id="right", source=template.source.replace(body, chosen))
    wrong = {"candidate_id": "wrong", "accepted": False, "kept": False, "error_class": ErrorClass.RUNTIME}
    failed = dataclasses.replace(template, **{**wrong, **changes}, source=template.source.replace(body, rejected))
    told = [
        dataclasses.replace(trajectories[0], trajectory_id=one.candidate_id, candidates=(one.candidate_id,))
        for one in (right, failed)
    ]
    return preference_rows(task, annotation, [right, failed], told)


SHARED = """__global__ void k(float* y) {
    __shared__ float part[32];
    part[threadIdx.x] = y[0];
    __syncthreads();
    y[threadIdx.x] = part[0];
}
"""
PLAIN = """__global__ void k(float* y) {
    const int i = threadIdx.x;
    const float one = 1.0f;
    if (i > 9) return;
    y[i] = one;
}
"""


def test_programs_that_differ_in_a_line_are_no_pair(story):
    assert _pair(story, PLAIN * 5, PLAIN * 4 + PLAIN.replace("i > 9", "i > 8")) == []
    (row,) = _pair(story, SHARED, PLAIN)
    assert row.distance >= 0.2


def test_a_pair_never_prefers_the_structurally_poorer_program(story):
    assert _pair(story, PLAIN, SHARED) == []
    assert _pair(story, PLAIN + PLAIN.replace("void k", "void k2"), PLAIN) == []
    assert len(_pair(story, SHARED, PLAIN)) == 1


def test_honest_over_cheating_is_a_kind_of_its_own_whatever_the_cheat_tries(story):
    (row,) = _pair(story, PLAIN, SHARED, error_class=ErrorClass.CHEATING)
    assert row.kind is PreferenceKind.HONEST


def test_faster_is_preferred_to_slower_only_where_both_were_measured_beyond_the_noise(story):
    def timed(low, high):
        return (Timing("candidate", (low + high) / 2, low, high, 50),)

    accepted = {"accepted": True, "error_class": None}
    task, annotation, candidates, trajectories = story
    for fast, slow, found in [((1, 2), (3, 4), 1), ((1, 3), (2, 4), 0), ((1, 2), None, 0)]:
        times = {0: fast, 3: slow}
        rows = [
            dataclasses.replace(one, timings=timed(*times[one.sample]) if times.get(one.sample) else ())
            for one in candidates
            if one.sample in times
        ]
        made = preference_rows(task, annotation, rows, [trajectories[0], trajectories[3]])
        assert [(row.kind, row.chosen_id, row.rejected_error) for row in made] == [
            (PreferenceKind.FASTER, rows[0].candidate_id, None)
        ] * found
    assert _pair(story, PLAIN, SHARED, **accepted) == []


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


def test_rl_rows_hold_the_measured_difficulty(story):
    task, annotation, candidates, trajectories = story
    (row,) = rl_rows(task, annotation, candidates, trajectories)
    rate = measure_pass_rate(candidates)
    assert (row.samples, row.passed, len(row.pass_at_k)) == (rate.samples, rate.passed, rate.samples)
    (unsolved,) = rl_rows(task, annotation, [], [])
    assert (unsolved.samples, unsolved.avg_at_k, unsolved.pass_at_k) == (0, None, ())


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


def test_a_question_and_a_unit_test_are_rows_with_what_they_were_checked_against(story, sample_rows):
    task, annotation = story[:2]
    question, test = sample_rows(Question, 1)[0], sample_rows(UnitTest, 1)[0]
    asked, written = question_row(task, question), unit_test_row(task, annotation, test)
    assert (asked.family, written.family) == ("question", "unit_test")
    assert question.facts in asked.prompt[-1].content and question.question in asked.prompt[-1].content
    assert asked.completion[-1].content == question.answer
    assert test.source in written.completion[-1].content
    assert json.loads(written.evidence)["passes"] == list(test.honest)
    assert json.loads(asked.evidence)["question_id"] == question.question_id
