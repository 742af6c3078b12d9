"""What each trainer is given. `answers_with` stands in for the verifier."""

import asyncio
from types import SimpleNamespace

import pytest

from musadata.rewards import compute_score, compute_scores, grpo_reward, slime_reward, trainers
from musadata.rewards.openrlhf import answer_of, reward_func
from musadata.rewards.scoring import Score
from musadata.verifier.reward import RewardParts

NUMBERS = " ".join(map(str, range(200)))
NOTHING = Score(None, why="the machine failed")


def scored(reward: float) -> Score:
    return Score(reward, RewardParts(correctness=reward))


@pytest.fixture
def answers_with(monkeypatch):
    """`answers_with({"answer": score})`"""
    monkeypatch.setattr(trainers, "MEANS", trainers.RunningMeans())
    monkeypatch.setattr("musadata.rewards.openrlhf.MEANS", trainers.MEANS)

    def install(scores):
        function = SimpleNamespace(score=lambda answers, truths: [scores[answer.strip()] for answer in answers])
        for module in ("trainers", "openrlhf"):
            monkeypatch.setattr(f"musadata.rewards.{module}.open_function", lambda config="": function)

    return install


def test_trl_gets_none_for_an_answer_without_a_verdict(answers_with):
    answers_with({"good": scored(1.0), "lost": NOTHING})
    completions = [[{"role": "assistant", "content": "good"}], [{"role": "assistant", "content": "lost"}], "good"]
    rows = [{"style": "rule", "ground_truth": "a"}] * 3
    assert grpo_reward(["p"] * 3, completions, rows, extra_info=[{}] * 3, trainer_state=None) == [1.0, None, 1.0]


def test_verls_batch_gives_an_answer_without_a_verdict_the_mean_of_its_task(answers_with):
    answers_with({"good": scored(1.0), "bad": scored(-1.0), "partly": scored(-0.25), "lost": NOTHING})
    answers, truths = ["good", "bad", "lost", "partly", "lost", "lost"], ["a", "a", "a", "b", "b", "c"]
    found = compute_scores(["musadata"] * 6, answers, truths, [{}] * 6)
    assert [one["score"] for one in found] == [1.0, -1.0, 0.0, -0.25, -0.25, 0.0]
    assert [one["judged"] for one in found] == [1.0, 1.0, 0.0, 1.0, 0.0, 0.0]
    assert len({tuple(one) for one in found}) == 1  # verl wants the same keys of all


def test_verl_alone_gives_the_mean_of_the_task_so_far(answers_with):
    answers_with({"good": scored(1.0), "bad": scored(-1.0), "lost": NOTHING})
    said = [
        compute_score("musadata", answer, truth, {}) for answer, truth in [("lost", "a"), ("bad", "a"), ("lost", "a")]
    ]
    assert [one["score"] for one in said] == [0.0, -1.0, -1.0]
    assert (
        compute_score("musadata", "lost", "b", {})["score"] == -1.0
    )  # that of all tasks, where it has none of its own
    assert compute_score("musadata", "good", "a", {})["score"] == 1.0
    assert compute_score("musadata", "lost", "a", {})["score"] == 0.0  # neither lost answer counts in (−1 + 1) / 2


def test_slime_learns_nothing_from_a_sample_without_a_verdict(answers_with):
    answers_with({"good": scored(1.0), "bad": scored(-0.5), "lost": NOTHING})
    group = [SimpleNamespace(response=text, label="a", remove_sample=False) for text in ("good", "lost", "bad")]
    assert asyncio.run(slime_reward(None, group)) == [1.0, 0.25, -0.5]
    assert [one.remove_sample for one in group] == [False, True, False]
    assert asyncio.run(slime_reward(None, group[0], evaluation=True)) == 1.0


def test_openrlhf_gets_what_follows_the_prompt(answers_with):
    answers_with({"good": scored(1.0), "lost": NOTHING})
    queries = ["<|user|>Write it.<|assistant|>good<|im_end|>", "Write it.lost</s>"]
    found = reward_func(queries, ["<|user|>Write it.<|assistant|>", "Write it."], ["a", {"ground_truth": "a"}])
    assert found["rewards"].tolist() == [1.0, 1.0]
    assert found["extra_logs"]["judged"].tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("query", "prompt", "answer"),
    [
        ("PROMPT```python\nx\n```<|im_end|>", "PROMPT", "```python\nx\n```\n"),
        ("PROMPTx<|im_end|>\n<|endoftext|>", "PROMPT", "x\n"),
        ("PROMPTx PROMPT", "PROMPT", "x PROMPT"),
        ("<s>PROMPTx", "PROMPT", "x"),
        (f"{NUMBERS[50:]}x", NUMBERS, "x"),  # its beginning was cut off
        ("something else", "PROMPT", "something else"),
        ("x", "", "x"),
    ],
)
def test_the_answer_is_what_follows_the_prompt(query, prompt, answer):
    assert answer_of(query, prompt) == answer


def test_the_config_needs_no_sources_is_named_by_the_environment_and_opened_once(tmp_path, monkeypatch):
    path = tmp_path / "config.yaml"
    path.write_text("sampling: {speedup_weight: 0.25}\nrewards: {at_once: 3}\n")
    monkeypatch.setenv(trainers.CONFIG, str(path))
    function = trainers.open_function()
    assert function is trainers.open_function() is trainers.open_function(str(path))
    assert function._sampling.speedup_weight == 0.25
    assert function._threads._max_workers == 3
