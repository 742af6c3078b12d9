"""What step 5 says of operators whose places are bounded by more than a tensor's end."""

import dataclasses
import re

import pytest

from musadata.config import TeacherConfig
from musadata.records import InputSpec, Trace
from musadata.rows import restore
from musadata.teacher.compiler_teacher import CompilerTeacher
from musadata.teacher.protocol import CannotAnswer, Request, RequestKind
from musadata.teacher.reasoning import write_reasoning
from musadata.tracing.execution import trace_reference
from tests.tracing.examples import _TEMPLATE, task_of


def task_and_traces(forward, setup, *shapes):
    """A task with one input `x` of each of the shapes in turn, and its traces."""
    source = _TEMPLATE.format(forward=forward, setup=setup, arguments="x")
    sets = [InputSpec("x", "normal", "float32", shape, 0.0, 0.0) for shape in shapes]
    traces = [restore(Trace, trace_reference(source, [dataclasses.asdict(one)], 7, 1)["traces"][0]) for one in sets]
    return task_of(source, sets[0]), tuple(traces)


def steps_of(forward, setup, *shapes):
    return {step.step: step.text for step in write_reasoning(*task_and_traces(forward, setup, *shapes))}


@pytest.mark.parametrize(("stride", "padding", "dilation"), [(2, 0, 1), (3, 1, 2), (2, 1, 3), (1, 1, 1)])
def test_the_taps_of_a_transposed_convolution_are_those_that_land_on_the_output(stride, padding, dilation):
    setup = f"self.c = nn.ConvTranspose1d(2, 3, 5, stride={stride}, padding={padding}, dilation={dilation})"
    text = steps_of("return self.c(x)", setup, (2, 2, 9), (2, 2, 7))["boundary handling"]
    assert f"input place (o + {padding} − t × {dilation}) / {stride}:" in text
    assert "at least 0 and below 9, 7 with the second set of shapes" in text
    assert ("whole" in text) == (stride > 1)
    for number, phase in re.findall(r"(\d) for (\d)(?=[, ])", text):
        landing = [
            t
            for t in range(5)
            for p in range(-50, 50)
            if p * stride + t * dilation - padding == int(phase) + 30 * stride
        ]
        assert int(number) == len(landing)


def test_a_slice_is_explained_and_said_to_be_cut_where_an_axis_is_shorter_than_its_end():
    steps = steps_of("return torch.relu(x[:, 1:9])", "pass", (3, 12), (4, 15), (5, 2))
    assert "`slice[r, c] = x[r, c + 1]`" in steps["scalar mathematics"]
    assert "in shapes 3: min(9, 2) − 1 = 1 is left there, and a bound of 8" in steps["boundary handling"]


def test_a_graph_that_holds_for_some_sets_of_shapes_gives_no_answer_and_no_formulas():
    task, traces = task_and_traces("return torch.relu(x[:, 1:9])", "pass", (3, 12), (4, 15), (5, 2))
    with CompilerTeacher(TeacherConfig(samples=1, faults=0), seed=7) as teacher:
        with pytest.raises(CannotAnswer, match="some sets of shapes only"):
            teacher.answer(Request(RequestKind.GENERATE, task, traces, ()))
        assert "_kernel`" not in teacher.answer(Request(RequestKind.REASON, task, traces, ())).text
        assert "_kernel" in teacher.answer(Request(RequestKind.GENERATE, task, traces[:2], ())).text


def test_the_rounding_of_a_sum_in_pieces_is_that_of_its_threads():
    task, traces = task_and_traces("return F.mse_loss(x, x * 2)", "pass", (64, 200), (65, 190))
    task = dataclasses.replace(task, measure=(dataclasses.replace(task.inputs[0], shape=(16384, 4096)),))
    with CompilerTeacher(TeacherConfig(samples=1, faults=0), seed=7) as teacher:
        text = teacher.answer(Request(RequestKind.REASON, task, traces, ())).text
    found = re.search(r"a block of (\d+) adds at most (\d+) / \1 = (\d+) values, and (\d+) rounds", text)
    assert found and 2 ** int(found[4]) == int(found[1]) and int(found[3]) * int(found[1]) == int(found[2])
