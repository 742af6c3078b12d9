"""The choice of a schedule: what it costs is worked out from the kernel, and the winner depends on the sizes."""

import dataclasses
import re

import pytest

from musadata.compiler.candidate_set import read_graph
from musadata.compiler.capturing.capture import capture
from musadata.compiler.emission.candidate import build_candidate
from musadata.compiler.emission.emit import emit
from musadata.compiler.emission.schedule_costs import cost_of
from musadata.compiler.emission.schedule_plan import PLANS
from musadata.compiler.ir.schedule import Bind, Combine, Schedule
from musadata.config import TeacherConfig
from musadata.rows import plain
from musadata.tasks.reference_loading import load_reference
from musadata.teacher.compiler_teacher import CompilerTeacher
from musadata.teacher.protocol import Request, RequestKind
from musadata.teacher.reasoning.schedule_choice import expected_seconds, plain_forms
from musadata.tracing.roofline import H100
from musadata.tracing.trace_recording import record_without_memory
from tests.compiler.references import FIXTURES
from tests.tracing.examples import example, traces_of


def kernel_of(name):
    task = example(name)
    graph = read_graph(capture(task.reference, plain([trace.inputs for trace in traces_of(name)]), 5))
    candidate = build_candidate(graph, PLANS[0])
    return candidate.kernels[0].kernel, candidate


def costs_of(name, **sizes):
    kernel, candidate = kernel_of(name)
    known = {**candidate.hints[0], **sizes}
    return {form.label: cost_of(emit(kernel, form), known, H100) for form in plain_forms(kernel)}, known


def test_a_thread_for_each_row_touches_a_line_for_each_lane_and_a_warp_reads_neighbours():
    costs, _ = costs_of("softmax", rows=1 << 16, cols=4096)
    assert costs["one thread per output"].lines[0] == 32
    assert costs["one warp per output, shuffle reduction"].lines[0] == 1
    assert costs["one thread per output"].bound in ("L1", "latency")
    assert costs["one thread per output"].seconds > 2 * costs["one warp per output, shuffle reduction"].seconds


def test_with_few_rows_a_block_for_each_wins_and_with_many_short_ones_a_warp():
    few, _ = costs_of("softmax", rows=64, cols=1 << 18)
    many, _ = costs_of("softmax", rows=1 << 22, cols=32)
    assert min(few, key=lambda label: few[label].rank) == "one block per output, warp shuffles and shared memory"
    assert min(many, key=lambda label: many[label].rank) == "one warp per output, shuffle reduction"


def test_what_has_to_move_is_never_more_than_what_is_asked_for_and_is_at_the_bandwidth():
    costs, _ = costs_of("softmax", rows=1 << 14, cols=4096)
    for cost in costs.values():
        assert cost.moved >= 2 * 4 * (1 << 26)
        assert cost.limits["memory"] == pytest.approx(cost.moved / 3.35e12)
        assert cost.seconds >= cost.limits["memory"]


@pytest.mark.parametrize("name", ["softmax", "linear", "layer_norm"])
def test_an_analysis_weighs_schedules_and_its_figures_hold(name):
    """The first sample has the schedule that is expected to win, and the table has counts and no times."""
    task = example(name)
    measure = tuple(dataclasses.replace(one, shape=(one.shape[0] << 12, *one.shape[1:])) for one in task.inputs[:1])
    task = dataclasses.replace(task, measure=(*measure, *task.inputs[1:]))
    declared = (record_without_memory(load_reference(task.reference), task.measure, 5, traces_of(name)[0]),)
    with CompilerTeacher(TeacherConfig(samples=1, faults=0), seed=7) as teacher:
        request = Request(RequestKind.REASON, task, traces_of(name), (), declared=declared)
        text = teacher.answer(request).text
        again = teacher.answer(dataclasses.replace(request, sample=1)).text
    rows = re.findall(r"^\| (.+?) \| (\d+) × (\d+) \| ([\d.]+ \wB) \|", text, re.MULTILINE)
    assert len(rows) >= 2 and len({row[0] for row in rows}) == len(rows)
    assert all(int(threads) <= 1024 for _, _, threads, _ in rows)
    assert rows[0][0].endswith("(taken)") and "to be faster" not in text and " µs" not in text
    assert "(taken)" in again


def test_plain_forms_are_written_for_any_size():
    kernel, _ = kernel_of("softmax")
    assert Schedule((Bind("outputs", "thread", 128), Combine("inner", "thread"))) in plain_forms(kernel)


def test_kernels_of_a_recurrent_layer_are_expected_in_each_step():
    fixture = FIXTURES["recurrent state"]
    graph = read_graph(capture(fixture.source, plain(list(fixture.sets)), 5))
    candidate = build_candidate(graph, PLANS[0])
    steps = next(one.kernel.steps.count for one in candidate.kernels if one.kernel.steps)
    (size,) = {atom.name for atom in steps.atoms()}
    few, many = (expected_seconds(candidate, {**candidate.hints[0], size: count}) for count in (10, 1000))
    assert many > 50 * few
