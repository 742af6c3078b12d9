"""What step 5 says of operators whose places are bounded by more than a tensor's end."""

import dataclasses
import re

import pytest

from musadata.config import TeacherConfig
from musadata.records import InputSpec, Trace
from musadata.rows import restore
from musadata.teacher.claims.steps import parse_steps
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
    """The steps about the kernels of the compiler's answer."""
    task, traces = task_and_traces(forward, setup, *shapes)
    with CompilerTeacher(TeacherConfig(samples=1, faults=0), seed=7) as teacher:
        text = teacher.answer(Request(RequestKind.REASON, task, traces, ())).text
    return {step.step: step.text for step in parse_steps(text)}


@pytest.mark.parametrize(
    ("forward", "setup", "formula"),
    [
        (
            "return self.c(x)",
            "self.c = nn.Conv2d(4, 6, (3, 1), stride=2, padding=(1, 0), groups=2)",
            "Σ over `ic < 2` and `kh < 3` of `x[n, (c / 3) * 2 + ic, h * 2 + kh - 1, w * 2] * c.weight[c, ic, kh, 0]` "
            "where `h * 2 + kh - 1 >= 0",
        ),
        (
            "return F.max_pool2d(x, 3, 1, 1)",
            "pass",
            "= max over `kh < 3` and `kw < 3` of",
        ),
    ],
)
def test_the_formula_of_a_window_has_the_place_of_each_tap(forward, setup, formula):
    assert formula in steps_of(forward, setup, (2, 4, 9, 8), (3, 4, 7, 9))["scalar mathematics"]


def test_a_guard_that_cannot_fail_is_not_told():
    """Without padding every tap of a window lies inside of the input."""
    with CompilerTeacher(TeacherConfig(samples=1, faults=0), seed=7) as teacher:
        for padding in (0, 1):
            setup = f"self.c = nn.Conv1d(4, 6, 3, padding={padding})"
            task, traces = task_and_traces("return self.c(x)", setup, (2, 4, 19), (3, 4, 17))
            text = teacher.answer(Request(RequestKind.REASON, task, traces, ())).text
            assert ("else `0.0f`" in text) == (padding > 0)


def test_a_padding_that_goes_round_is_a_copy_with_its_place_and_its_trap():
    setup = "self.p = nn.CircularPad1d(2)"
    with CompilerTeacher(TeacherConfig(samples=1, faults=0), seed=7) as teacher:
        task, traces = task_and_traces("return self.p(x)", setup, (2, 4, 19), (3, 4, 17))
        text = teacher.answer(Request(RequestKind.REASON, task, traces, ())).text
    assert re.search(r"`\w+\[b, row, col\] = x\[b, row, \(.* % cols\]`", text)
    assert "is negative before the first element, and `%` keeps the sign in C++" in text


def test_kernels_that_share_code_are_told_without_its_names():
    """A function of the host launches one kernel with sizes that mean something else each time."""
    setup = "self.r = nn.GRU(16, 20, num_layers=2)"
    task, traces = task_and_traces("return self.r(x)[0]", setup, (5, 3, 16), (6, 2, 16))
    with CompilerTeacher(TeacherConfig(samples=1, faults=0), seed=7) as teacher:
        candidate_set = teacher._candidate_set(Request(RequestKind.GENERATE, task, traces, ()))
        found = [candidate_set.candidate(number) for number in range(5)]
    shared = [one for one in found if "stream()>>>" in one.source]
    assert shared
    for candidate in shared:
        steps = {step.step: step.text for step in write_reasoning(task, traces, candidate)}
        for emitted in candidate.kernels:
            if emitted.host.stream == "stream()":
                told = steps["index mapping"].partition(f"| `{emitted.kernel.name}`, ")[2].partition("\n\n")[0]
                assert "blockIdx" not in told and "<<<" not in told


def test_a_graph_that_holds_for_some_sets_of_shapes_gives_no_answer_and_no_formulas():
    task, traces = task_and_traces("return torch.relu(x[:, 1:9])", "pass", (3, 12), (4, 15), (5, 2))
    with CompilerTeacher(TeacherConfig(samples=1, faults=0), seed=7) as teacher:
        with pytest.raises(CannotAnswer, match="some sets of shapes only"):
            teacher.answer(Request(RequestKind.GENERATE, task, traces, ()))
        assert "_kernel`" not in teacher.answer(Request(RequestKind.REASON, task, traces, ())).text
        assert "_kernel" in teacher.answer(Request(RequestKind.GENERATE, task, traces[:2], ())).text
