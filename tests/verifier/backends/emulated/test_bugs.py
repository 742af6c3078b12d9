"""Every kind of mistake is seen by the mechanism that is there for it."""

import pytest

from tests.verifier.backends.emulated.bugs import BUGS

CANDIDATE = """
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

extension = load_inline("bug", "torch::Tensor run(torch::Tensor x);", {source!r}, functions=["run"])


class Model(nn.Module):
    def forward(self, x):
        return {reference}


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.run(x)


def get_inputs():
    return [torch.randn({shape})]


def get_init_inputs():
    return []
"""


def candidate(name: str) -> str:
    bug = BUGS[name]
    return CANDIDATE.format(source=bug.source(), reference=bug.reference, shape=bug.shape)


@pytest.mark.parametrize("name", [name for name, bug in BUGS.items() if bug.fault])
def test_fault_stops_the_kernel_and_reaches_python(run, name):
    answer = run(candidate(name))
    assert answer["status"] == 0
    assert answer["error_type"] == "RuntimeError"
    assert [fault["kind"] for fault in answer["records"]["faults"]] == [BUGS[name].fault]
    assert answer["records"]["faults"][0]["message"] in answer["error"]
    assert "0x" not in answer["error"]
    assert run(candidate(name)) == answer


@pytest.mark.parametrize("name", [name for name, bug in BUGS.items() if bug.wrong_order])
def test_wrong_result_shows_without_a_sanitiser(run, name):
    answer = run(candidate(name), order=BUGS[name].wrong_order)
    assert answer["error"] == ""
    assert answer["close"] is False


@pytest.mark.parametrize("name", [name for name, bug in BUGS.items() if bug.reports])
def test_sanitiser_reports_the_mistake_with_its_line(run, name):
    bug = BUGS[name]
    reports = run(candidate(name), sanitize=True)["records"]["reports"]
    found = [report for report in reports if report["kind"] in bug.reports]
    assert found, reports
    assert found[0]["kernel"] == "kernel"
    assert found[0]["source"] == "cuda_source"
    assert 3 < found[0]["line"] <= bug.source().count("\n")


@pytest.mark.parametrize("name", [name for name, bug in BUGS.items() if bug.launch_error])
def test_refused_launch_leaves_the_output_unwritten_and_is_on_record(run, name):
    answer = run(candidate(name))
    assert answer["close"] is False
    assert [kernel["error"] for kernel in answer["records"]["kernels"]] == [BUGS[name].launch_error]
    assert answer["records"]["faults"] == []


def test_every_bug_is_caught_by_something():
    for name, bug in BUGS.items():
        assert bug.fault or bug.wrong_order or bug.reports or bug.launch_error, name


def test_access_fault_names_thread_and_distance(run):
    fault = run(candidate("no bounds check"))["records"]["faults"][0]
    assert fault["where"] == "block (3,0,0) thread (232,0,0)"
    assert fault["message"] == "illegal memory access 0 bytes past the end of a 4000-byte device allocation"


def test_deep_recursion_is_told_apart_from_an_overrun_wherever_the_stacks_lie(run):
    kernel = """
#include <torch/extension.h>
__device__ __noinline__ float sink(float* x, int depth) {
  volatile float many[256];
  for (int i = 0; i < 256; i++) many[i] = x[0] + depth;
  return depth == 0 ? many[7] : sink(x, depth - 1) + many[depth % 256];
}
__global__ void kernel(float* x, int depth) { x[0] = sink(x, depth); }
torch::Tensor run(torch::Tensor x) { kernel<<<1, 32>>>(x.data_ptr<float>(), 1 << 20); return x; }
"""
    answer = run(CANDIDATE.format(source=kernel, reference="x", shape=(4,)))
    assert "stack overflow" in answer["records"]["faults"][0]["message"]


def test_crash_of_host_code_leaves_a_last_message(run):
    source = "torch::Tensor run(torch::Tensor x) { *(volatile int*)0 = 1; return x; }"
    program = CANDIDATE.format(source="", reference="x", shape=(4,)).replace("extension = load", "# ") + (
        f"\nextension = load_inline('crash', {source!r}, functions=['run'])\n"
    )
    answer = run(program)
    assert answer["status"] == -11
    assert answer["last_message"].startswith("host_crash\t")


def test_error_of_a_kernel_is_sticky_for_synchronize(run):
    program = (
        candidate("no bounds check")
        + """

def answer():
    x = torch.randn(1000, device="cuda")
    try:
        extension.run(x)
    except RuntimeError:
        pass
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        return str(error)
"""
    )
    assert run(program)["value"] == "CUDA error: an illegal memory access was encountered"


def test_a_kernel_whose_type_is_hidden_is_unsupported_and_not_wrong(run):
    program = candidate("barrier of a grid that is not launched as one")
    hidden = program.replace(
        "cudaLaunchKernel((void*)kernel,", "auto* shown = kernel;"
        " void* hidden = (void*)shown; cudaLaunchKernel(hidden,"
    )  # fmt: skip
    assert [fault["kind"] for fault in run(hidden)["records"]["faults"]] == ["unsupported"]


def test_a_kernel_that_is_chosen_at_run_time_is_launched_under_its_name(run):
    source = """
#include <torch/extension.h>
template <class T, int N> __global__ void scale(const T* x, T* y, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = x[i] * N;
}
struct Choice { void* kernel; int threads; };
template <class T> Choice choose(int n) {
  if (n > 100) return {(void*)scale<T, 5>, 64};
  return {reinterpret_cast<void*>(&scale<T, 3>), 32};
}
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x);
  const float* from = x.data_ptr<float>();
  float* to = y.data_ptr<float>();
  int n = x.numel();
  const Choice chosen = choose<float>(n);
  void* arguments[] = {&from, &to, &n};
  TORCH_CHECK(cudaLaunchKernel(chosen.kernel, 1, chosen.threads, arguments, 0, 0) == cudaSuccess);
  return y;
}
"""
    for size, factor in ((7, 3), (700, 5)):
        answer = run(CANDIDATE.format(source=source, reference=f"x * {factor}", shape=(size,)))
        assert answer["close"], answer
        assert [kernel["name"] for kernel in answer["records"]["kernels"]] == ["scale"]


@pytest.mark.parametrize(("drawn", "faults"), [("", []), ("y[0] = curand_uniform(&state);", ["unsupported"])])
def test_only_a_random_number_that_is_drawn_is_unsupported(drawn, faults, run):
    source = f"""
#include <torch/extension.h>
#include <curand_kernel.h>
__global__ void kernel(const float* x, float* y) {{
  curandState state;
  curand_init(7, threadIdx.x, 0, &state);
  y[threadIdx.x] = 2 * x[threadIdx.x];
  {drawn}
}}
torch::Tensor run(torch::Tensor x) {{
  auto y = torch::empty_like(x);
  kernel<<<1, 8>>>(x.data_ptr<float>(), y.data_ptr<float>());
  return y;
}}
"""
    answer = run(CANDIDATE.format(source=source, reference="x * 2", shape=(8,)))
    assert [fault["kind"] for fault in answer["records"]["faults"]] == faults


def test_kernels_launched_by_calls_keep_their_names_and_their_shared_memory(run):
    kernel = """
#include <torch/extension.h>
template <int N> __global__ void kernel(float* y, int n) {
  extern __shared__ float s[];
  for (int i = 0; i < n; i++) s[i] = i;
  *y = s[n - 1];
}
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x);
  float* to = y.data_ptr<float>();
  int n = 15000;
  void* arguments[] = {&to, &n};
  cudaFuncSetAttribute((const void*)kernel<3>, cudaFuncAttributeMaxDynamicSharedMemorySize, n * 4);
  cudaLaunchKernel((const void*)kernel<3>, 1, 1, arguments, n * 4, 0);
  return y;
}
"""
    answer = run(CANDIDATE.format(source=kernel, reference="x * 0 + 14999", shape=(1,)))
    assert answer["close"], answer
    assert [kernel["name"] for kernel in answer["records"]["kernels"]] == ["kernel"]


def test_a_loop_that_waits_for_another_block_is_unsupported_and_not_wrong(run):
    kernel = """
#include <torch/extension.h>
__global__ void kernel(float* y, int* arrived) {
  atomicAdd(arrived, 1);
  while (atomicAdd(arrived, 0) < gridDim.x) {}
  *y = 1;
}
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x), arrived = torch::zeros({1}, x.options().dtype(torch::kInt));
  kernel<<<4, 1>>>(y.data_ptr<float>(), arrived.data_ptr<int>());
  return y;
}
"""
    answer = run(CANDIDATE.format(source=kernel, reference="x * 0 + 1", shape=(1,)))
    assert [fault["kind"] for fault in answer["records"]["faults"]] == ["unsupported"]


def test_shared_memory_granted_to_a_kernel_holds_under_another_name(run):
    kernel = """
#include <torch/extension.h>
template <int N> __global__ void __launch_bounds__(32) kernel(float* y, int n) {
  extern __shared__ float s[];
  for (int i = 0; i < n; i++) s[i] = i;
  *y = s[n - 1];
}
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x);
  auto launched = kernel<3>;
  cudaFuncSetAttribute(kernel<3>, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000);
  launched<<<1, 1, 60000>>>(y.data_ptr<float>(), 15000);
  return y;
}
"""
    assert run(CANDIDATE.format(source=kernel, reference="x * 0 + 14999", shape=(1,)))["close"]
    ungranted = kernel.replace("cudaFuncSetAttribute(kernel<3>", "cudaFuncSetAttribute(other")
    ungranted = ungranted.replace("torch::Tensor run", "__global__ void other() {} torch::Tensor run")
    ungranted = ungranted.replace("launched<<<", "kernel<3><<<")
    assert not run(CANDIDATE.format(source=ungranted, reference="x * 0 + 14999", shape=(1,)))["close"]
