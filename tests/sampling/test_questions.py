"""A teacher's questions are checked against the trace."""

import json

import pytest

from musadata.records import Annotation, Bound, InputSpec, Question, QuestionTopic, Reject, TensorFact, Trace
from musadata.sampling.questions import _describe, ask_questions, pick_kernel
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
ANNOTATION = Annotation("annotation-1", TASK.task_id, (TRACE,), (), True, (), "compiler", "train")
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


def test_facts_name_no_tensor_that_they_do_not_list():
    x, t, _, total, mm = TRACE.tensors
    assert "made by `aten.mm.default`." in _describe(x, mm)
    assert "made by `aten.mm.default` from x, t." in _describe(x, t, mm)
    assert "made by `aten.sum.dim_IntList` with dim=[-1]." in _describe(total)


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
