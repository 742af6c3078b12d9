"""The checks on accesses that every verdict makes see what is a mistake, and let pass what only looks like one."""

import pytest

SOURCE = """
#include <torch/extension.h>
#include <cuda_runtime.h>
__global__ void kernel(const float* x, float* y, int n) {{
  __shared__ float s[256];
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  {kernel}
}}
torch::Tensor run(torch::Tensor x) {{
  auto y = torch::zeros_like(x);
  int n = x.numel();
  {host}
  kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;
}}
"""
PROGRAM = """
import torch
from torch.utils.cpp_extension import load_inline

extension = load_inline("checked", "torch::Tensor run(torch::Tensor x);", {source!r}, functions=["run"])


def answer():
    x = torch.arange({count}.0, device="cuda")
    for call in range({calls}):
        y = extension.run(x)
    return y.cpu().tolist()
"""
COPY = "if (i < n) y[i] = x[i];"


def kinds(run, kernel=COPY, host="", count=1000, calls=1, **options):
    source = SOURCE.format(kernel=kernel, host=host)
    answer = run(PROGRAM.format(source=source, count=count, calls=calls), **{"check": "brief", **options})
    assert answer["error"] == "", answer["error"]
    return {report["kind"] for report in answer["records"]["reports"]}


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("if (i < n) y[0] += x[i];", "race_in_block"),
        ("if (t == 0) y[0] += 1.0f;", "race_between_blocks"),
        ("if (t == 0 && i == 0) y[0] = 1.0f; else if (t == 0) atomicAdd(y, 1.0f);", "race_between_blocks"),
        ("if (i == 0) y[0] = 1.0f; else if (i == 40) atomicAdd(y, 1.0f);", "race_in_block"),
        ("s[t] = x[i < n ? i : 0]; if (i < n) y[i] = s[(t + 1) % 256];", "race_in_block"),
        ("if (i < n) y[i] = x[i + 1] > 1e30f ? 0.0f : x[i];", "out_of_bounds"),
    ],
)
def test_brief_check_sees_what_changes_a_value_or_leaves_the_bounds(run, kernel, kind):
    count = 1002  # its end is not that of a page, past which every access is a fault of its own
    assert kind in kinds(run, kernel, count=count)
    assert kinds(run, kernel, count=count, check="off") == set()


@pytest.mark.parametrize(
    "kernel",
    [
        "if (i < n - 1) { y[i] = x[i]; y[n - 1] = 7.0f; }",  # races only by storing the same value
        "s[0] = 3.0f; __syncthreads(); if (i < n) y[i] = s[0];",
        "if (i == 0) y[0] = 1.0f; __syncthreads(); if (i < 9) atomicAdd(y, 1.0f);",
        "if (t == 0 && atomicAdd(y, 1.0f) == gridDim.x - 1) y[0] = 0.0f;",  # the last one to add
        # A lock that is given back by a plain write behind a fence.
        "int* lock = reinterpret_cast<int*>(y + 9); if (t == 0) { atomicExch(lock, 0); while (atomicCAS(lock, 0, 1)) {}"
        " y[0] = 7.0f; __threadfence(); *(volatile int*)lock = 0; }",
        "if (t == 0) y[blockIdx.x] = 0.0f; __syncthreads(); atomicAdd(y + blockIdx.x, 1.0f);",
        "__shared__ int count; if (t == 0) count = 0; __syncthreads(); atomicAdd(&count, 1); __syncthreads();"
        " if (t == 0) y[blockIdx.x] = count;",
        "if (i < n) { float unused = s[t]; y[i] = x[i]; }",
        "__shared__ double pair[4]; if (t < 4) pair[t] = t; __syncthreads(); if (i < n) y[i] = pair[t % 4];",
    ],
)
def test_brief_check_lets_harmless_kernels_pass(run, kernel):
    assert kinds(run, kernel) == set()


def test_full_check_names_the_same_value_stored_twice(run):
    assert "race_in_block" in kinds(run, "s[0] = 3.0f; __syncthreads(); if (i < n) y[i] = s[0];", check="full")


def test_brief_check_ends_after_a_counted_number_of_accesses(run):
    early = "if (i == 1) y[0] = 1.0f; if (i == 0) y[0] = 2.0f; for (int k = 0; k < 2000; k++) y[i % n] += x[k % n];"
    late = "for (int k = 0; k < 2000; k++) y[i % n] += x[k % n]; __syncthreads(); if (t < 2) y[0] = t;"
    assert kinds(run, early, count=256) == {"race_in_block"}
    assert kinds(run, late, count=256) == set()
    assert kinds(run, late, count=256, check="full") == {"race_in_block"}


def test_host_code_may_not_touch_device_memory(run):
    read = "if (x.data_ptr<float>()[0] > 5.0f) n = 0;"
    assert kinds(run, host=read, check="off") == {"host_access"}
    assert kinds(run, host="y.data_ptr<float>()[1] = 1.0f;", check="off") == {"host_access"}


def test_host_code_may_copy_from_the_device_and_touch_managed_and_pinned_memory(run):
    host = """
  float first = 0, *managed = nullptr, *pinned = nullptr;
  cudaMemcpy(&first, x.data_ptr<float>(), sizeof(float), cudaMemcpyDeviceToHost);
  cudaMallocManaged(&managed, 64);
  cudaMallocHost(&pinned, 64);
  cudaMemset(managed, 0, 64);
  managed[3] = pinned[3] = first;
  cudaFree(managed);
  cudaFreeHost(pinned);
  int sizes[4] = {1, 2, 3, 4};
  std::vector<float> own(16);
  own[sizes[2]] = first;"""
    assert kinds(run, host=host) == set()


@pytest.mark.parametrize(
    "host",
    [
        "std::vector<float> own(n); memcpy(own.data(), x.data_ptr<float>(), n * sizeof(float)); n -= own[0] > 5.0f;",
        "const float* begin = x.data_ptr<float>(); std::vector<float> own(begin, begin + n); n -= own[0] > 5.0f;",
        "std::vector<float> own(n); std::copy(own.begin(), own.end(), y.data_ptr<float>());",
    ],
)
def test_host_code_may_not_touch_device_memory_through_the_c_library_either(run, host):
    assert kinds(run, host=host, check="off") == {"host_access"}


def test_kernel_may_not_be_given_an_address_of_the_hosts(run):
    host = "std::vector<float> own(n); kernel<<<1, 1>>>(x.data_ptr<float>(), own.data(), 1);"
    assert kinds(run, host=host, check="off") == {"host_memory"}
    host = "static float kept[1000]; kernel<<<1, 1>>>(kept, y.data_ptr<float>(), 1);"
    assert kinds(run, host=host, check="off") == {"host_memory"}


def test_kernel_may_be_given_null_the_end_of_an_array_and_the_address_of_a_symbol(run):
    host = """
  kernel<<<1, 1>>>(nullptr, y.data_ptr<float>(), 0);
  kernel<<<1, 1>>>(x.data_ptr<float>() + n, y.data_ptr<float>() + n, 0);
  static float symbol[4];
  float* address = nullptr;
  cudaMemcpyToSymbol(symbol, x.data_ptr<float>(), sizeof symbol, 0, cudaMemcpyDeviceToDevice);
  cudaGetSymbolAddress((void**)&address, symbol);
  kernel<<<1, 4>>>(address, y.data_ptr<float>(), 4);"""
    assert kinds(run, host=host) == set()


@pytest.mark.parametrize("settled", [False, True])
def test_static_variable_that_counts_calls_is_seen_once_the_program_is_settled(run, settled):
    counter = "static int calls = 0; n = ++calls > 50 ? 0 : n;"
    assert kinds(run, host=counter, calls=3, settled=settled) == ({"static_state"} if settled else set())


def test_static_variable_that_keeps_its_value_is_no_state(run):
    assert kinds(run, host="static volatile int last = 1000; last = n;", settled=True) == set()
    assert kinds(run, host="static volatile int last = 0; last = n;", settled=True) == {"static_state"}


def test_overrun_of_a_local_array_is_a_fault(run):
    kernel = (
        "volatile float v[4]; for (int k = 0; k < 10 + (n > 1 << 30); k++) v[k] = x[i % n]; if (i < n) y[i] = v[0];"
    )
    answer = run(PROGRAM.format(source=SOURCE.format(kernel=kernel, host=""), count=1000, calls=1))
    assert "past the end of a local array" in answer["error"]
