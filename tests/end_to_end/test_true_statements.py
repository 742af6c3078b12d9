"""Kinds of false sentences that readers found in rows, each looked for in a whole corpus."""

import re

import pytest

from benchmarks.unit_tests import read
from musadata.records import Annotation, Task
from musadata.teacher.reasoning.calls import read_calls
from musadata.training_rows import SftRow


@pytest.fixture(scope="module")
def annotations(quickstart_corpus):
    return list(read(str(quickstart_corpus), "annotations", Annotation))


@pytest.fixture(scope="module")
def prose(quickstart_corpus):
    """What rows teach in words."""
    rows = read(str(quickstart_corpus), "sft", SftRow)
    return [re.sub(r"```.*?```", "", row.completion[-1].content, flags=re.DOTALL) for row in rows]


@pytest.mark.parametrize(
    "words",
    [
        "`__launch_bounds__`",  # no name of a kernel
        "as many blocks as the device",  # the code takes a minimum
        "comes from memory once",
        "complete before it starts",  # of a permutation
        "a row apart",
        "second set of shapes",
    ],
)
def test_what_readers_found_false_is_said_nowhere(prose, words):
    assert not [text for text in prose if words in text]


def test_facts_and_words_are_of_the_declared_size(annotations, quickstart_corpus):
    tasks = {task.task_id: task for task in read(str(quickstart_corpus), "tasks", Task)}
    for annotation in annotations:
        task, first = tasks[annotation.task_id], annotation.told[0]
        assert first.inputs == (task.measure or task.inputs)
        assert str(first.flops) in next(step.text for step in annotation.reasoning if step.step == "shape calculation")


def test_every_operator_that_computes_is_in_the_decomposition(annotations):
    for annotation in annotations:
        text = annotation.reasoning[0].text
        done = {call.operator for call in read_calls(annotation.told[0]) if not call.is_idle}
        missing = [name for name in done if f"`{name}`" not in text]
        assert not missing or "others" in text, (annotation.task_id, missing)


def test_remainders_and_sums_that_are_written_down_are_right(annotations):
    figures = re.compile(r"(?<![\d.×+−%/] )\b(\d+) ([%×−]) (\d+) = (\d+)\b(?! [×+])")
    texts = [step.text for annotation in annotations for step in annotation.reasoning]
    found = [made for text in texts for made in figures.findall(text)]
    assert len(found) > 20
    for one, sign, other, result in found:
        left, right = int(one), int(other)
        assert {"%": left % max(1, right), "×": left * right, "−": left - right}[sign] == int(result), (
            one,
            sign,
            other,
        )


def test_every_analysis_of_a_task_with_a_choice_weighs_schedules(annotations):
    weighed = [re.findall(r"^\| (.+?) \| \d+ × \d+ \|", one.reasoning[3].text, re.MULTILINE) for one in annotations]
    assert sum(len(set(rows)) > 1 for rows in weighed) >= 0.6 * len(weighed)
    assert all(len(set(rows)) == len(rows) != 1 for rows in weighed)
