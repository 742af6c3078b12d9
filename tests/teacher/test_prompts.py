import dataclasses
from collections import Counter

import pytest

from musadata.records import ReasoningStep
from musadata.teacher.prompts import (
    STEPS,
    PromptForm,
    form_of,
    heading,
    render_generation,
    render_reasoning,
    render_repair,
)
from tests.tracing.examples import NAMES, example, traces_of


@pytest.mark.parametrize("name", NAMES)
def test_the_prompt_carries_every_tensor_at_the_first_size_and_the_inputs_at_the_others(name):
    first, *others = traces = traces_of(name)
    for messages in (render_reasoning(example(name), traces), render_generation(example(name), traces)):
        text = messages[-1].content
        shown = [fact for fact in first.tensors if fact.role != "intermediate" or len(first.tensors) < 48]
        for fact in shown:
            assert (
                f"| `{fact.name}` | {fact.role} | {_tuple(fact.shape)} | {_tuple(fact.stride)} | {fact.dtype} |" in text
            )
        assert f"Work: {first.flops} FLOPs. Least traffic: {first.bytes} bytes" in text
        for number, trace in enumerate(others, 2):
            line = next(line for line in text.splitlines() if line.startswith(f"- Set {number}: "))
            assert all(f"{spec.dtype} {spec.shape}" in line for spec in trace.inputs if spec.kind != "literal")
        assert example(name).reference.strip() in text


def _tuple(numbers: tuple[int, ...]) -> str:
    return str(tuple(numbers))


def test_the_same_facts_give_the_same_prompt():
    task, traces = example("linear"), traces_of("linear")
    assert render_generation(task, traces) == render_generation(task, traces)
    assert render_reasoning(task, traces) == render_reasoning(task, traces)


def test_the_roles_are_system_then_user():
    messages = render_generation(example("relu"), traces_of("relu"))
    assert [message.role for message in messages] == ["system", "user"]
    assert [message.role for message in render_repair("error")] == ["user"]


def test_the_reasoning_request_names_the_six_headings():
    text = render_reasoning(example("relu"), traces_of("relu"))[-1].content
    assert all(heading(step) in text for step in STEPS)


def test_a_third_of_the_tasks_has_each_form():
    counts = Counter(form_of(f"task-{number}") for number in range(600))
    assert set(counts) == set(PromptForm) and min(counts.values()) > 150


@pytest.mark.parametrize("traces", [(), traces_of("relu")])
def test_every_form_names_the_device_the_accuracy_the_baseline_and_shows_an_answer(traces):
    text = render_generation(example("relu"), traces)[-1].content
    assert all(part in text for part in ("132 multiprocessors", "float64", "eager PyTorch", "class ModelNew"))
    assert ("## Facts" in text) == bool(traces)


def test_the_analysis_is_part_of_the_request_only_where_there_is_one():
    task, traces = example("relu"), traces_of("relu")
    step = ReasoningStep("index mapping", "thread i owns element i")
    assert "thread i owns element i" in render_generation(task, traces, (step,))[-1].content
    assert "Analysis" not in render_generation(task, traces)[-1].content


@pytest.mark.parametrize("text", ["cost $5 ${reference} $$ {} {0} %s \\n", "```python\nx\n```"])
def test_foreign_text_is_shown_as_it_is(text):
    assert text in render_repair(text)[0].content
    task = dataclasses.replace(example("relu"), reference=text)
    assert text in render_generation(task, traces_of("relu"))[-1].content


def test_a_reference_with_a_fence_in_its_docstring_stays_inside_its_own():
    task = dataclasses.replace(example("relu"), reference='"""\n```python\nx\n```\n"""\nclass Model: ...')
    for messages in (render_reasoning(task, traces_of("relu")), render_generation(task, traces_of("relu"))):
        assert f"````python\n{task.reference}\n````\n" in messages[-1].content


def test_a_long_trace_is_shortened_but_keeps_inputs_parameters_and_outputs():
    traces = traces_of("lstm")
    facts = traces[0].tensors
    many = tuple(dataclasses.replace(fact, name=f"copy{index}_{fact.name}") for index in range(40) for fact in facts)
    long = dataclasses.replace(traces[0], tensors=(*facts, *many), operators=traces[0].operators * 40)
    text = render_generation(example("lstm"), (long,))[-1].content
    assert "more intermediates" in text
    assert all(f"| `{fact.name}` | {fact.role} |" in text for fact in long.tensors if fact.role != "intermediate")
