"""Analyses of tasks whose kernels are known: what is said about each is read off the kernel itself."""

import dataclasses
import re
from types import SimpleNamespace

import pytest

from musadata.config import TeacherConfig
from musadata.records import Annotation, ClaimOutcome
from musadata.sampling.rollout import run_rollout
from musadata.teacher.claims.expressions import Facts
from musadata.teacher.claims.judging import judge_claims
from musadata.teacher.claims.steps import parse_claims, parse_steps
from musadata.teacher.compiler_teacher import CompilerTeacher
from musadata.teacher.prompts import PromptForm, form_of
from musadata.teacher.protocol import Request, RequestKind
from musadata.teacher.reasoning.planned_kernels import _common
from tests.tracing.examples import example, traces_of

NAMES = (
    *("gelu_chain", "linear", "convolution", "block", "softmax", "layer_norm", "group_norm", "matmul", "attention"),
    *(
        "embedding",
        "cumsum",
        "variance",
        "halves",
        "softmax_gather",
        "gather_softmax",
        "sum_of_products",
        "weight_norm",
        "cross_entropy",
        "multihead",
        "decoding",
        "deep_product",
        "few_rows",
        "same_names",
    ),
)


@pytest.fixture(scope="module")
def told():
    """The steps of a task and the kernels of its answer."""
    with CompilerTeacher(TeacherConfig(samples=1, faults=0), seed=7) as teacher:

        def tell(name):
            if name not in known:
                answers = [teacher.answer(Request(k, example(name), traces_of(name), ())).text for k in kinds]
                steps = {step.step: step.text for step in parse_steps(answers[0])}
                kernels = re.findall(r"__global__ void (?:__\w+\(\d+\) )?(\w+)\(", answers[1])
                known[name] = steps, kernels, *answers
            return known[name]

        known, kinds = {}, (RequestKind.REASON, RequestKind.GENERATE)
        yield tell


@pytest.mark.parametrize("name", NAMES)
def test_each_kernel_of_the_answer_is_said_to_do_something(told, name):
    steps, kernels, *_ = told(name)
    text = steps["semantic decomposition"]
    assert set(re.findall(r"`(\w+_kernel)`", text)) == set(kernels)
    if len(kernels) > 1:
        for kernel in kernels:
            line = next(line for line in text.splitlines() if line.startswith(f"| `{kernel}`"))
            assert re.match(r"\| [^|]* \| ((begins|goes on with|finishes) )?`aten\.", line) and line.count(" | ") == 3


def test_parameter_and_argument_of_one_name_are_told_apart(told):
    steps, *_ = told("same_names")
    first, second = steps["semantic decomposition"].splitlines()[-2:]
    assert "`x` (8, 24) and `self.weight` (24, 16) |" in first
    assert "`mm` (8, 16) and `weight` (16, 40) |" in second
    assert "| reads `self.weight[k, col]` |" in steps["index mapping"]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_claimed_of_known_kernels_holds(told, name):
    text = told(name)[2]
    stated = parse_claims(text)
    judged = judge_claims(stated, parse_steps(text), Facts(traces_of(name)))
    assert len(judged) == len(stated) > 1
    assert {claim.outcome for claim in judged} == {ClaimOutcome.HOLDS}


def test_an_operator_that_several_kernels_share_is_begun_and_finished(told):
    first, last = told("softmax_gather")[0]["semantic decomposition"].splitlines()[2:]
    assert "begins `aten._softmax.default` with `softmax_max` and `softmax_sum`" in first
    assert "`aten.gather.default`, finishes `aten._softmax.default`" in last


def test_a_gather_that_is_an_index_of_what_reads_it_is_named(told):
    text = told("gather_softmax")[0]["semantic decomposition"]
    assert "`aten.gather.default` and `aten._log_softmax.default`" in text


def test_calls_and_nodes_are_matched_in_order():
    assert _common("abcbd", "bcad") == [(1, 0), (2, 1), (4, 3)]
    assert _common("", "ab") == _common("ab", "cd") == []


def test_an_operator_that_the_graph_takes_apart_belongs_to_the_kernel_of_its_parts(told):
    first, *_ = told("weight_norm")[0]["semantic decomposition"].splitlines()[2:]
    assert "`aten._weight_norm_interface.default`" in first and "conv.weight_v" in first


def test_loads_are_said_to_be_side_by_side_only_where_they_are(told):
    text = told("matmul")[0]["index mapping"]
    assert "; elements apart along | `row` < 33 | `col` < 70 | `k` < 20 |" in text
    assert "| reads `a[row, k]` | 20 | 0 | 1 |" in text and "| reads `b[k, col]` | 0 | 1 | 70 |" in text
    text = told("cross_entropy")[0]["index mapping"]
    assert "| reads `a[row, b[row]]` | varies | 0 |" in text  # which column it is says memory, by the row


def test_the_border_of_a_window_is_the_condition_of_the_kernel(told):
    text = told("convolution")[0]["boundary handling"]
    assert re.search(r"\| `h \* 2 \+ kh - 1 >= 0 &&[^|]*` \| else `0.0f` \|", text)


def test_what_blocks_leave_is_worked_out_right(told):
    texts = [told(name)[0]["boundary handling"] for name in NAMES]
    found = [one for text in texts for one in re.findall(r"(\d+) % (\d+) = (\d+)", text)]
    assert found and all(int(points) % int(block) == int(rest) for points, block, rest in found)


def test_an_index_that_is_loaded_is_said_to_decide(told):
    text = told("embedding")[0]["boundary handling"]
    assert "| `i[b, row]` from memory is an index |" in text


def test_a_copy_is_no_formula(told):
    text = told("halves")[0]["scalar mathematics"]
    assert "`cat[row, col] = col < out_cols2 ? x[row, col + out_cols] : sigmoid(x[row, col - out_cols2])`" in text


@pytest.mark.parametrize("name", NAMES)
def test_the_launch_that_is_told_is_that_of_the_answer(told, name):
    steps, _, _, answer = told(name)
    mapping, source = steps["index mapping"], re.sub(r"\s+", " ", answer)
    assert "<<<" in mapping or "blocks of " in mapping
    for _, threads in re.findall(r"`<<<(.*?), (\d+|dim3\([\d, ]+\))>>>`", mapping):
        assert f"threads = {threads};" in source or f"threads({threads.removeprefix('dim3(')};" in source


@pytest.mark.parametrize("name", NAMES)
def test_mistakes_with_tiles_are_those_of_the_answers_tiles(told, name):
    steps, _, _, answer = told(name)
    text = steps["error pre-analysis"]
    for inner, depth, rest in re.findall(r"(\d+) % (\d+) = (\d+) steps are left for the last slice", text):
        assert int(inner) % int(depth) == int(rest) > 0 and f"start += {depth}" in answer
    assert ("with two tiles of each operand in turn" in text) <= ("_tile[2][" in answer)
    assert ("takes keys in tiles" in text) == ("first_key" in answer)


def test_each_sample_is_asked_with_the_analysis_of_its_own_kernels():
    """Whatever schedule the first sample has, which the annotation is about."""
    task, traces = example("softmax"), traces_of("softmax")
    names = (f"task-{number}" for number in range(20))
    task = dataclasses.replace(task, task_id=next(name for name in names if form_of(name) is PromptForm.PLAN))
    with CompilerTeacher(TeacherConfig(samples=12, faults=1), seed=7) as teacher:
        steps = parse_steps(teacher.answer(Request(RequestKind.REASON, task, traces, ())).text)
        annotation = Annotation("a", task.task_id, traces, steps, True, (), "t", "train")

        def judge(*_):
            return SimpleNamespace(accepted=True, error_class=None)

        attempts = [run_rollout(task, annotation, sample, 1, 0, teacher.answer, judge)[0] for sample in range(3)]
    assert len({attempt.request.reasoning for attempt in attempts}) > 1
    for attempt in attempts:
        mapping = {step.step: step.text for step in attempt.request.reasoning}["index mapping"]
        assert mapping in attempt.request.messages[-1].content
        assert ("shuffle" in mapping.rpartition("; elements apart")[0].rpartition("\n\n")[2]) == (
            "__shfl" in attempt.answer.text
        )
