import dataclasses
import re

import pytest

from musadata.teacher.prompts import STEPS
from musadata.teacher.reasoning import write_reasoning
from musadata.teacher.reasoning.calls import read_calls
from tests.tracing.examples import NAMES, example, traces_of


def texts(name: str) -> dict[str, str]:
    return {step.step: step.text for step in write_reasoning(example(name), traces_of(name))}


def test_without_a_lowering_steps_name_strides_and_what_blocks_leave():
    assert "| 264 % 256 = 8 | 243 % 256 = 243 |" in texts("gelu_chain")["boundary handling"]
    assert "`t` by stride (1, 64)" in texts("linear")["index mapping"]


def test_work_that_no_output_needs_is_not_talked_about():
    trace = traces_of("gelu_chain")[0]
    dead = dataclasses.replace(trace.tensors[2], name="dead", operator="aten.cos.default")
    assert "dead" not in str(read_calls(dataclasses.replace(trace, tensors=(*trace.tensors, dead))))


@pytest.mark.parametrize("name", NAMES)
def test_the_same_task_and_traces_give_the_same_text(name):
    assert write_reasoning(example(name), traces_of(name)) == write_reasoning(example(name), traces_of(name))


@pytest.mark.parametrize("name", NAMES)
def test_every_step_says_something_about_this_task_and_stays_readable(name):
    for step, text in texts(name).items():
        assert re.search(r"[0-9]|`", text), step
        assert 15 < len(text) < 6000, (step, len(text))
        assert (
            "None" not in text
            and "{" not in text
            and "()" not in text.replace("__syncthreads()", "").replace("data_ptr()", "")
        ), step


def test_what_is_said_about_meaning_mathematics_and_shapes_differs_between_any_two_tasks():
    for step in STEPS[:3]:
        assert len({texts(name)[step] for name in NAMES}) == len(NAMES), step
