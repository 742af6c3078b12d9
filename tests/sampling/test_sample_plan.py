"""A task gets fewer samples where all agree and more where few pass, and every step comes to the same number."""

import dataclasses
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musadata.asking_config import TeacherConfig, TeacherType
from musadata.config import Config, SourceConfig, SourceType
from musadata.records import ErrorClass
from musadata.sampling.assembly import assemble as rows_of
from musadata.sampling.rollout import NotKnownYet
from musadata.sampling.sample_plan import SamplePlan
from musadata.teacher.protocol import Answer, CannotAnswer
from musadata.training_config import SamplingConfig
from pipelines import rollout_steps
from pipelines.assembly import Assemble
from tests.sampling.test_rollout import ANNOTATION, TASK, VERDICT, WRONG

SCALE = "__global__ void k(float* y) {{ int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = {}; }}"
SUM = "__global__ void k(float* y, int n) { float s = 0; for (int j = 0; j < n; ++j) s += y[j]; y[0] = s; }"
UNDECIDED = dataclasses.replace(WRONG, error_class=ErrorClass.INFRA)


def config_of(samples: int = 8, kind: TeacherType = TeacherType.OPENAI, **sampling: object) -> Config:
    teacher = TeacherConfig(kind=kind, samples=samples, model="m", base_url="http://localhost")
    return Config((SourceConfig(SourceType.PACKAGE, "torch"),), teacher=teacher, sampling=SamplingConfig(**sampling))


class Answers:
    """First answers: "s" another way to write the same accepted kernel, "d" a different accepted one, "w" a wrong one,
    "i" one without a verdict, "-" none. A wrong one is mended in its second turn."""

    def __init__(self, pattern: str):
        self.pattern, self.asked, self.judged = pattern, {}, {}

    def ask(self, request):
        letter = self.pattern[request.sample]
        if letter == "-":
            raise CannotAnswer("no lowering")
        code = SUM if letter == "d" else SCALE.format(request.sample + 1)
        text = f"{request.sample}/{request.turn}\n```python\nsource = '''{code}'''\nclass ModelNew: ...\n```"
        self.asked[request.sample, request.turn] = text
        return Answer(text)

    def judge(self, task, annotation, answer):
        sample, turn = map(int, answer.text.split("\n")[0].split("/"))
        self.judged[answer.text] = verdict = {"w": WRONG, "i": UNDECIDED}.get(
            self.pattern[sample] * (turn == 1), VERDICT
        )
        return verdict

    def recall_answers(self, teacher):
        def recall(request):
            if self.pattern[request.sample] == "-":
                raise CannotAnswer("no lowering")
            if (request.sample, request.turn) not in self.asked:
                raise NotKnownYet
            return Answer(self.asked[request.sample, request.turn])

        return recall

    def recall_verdicts(self, config):
        def recall(task, annotation, answer):
            if answer.text not in self.judged:
                raise NotKnownYet
            return self.judged[answer.text]

        return recall


def go_on(monkeypatch, config: Config, answers: Answers, abilities: tuple[Callable, Callable]) -> None:
    """One step of a stage over the only task."""
    monkeypatch.setattr(rollout_steps, "annotated_tasks", lambda *_: [(TASK, ANNOTATION)])
    monkeypatch.setattr(rollout_steps, "human_programs", lambda *_: {})
    monkeypatch.setattr(rollout_steps.RolloutStep, "teacher", lambda _: None)
    monkeypatch.setattr(rollout_steps.Converse, "abilities", lambda *_: abilities)
    for conversations in rollout_steps.Converse(config, "")._rounds(None, answers):
        for conversation in conversations:
            rollout_steps._as_far_as_known(conversation)


class Out:
    def __init__(self):
        self.funnel, self.rejects = self, []

    def came_in(self, step):
        pass

    went_on = came_in

    def reject(self, reject):
        self.rejects.append(reject)


def assemble(config: Config, answers: Answers):
    recall = answers.recall_answers(None), answers.recall_verdicts(None)
    conversations = Assemble(config, "")._converse(TASK, ANNOTATION, *recall, Out())
    return rows_of(TASK, conversations, "teacher", config.sampling)


def count(monkeypatch, pattern: str, config: Config) -> int:
    """How many samples are asked for, where one process asks and judges."""
    answers = Answers(pattern)
    go_on(monkeypatch, config, answers, (answers.ask, answers.judge))
    candidates, _ = assemble(config, answers)
    assert {one.sample for one in candidates} == {sample for sample, _ in answers.asked}
    return len({sample for sample, _ in answers.asked})


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("ssss" + "s" * 12, 4),  # all agree
        ("sssd" + "s" * 12, 8),  # accepted, but different
        ("sssw" + "s" * 12, 8),  # one is wrong
        ("w" * 16, 16),
        ("w" * 7 + "s" + "w" * 8, 16),
        ("w" * 6 + "ss" + "w" * 8, 8),  # a quarter is not few
        ("i" * 16, 8),  # an undecided verdict is not counted against a task
        ("i" * 7 + "w" * 9, 16),
    ],
)
def test_number_of_samples_follows_from_first_answers(monkeypatch, pattern, expected):
    assert count(monkeypatch, pattern, config_of()) == expected


def test_a_teacher_without_an_answer_is_not_asked_for_more(monkeypatch):
    answers = Answers("-" * 16)
    go_on(monkeypatch, config_of(), answers, (answers.ask, answers.judge))
    assert assemble(config_of(), answers) == ([], [])


@pytest.mark.parametrize(("settings_", "expected"), [({"agree": 0}, 8), ({"agree": 2}, 2), ({"agree": 8}, 8)])
def test_agreement_that_ends_sampling_is_configured(monkeypatch, settings_, expected):
    assert count(monkeypatch, "s" * 16, config_of(**settings_)) == expected


@pytest.mark.parametrize(
    ("settings_", "expected"),
    [({"few_passed": 0.0}, 8), ({"most_samples": 8}, 8), ({"most_samples": 12}, 12), ({"most_samples": 30}, 30)],
)
def test_further_samples_are_limited(monkeypatch, settings_, expected):
    assert count(monkeypatch, "w" * 40, config_of(**settings_)) == expected


@pytest.mark.parametrize("kind", [TeacherType.COMPILER, TeacherType.BATCH])
def test_teachers_that_repeat_themselves_or_take_hours_are_asked_once(monkeypatch, kind):
    assert count(monkeypatch, "s" * 16, config_of(5, kind)) == 5
    assert count(monkeypatch, "w" * 16, config_of(5, kind)) == 5


def test_who_asks_for_few_samples_gets_no_more(monkeypatch):
    assert count(monkeypatch, "w" * 16, config_of(3)) == 3
    assert count(monkeypatch, "s" * 16, config_of(1)) == 1


@given(st.text("sdwi-", min_size=16, max_size=16), st.integers(1, 6), st.integers(0, 3))
@settings(deadline=None, max_examples=40)
def test_steps_that_only_ask_or_only_judge_come_to_the_same(pattern, samples, agree):
    config = config_of(samples, agree=agree, turns=2, early_bonus=(0.2, 0.1))
    with pytest.MonkeyPatch.context() as monkeypatch:
        together = Answers(pattern)
        go_on(monkeypatch, config, together, (together.ask, together.judge))
        apart = Answers(pattern)
        for _ in range(config.sampling.turns + SamplePlan.of(config).rounds - 1):  # as many as Stage3 has
            go_on(monkeypatch, config, apart, (apart.ask, apart.recall_verdicts(None)))
            go_on(monkeypatch, config, apart, (apart.recall_answers(None), apart.judge))
    assert apart.asked == together.asked
    assert assemble(config, apart) == assemble(config, together)
