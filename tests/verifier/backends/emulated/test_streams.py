"""Streams are done at once in the emulator, but whoever forgets to wait for one is told so."""

import pytest

from musadata.records import ErrorClass, Task
from musadata.verifier import Verifier

PROGRAM = """
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r'''
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void relu(const float* x, float* y, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] < 0.0f ? 0.0f : x[i];
}}

torch::Tensor forward(torch::Tensor x) {{
    auto input = x.contiguous();
    auto out = torch::empty_like(input);
    const float* from = input.data_ptr<float>();
    float* y = out.data_ptr<float>();
    const int n = input.numel(), blocks = (n + 255) / 256;
    cudaStream_t caller = at::cuda::getCurrentCUDAStream();
    cudaEvent_t ready, done;
    cudaEventCreateWithFlags(&ready, cudaEventDisableTiming);
    cudaEventCreateWithFlags(&done, cudaEventDisableTiming);
    {body}
    return out;
}}
'''
ext = load_inline(name="streams", cpp_sources="torch::Tensor forward(torch::Tensor x);", cuda_sources=source,
                  functions=["forward"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.side = torch.cuda.Stream()

    def forward(self, x):
        {call}
"""
CALL = "return ext.forward(x)"
OPEN = "cudaStream_t side; cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);"
POOL = "cudaStream_t side = at::cuda::getStreamFromPool();"
BEGIN = "cudaEventRecord(ready, caller); cudaStreamWaitEvent(side, ready, 0);"
RUN = "relu<<<blocks, 256, 0, side>>>(from, y, n);"
END = "cudaEventRecord(done, side); cudaStreamWaitEvent(caller, done, 0);"
CLOSE = "cudaStreamDestroy(side);"
HALVES = """
    cudaStream_t other; cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking); cudaStreamWaitEvent(other, ready, 0);
    relu<<<blocks, 256, 0, side>>>(from, y, n / 2);
    relu<<<blocks, 256, 0, other>>>(from + n / 2, y + n / 2, n - n / 2);
    cudaEventRecord(done, other); cudaStreamWaitEvent(side, done, 0);"""


def judge(verifier: Verifier, task: Task, body: str, call: str = CALL) -> tuple[bool, str]:
    verdict = verifier.verify(task, PROGRAM.format(body=body, call=call))
    assert verdict.accepted or verdict.error_class is ErrorClass.RUNTIME
    assert {finding.rule for finding in verdict.findings} <= {"device.unordered_streams"}
    return verdict.accepted, verdict.feedback


@pytest.mark.parametrize(
    "body",
    [
        OPEN + BEGIN + RUN + END + CLOSE,
        POOL + BEGIN + RUN + END,
        OPEN + BEGIN + HALVES + END,
        "cudaStream_t side; cudaStreamCreate(&side);" + RUN + CLOSE,  # the default stream waits for it by itself
        "cudaStream_t side = cudaStreamPerThread;" + RUN,
        OPEN + "cudaDeviceSynchronize();" + RUN + "cudaStreamSynchronize(side);",
        OPEN + BEGIN + RUN + "cudaEventRecord(done, side); cudaEventSynchronize(done);",
        OPEN + BEGIN + RUN + "cudaDeviceSynchronize();" + CLOSE,
        "cudaStream_t side = caller;" + RUN,
        "cudaStream_t side = cudaStreamLegacy;" + RUN,
    ],
)
def test_stream_that_is_waited_for_is_accepted(verifier: Verifier, relu_task: Task, body: str) -> None:
    accepted, feedback = judge(verifier, relu_task, body)
    assert accepted, feedback


@pytest.mark.parametrize(
    "body",
    [
        OPEN + BEGIN + RUN + CLOSE,
        POOL + BEGIN + RUN,
        OPEN + BEGIN + "cudaEventRecord(done, side);" + RUN + "cudaStreamWaitEvent(caller, done, 0);",
        OPEN + BEGIN + RUN + "cudaEventRecord(done, side);",
        OPEN + BEGIN + RUN + END + RUN,
        OPEN + BEGIN + HALVES,
    ],
)
def test_results_that_nobody_waits_for_are_rejected(verifier: Verifier, relu_task: Task, body: str) -> None:
    accepted, feedback = judge(verifier, relu_task, body)
    assert not accepted
    assert "kernel relu: the forward returns, and PyTorch's current stream does not wait" in feedback


@pytest.mark.parametrize(
    "body",
    [
        OPEN + RUN + END,
        POOL + RUN + "cudaDeviceSynchronize();",
        OPEN + "cudaStreamWaitEvent(side, ready, 0);" + RUN + END,
    ],
)
def test_stream_that_does_not_wait_for_the_inputs_is_rejected(verifier: Verifier, relu_task: Task, body: str) -> None:
    accepted, feedback = judge(verifier, relu_task, body)
    assert not accepted
    assert "kernel relu: it is launched on a stream that does not wait for PyTorch's current one" in feedback


IN_PYTHON = """current = torch.cuda.current_stream()
        {begin}
        with torch.cuda.stream(self.side):
            y = ext.forward(x)
        {end}
        return y"""
BEGIN_IN_PYTHON, END_IN_PYTHON = "self.side.wait_stream(current)", "current.wait_stream(self.side)"


@pytest.mark.parametrize(
    ("begin", "end", "accepted"),
    [
        (BEGIN_IN_PYTHON, END_IN_PYTHON, True),
        ("torch.cuda.synchronize()", "self.side.synchronize()", True),
        ("self.side.wait_event(current.record_event())", "self.side.record_event().wait(current)", True),
        ("pass", END_IN_PYTHON, False),
        (BEGIN_IN_PYTHON, "pass", False),
    ],
)
def test_pythons_streams_are_the_same(
    verifier: Verifier, relu_task: Task, begin: str, end: str, accepted: bool
) -> None:
    call = IN_PYTHON.format(begin=begin, end=end)
    on_the_callers = "cudaStream_t side = caller;" + RUN
    assert judge(verifier, relu_task, on_the_callers, call)[0] is accepted
