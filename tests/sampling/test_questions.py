"""Every figure of a computed question is worked out again here; a teacher's questions are checked against the trace."""

import json
import re
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from musadata.records import Annotation, Bound, InputSpec, Question, QuestionTopic, Reject, TensorFact, Trace
from musadata.sampling.fact_questions import ASKED, describe
from musadata.sampling.questions import ask_questions, pick_kernel, write_questions
from musadata.teacher.claims.steps import read_objects
from musadata.teacher.protocol import REQUEST_FAILED, Answer, CannotAnswer, RequestFailed, RequestKind
from tests.sampling.test_rollout import TASK
from tests.sampling.test_unit_tests import candidate

TRACE = Trace(
    inputs=(InputSpec("x", "normal", "float32", (8, 100)),),
    tensors=(
        TensorFact("x", "input", "", (8, 100), (100, 1), "float32"),
        TensorFact("t", "intermediate", "aten.t.default", (100, 8), (1, 100), "float32", ("x",)),
        TensorFact("half", "intermediate", "aten._to_copy.default", (100, 8), (8, 1), "float16", ("t",), "dtype=half"),
        TensorFact("sum", "output", "aten.sum.dim_IntList", (100,), (1,), "float32", ("t",), "dim=[-1]"),
        TensorFact("mm", "output", "aten.mm.default", (8, 8), (8, 1), "float32", ("x", "t")),
    ),
    operators=("aten.t.default", "aten._to_copy.default", "aten.sum.dim_IntList", "aten.mm.default"),
    flops=13600,
    bytes=3856,
    intensity=3.5269,
    bound=Bound.MEMORY,
)
ANNOTATION = Annotation("annotation-1", 1, TASK.task_id, (TRACE,), (), True, (), "compiler", "train")
CUDA = """
#include <cuda_runtime.h>
__device__ __forceinline__ float warp_sum(float value) {
    for (int offset = 16; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(0xffffffff, value, offset);
    }
    return value;
}

__device__ __forceinline__ float block_sum(float value) {
    __shared__ float partial[32];
    value = warp_sum(value);
    __syncthreads();
    return value;
}

__global__ void sum_kernel(const float* x, float* y, int n) {
    float total = block_sum(x[threadIdx.x]);
    y[0] = total;
}

__global__ void copy_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}

torch::Tensor run(torch::Tensor x) {
    cudaStream_t stream = at::cuda::getCurrentCUDAStream();
    const int threads = 32;
    const int blocks = 7;
    copy_kernel<<<blocks, threads, 0, stream>>>(x.data_ptr<float>(), x.data_ptr<float>(), 1);
    return x;
}
"""
PROGRAM = f'from torch.utils.cpp_extension import load_inline\ncuda = """{CUDA}"""\next = load_inline("a", "", cuda)\n'
KEPT = candidate(PROGRAM, kept=True)


ASKED_BY_NAME = {make.__name__: make for make in ASKED}


def evaluate(text: str) -> float:
    return float(eval(text.replace("×", "*")))


@pytest.mark.parametrize("name", ["t", "half", "deep"])
def test_sectors_of_a_warp_are_counted_by_their_addresses(name):
    fact = {
        "t": TRACE.tensors[1],
        "half": TensorFact("half", "intermediate", "aten.slice.Tensor", (100, 8), (24, 1), "float16", ("t",)),
        "deep": TensorFact("deep", "output", "aten.permute.default", (4, 5, 16), (1, 64, 4), "float32", ("t",)),
    }[name]
    lone, places = Trace((), (fact,), (), 0, 0, 0.0, Bound.MEMORY), list(np.ndindex(fact.shape))
    for seed in range(30):
        values = ASKED_BY_NAME["coalescing"](lone, Random(seed)).values
        read = places[values["first"] : values["last"] + 1]
        elements = [sum(at * step for at, step in zip(place, fact.stride, strict=True)) for place in read]
        assert values["sectors"] == len({element * values["size"] // 32 for element in elements})
        told: list[int] = []
        for lanes, start, step in re.findall(r"\| ([\d–]+) \| (\d+) \| (\d*) ?\|", values["runs"]):
            first, _, last = lanes.partition("–")
            told += [int(start) + lane * int(step or 0) for lane in range(int(last or first) - int(first) + 1)]
        assert told == elements


def test_no_question_is_asked_whose_answer_needs_no_thought():
    whole = TensorFact("y", "output", "aten.relu.default", (4, 512), (512, 1), "float32", ("x",))
    rows = TensorFact("z", "output", "aten.slice.Tensor", (4, 512), (1024, 1), "float32", ("x",))
    for seed in range(10):
        for fact in (whole, rows):  # aligned neighbours
            assert ASKED_BY_NAME["coalescing"](Trace((), (fact,), (), 0, 0, 0.0, Bound.MEMORY), Random(seed)) is None


def test_the_intensity_is_asked_for_where_the_bytes_have_to_be_added_up():
    def roofline(trace):
        return ASKED_BY_NAME["roofline"](trace, Random(0))

    figures = roofline(TRACE)
    assert figures.values["sum"] == "4 × (800 + 100 + 64)" and evaluate(figures.values["sum"]) == TRACE.bytes
    assert str(TRACE.bytes) not in figures.facts and "13600 FLOPs" in figures.facts
    assert roofline(replace(TRACE, tensors=TRACE.tensors[:4], bytes=3600)) is None  # two tensors
    assert roofline(replace(TRACE, bytes=9)) is None  # not the sum of what is shown
    wide = replace(TRACE, tensors=(*TRACE.tensors, replace(TRACE.tensors[0], name="w", dtype="float64")))
    assert roofline(replace(wide, bytes=10256)).values["sum"] == "4 × (800 + 100 + 64) + 8 × 800"


def test_facts_name_no_tensor_that_they_do_not_list():
    x, t, _, total, mm = TRACE.tensors
    assert "made by `aten.mm.default`." in describe(x, mm)
    assert "made by `aten.mm.default` from x, t." in describe(x, t, mm)
    assert "made by `aten.sum.dim_IntList` with dim=[-1]." in describe(total)


def test_questions_are_of_different_topics_and_the_same_rows_give_the_same_text():
    rows = write_questions(TASK, ANNOTATION, 4, "compiler")
    assert rows == write_questions(TASK, ANNOTATION, 4, "compiler")
    assert {row.topic for row in rows} == set(ASKED.values()) and len(rows) == len(ASKED)
    assert write_questions(TASK, ANNOTATION, 1, "compiler") == rows[:1]
    assert not any(row.candidate_id or "{" in row.question + row.answer for row in rows)


def test_sources_that_cannot_be_read_give_no_kernel():
    assert pick_kernel([candidate("def (")])[1] == ""
    assert pick_kernel([])[0] is None


GOOD = {
    "topic": "Tensor semantics",
    "question": "How many elements has `x` (8, 100)?",
    "answer": "8 × 100 = 800 elements.",
}


def ask_with(reply, count=4):
    asked = []

    def ask(request):
        asked.append(request)
        if isinstance(reply, Exception):
            raise reply
        return Answer(reply, server="s")

    rows = ask_questions(TASK, ANNOTATION, [KEPT], count, "model", 1, ask)
    assert [request.kind for request in asked] == [RequestKind.QUESTION]
    assert "copy_kernel" in asked[0].messages[-1].content
    return rows


@pytest.mark.parametrize("wrap", ["{}", "```json\n{}\n```", "Here:\n{}\nDone."])
def test_a_teachers_question_is_kept_with_its_facts_and_provenance(wrap):
    [row] = ask_with(wrap.replace("{}", json.dumps([GOOD])))
    assert isinstance(row, Question)
    assert (row.topic, row.teacher, row.server) == (QuestionTopic.TENSORS, "model", "s")
    assert "`x`: input, float32, shape (8, 100)" in row.facts and "copy_kernel" in row.facts


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ({**GOOD, "answer": "It has 808.", "claim": 'numel("x") == 808'}, "contradicts the facts"),
        ({**GOOD, "claim": 'grid("copy_kernel") == (8,)'}, "contradicts the facts"),
        ({**GOOD, "topic": "cooking"}, "unknown topic"),
        ({**GOOD, "answer": " "}, "question or answer missing"),
        ({**GOOD, "question": ["a"]}, "question or answer missing"),
        ({**GOOD, "answer": "8 × 100 = 800. " * 2000}, "question or answer too long"),
    ],
)
def test_a_question_that_is_none_or_wrong_is_a_reject_and_the_others_stay(item, reason):
    rows = ask_with(json.dumps([item, GOOD]))
    assert isinstance(rows[0], Reject) and rows[0].reason == reason
    assert isinstance(rows[1], Question)


TRUE_CLAIM = 'numel("x") == 800 and grid("copy_kernel") == (7,)'


@pytest.mark.parametrize(
    ("claim", "kept"),
    [(TRUE_CLAIM, TRUE_CLAIM), ('grid("copy_kernel") == (7,)', ""),  # which has no figure of the answer
     ("800 of them", ""), ('numel("z") == 800', ""), (None, ""), (5, "")],
)  # fmt: skip
def test_a_question_is_dropped_on_the_evidence_of_its_claim_alone(claim, kept):
    [row] = ask_with(json.dumps([{**GOOD, "answer": "8 × 101 = 800 elements.", "claim": claim}]))
    assert isinstance(row, Question) and row.claim == kept


@pytest.mark.parametrize("reply", ["", "no", "[", "{}", "[1, 2]", "[" * 5000, '{"a": [}'])
def test_a_reply_without_questions_is_one_reject(reply):
    [row] = ask_with(reply)
    assert isinstance(row, Reject) and row.reason == "no questions in the reply"
    assert read_objects(reply) == []


def test_a_failed_request_is_a_reject_that_may_be_sent_again():
    [failed] = ask_with(RequestFailed("timeout"))
    assert failed.reason == REQUEST_FAILED
    [refused] = ask_with(CannotAnswer("not recorded"))
    assert refused.reason == "no answer"


def test_no_more_rows_than_were_asked_for():
    items = [{**GOOD, "question": f"Question {'x' * number}?"} for number in range(9)]
    assert len(ask_with(json.dumps(items), count=4)) == 4
