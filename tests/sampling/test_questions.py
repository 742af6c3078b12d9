"""Every figure of a computed question is worked out again here; a teacher's questions are checked against the trace."""

import json
import math
import re
from dataclasses import replace
from random import Random

import pytest

from musadata.records import Annotation, Bound, InputSpec, Question, QuestionTopic, Reject, TensorFact, Trace
from musadata.sampling.fact_questions import ASKED, Subject, describe
from musadata.sampling.questions import ask_questions, pick_kernel, word_question, write_questions
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


def evaluate(text: str) -> float:
    text = re.sub(r"⌈([^⌉]*)⌉", r"math.ceil(\1)", text)
    text = re.sub(r"⌊([^⌋]*)⌋", r"math.floor(\1)", text)
    text = re.sub(r"log2 (\d+)", r"math.log2(\1)", text)
    return float(eval(text.replace("×", "*").replace("^", "**").replace("2**-24", "2.0**-24"), {"math": math}))


EQUATION = re.compile(r"((?:[\d.]+|\d+ × \([^)]*\)|⌈[^⌉]*⌉|⌊[^⌋]*⌋|min\([^)]*\))(?: [×+/−-] [\d.^-]+)*) = ([\d.e-]*\d)")


@pytest.mark.parametrize("make", ASKED, ids=lambda make: make.__name__)
def test_every_equation_of_an_answer_holds(make):
    held = 0
    for seed in range(40):
        subject = Subject(TRACE, CUDA, Random(seed))
        figures = make(subject)
        if figures is None:
            continue
        for number in range(3):
            for row in word_question(make.__name__, figures, Random(number)):
                for left, right in EQUATION.findall(row):
                    assert evaluate(left) == pytest.approx(float(right), rel=0.06), row
                    held += 1
    assert held or make.__name__ in ("view_or_copy", "short_floats", "coalescing")


def test_an_offset_is_that_of_the_strides():
    for seed in range(20):
        figures = ASKED_BY_NAME["storage_offset"](Subject(TRACE, "", Random(seed)))
        index = json.loads(figures.values["index"])
        assert figures.values["name"] == "t"  # tensors that are not contiguous come first
        assert figures.values["sum"].endswith(f"= {index[0] + 100 * index[1]}")


ASKED_BY_NAME = {make.__name__: make for make in ASKED}


@pytest.mark.parametrize("name", ["x", "t", "half"])
def test_sectors_of_a_warp_are_counted_by_their_addresses_and_not_asked_for_where_that_is_trivial(name):
    [fact] = [one for one in TRACE.tensors if one.name == name]
    lone = Trace((), (fact,), (), 0, 0, 0.0, Bound.MEMORY)
    for seed in range(30):
        figures = ASKED_BY_NAME["coalescing"](Subject(lone, "", Random(seed)))
        if figures is None:
            continue
        values, (step, size) = figures.values, (figures.values["stride"], figures.values["size"])
        assert fact.shape[values["axis"]] >= 32 and step == fact.stride[values["axis"]]
        touched = {(values["start"] + lane * step) * size // 32 for lane in range(32)}
        assert values["sectors"] == len(touched) and (step != 1 or len(touched) > values["best"])
        assert values["element"].count("l") >= 1 and values["at"] == values["start"] * size


def test_no_question_is_asked_whose_answer_needs_no_thought():
    whole = TensorFact("y", "output", "aten.relu.default", (4, 512), (512, 1), "float32", ("x",))
    lone = Trace((), (whole,), (), 0, 0, 0.0, Bound.MEMORY)
    for seed in range(10):
        subject = Subject(lone, "", Random(seed))
        assert ASKED_BY_NAME["launch_geometry"](subject) is None  # whole blocks
        assert ASKED_BY_NAME["coalescing"](subject) is None  # aligned neighbours


def test_the_intensity_is_asked_for_where_the_bytes_have_to_be_added_up():
    roofline = ASKED_BY_NAME["roofline"]
    figures = roofline(Subject(TRACE, "", Random(0)))
    assert figures.values["sum"] == "4 × (800 + 100 + 64)" and evaluate(figures.values["sum"]) == TRACE.bytes
    assert str(TRACE.bytes) not in figures.facts and "13600 FLOPs" in figures.facts
    two = replace(TRACE, tensors=TRACE.tensors[:4], bytes=3600)
    assert roofline(Subject(two, "", Random(0))) is None  # two tensors
    assert roofline(Subject(replace(TRACE, bytes=9), "", Random(0))) is None  # not the sum of what is shown
    wide = replace(TRACE, tensors=(*TRACE.tensors, replace(TRACE.tensors[0], name="w", dtype="float64")))
    values = roofline(Subject(replace(wide, bytes=10256), "", Random(0))).values
    assert values["sum"] == "4 × (800 + 100 + 64) + 8 × 800"


def test_facts_name_no_tensor_that_they_do_not_list():
    x, t, _, total, mm = TRACE.tensors
    assert "made by `aten.mm.default`." in describe(x, mm)
    assert "made by `aten.mm.default` from x, t." in describe(x, t, mm)
    assert "made by `aten.sum.dim_IntList` with dim=[-1]." in describe(total)
    for make in ASKED:
        figures = make(Subject(TRACE, CUDA, Random(3)))
        lines = figures.facts.splitlines() if figures and "```" not in figures.facts else []
        listed = {line.split("`")[1] for line in lines if line.startswith("`")}
        for line in lines:
            assert listed >= {
                name for found in re.findall(r" from (\w+(?:, \w+)*)", line) for name in found.split(", ")
            }


def test_a_vector_is_no_matrix_for_its_axes_of_one_element():
    column = TensorFact("column", "intermediate", "aten.clone.default", (100, 1), (1, 1), "float32", ("x",))
    lone = Trace((), (column,), (), 0, 0, 0.0, Bound.MEMORY)
    assert ASKED_BY_NAME["storage_offset"](Subject(lone, "", Random(1))) is None


def test_half_a_warp_of_blocks_bounds_the_occupancy():
    values = ASKED_BY_NAME["occupancy"](Subject(TRACE, CUDA, Random(0))).values
    assert (values["kernel"], values["blocks"], values["resident"], values["percent"]) == (
        "copy_kernel",
        32,
        1024,
        "50",
    )


def test_the_threads_of_one_launch_are_not_those_of_another():
    launched = """
    { const int threads = 512; sum_kernel<<<blocks, threads, 0, stream>>>(x, y, n); }
    { const dim3 threads(32, 8); copy_kernel<<<blocks, threads, 0, stream>>>(x, y, n); }
    """
    subject = Subject(TRACE, launched, Random(0))
    assert subject.launch("copy_kernel") is None
    text, threads = subject.launch("sum_kernel")
    assert threads == 512 and text.startswith("const int threads = 512;") and "copy_kernel" not in text


def test_questions_are_of_different_topics_first_and_the_same_rows_give_the_same_text():
    topics = set(ASKED.values())
    rows = write_questions(TASK, ANNOTATION, [KEPT], len(topics), "compiler")
    assert rows == write_questions(TASK, ANNOTATION, [KEPT], len(topics), "compiler")
    assert {row.topic for row in rows} == topics
    assert len({row.question_id for row in rows}) == len(rows) == len(topics)
    assert write_questions(TASK, ANNOTATION, [KEPT], 3, "compiler") == rows[:3]


def test_without_a_program_of_the_teacher_questions_are_about_the_trace_alone():
    for candidates in ([], [candidate("x = 1")], [candidate(PROGRAM.replace("a", "b", 0), None)]):
        rows = write_questions(TASK, ANNOTATION, candidates, 100, "another teacher")
        assert rows and not any(row.candidate_id for row in rows)


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
