"""Vectors at addresses that are no multiple of their size are found, as on every device."""

import pytest

SOURCE = """
#include <torch/extension.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_pipeline.h>
#include <mma.h>
{includes}
struct alignas(16) Pack {{ float at[4]; }};
__global__ void kernel(const float* x, float* y, int n) {{
  __shared__ __align__(16) float s[512];
  int t = threadIdx.x;
  for (int i = t; i < 512; i += blockDim.x) s[i] = 0.0f;
  __syncthreads();
  {kernel}
}}
torch::Tensor run(torch::Tensor x) {{
  auto y = torch::zeros_like(x);
  {host}
  kernel<<<1, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}}
"""
PROGRAM = """
import torch
from torch.utils.cpp_extension import load_inline

extension = load_inline("aligned", "torch::Tensor run(torch::Tensor x);", {source!r}, functions=["run"])


def answer():
    x = torch.empty(1024, device="cuda").copy_(torch.arange(1024.0))
    return [extension.run({argument}).cpu().tolist(), x.data_ptr() % 16]
"""
LINE = 14  # of the kernel's code
FULL = {"includes": "#include <sstream>", "host": "std::ostringstream text; text << x.options();"}


def execute(run, kernel, argument="x", includes="", host="", **options):
    source = SOURCE.format(kernel=kernel, includes=includes, host=host)
    return run(PROGRAM.format(source=source, argument=argument), **options)


@pytest.mark.parametrize(
    ("kernel", "bytes_", "past"),
    [
        ("if (t == 1) y[0] = reinterpret_cast<const float4*>(x + 102 * t)[0].x;", 16, 8),
        ("auto v = *reinterpret_cast<const float4*>(x + 1); y[t] = v.x + v.w;", 16, 4),
        ("reinterpret_cast<float4*>(y + 2)[t] = make_float4(1, 2, 3, 4);", 16, 8),
        ("float4* row = (float4*)(y + 102); row[t % 2].y = 1.0f;", 16, 8),
        ("y[t] = reinterpret_cast<const float2*>(x + 1)[t].y;", 8, 4),
        ("auto h = reinterpret_cast<const __half*>(x) + 1; y[t] = __half2float(((const half2*)h)[t].x);", 4, 2),
        ("auto h = reinterpret_cast<const __nv_bfloat16*>(x) + 3; __nv_bfloat162 b = *(const __nv_bfloat162*)h; "
         "y[t] = __bfloat162float(b.x);", 4, 2),
        ("y[t] = reinterpret_cast<const int4*>(x + 3)[0].x;", 16, 12),
        ("y[t] = reinterpret_cast<const uint4*>(x + 6)->w;", 16, 8),
        ("reinterpret_cast<double2*>(y + 2)[0] = make_double2(1.0, 2.0);", 16, 8),
        ("y[t] = reinterpret_cast<const double*>(x + 1)[0] > 0;", 8, 4),
        ("y[t] = reinterpret_cast<const Pack*>(x + 2)->at[1];", 16, 8),
        ("y[t] = __ldg(reinterpret_cast<const float4*>(x + 2)).x;", 16, 8),
        ("__stcs(reinterpret_cast<float2*>(y + 1), make_float2(1, 2));", 8, 4),
        ("y[t] = reinterpret_cast<float4*>(s + 2)[0].x;", 16, 8),
        ("extern __shared__ float d[]; reinterpret_cast<float4*>(d + 1)[0].x = 1.0f;", 16, 4),
        ("__pipeline_memcpy_async(s + 4, x + 2, 16); __pipeline_commit(); __pipeline_wait_prior(0);", 16, 8),
        ("__pipeline_memcpy_async(s + 1, x + 4, 16); __pipeline_commit(); __pipeline_wait_prior(0);", 16, 4),
        ("unsigned to = __cvta_generic_to_shared(s); asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16;\" "
         ":: \"r\"(to), \"l\"(x + 2));", 16, 8),
        ("using namespace nvcuda; wmma::fragment<wmma::accumulator, 16, 16, 16, float> c; "
         "wmma::fill_fragment(c, 1.0f); wmma::store_matrix_sync(s, c, 17, wmma::mem_row_major);", 16, 4),
    ],
)  # fmt: skip
def test_misaligned_access_is_a_fault_with_its_line(run, kernel, bytes_, past):
    host = "" if "extern" not in kernel else "kernel<<<1, 32, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), 0);"
    answer = execute(run, kernel, host=host)
    assert answer["error_type"] == "RuntimeError"
    (fault,) = answer["records"]["faults"]
    assert fault["kind"] == "misaligned"
    assert (fault["source"], fault["line"]) == ("cuda_source", LINE)
    assert f"must lie at a multiple of {bytes_} bytes, this one is {past} bytes past one" in fault["message"]
    assert f"(line {LINE} of cuda_source)" in fault["message"]
    assert "0x" not in answer["error"]


@pytest.mark.parametrize(
    "kernel",
    [
        "reinterpret_cast<float4*>(y)[t] = reinterpret_cast<const float4*>(x)[t];",
        "if (t % 4 == 0) reinterpret_cast<float4*>(y + t)[0] = reinterpret_cast<const float4*>(x + t)[0];",
        "float3 v = reinterpret_cast<const float3*>(x + 1)[t]; y[t] = v.x + v.z;",
        "const float* p = x + 102; if (reinterpret_cast<size_t>(p) % 16 == 0) y[0] = ((const float4*)p)->x;",
        "auto* p = reinterpret_cast<const float4*>(x + 2); y[t] = reinterpret_cast<const float*>(p)[t];",
        "half2 h = reinterpret_cast<const half2*>(x + 1)[t]; y[t] = __half2float(h.y);",
        "float v[4]; memcpy(v, x + 1, 16); y[t] = v[3];",
        "y[t] = reinterpret_cast<const int*>(x + 1)[t] + __ldg(reinterpret_cast<const float2*>(x + 2)).x;",
        "__pipeline_memcpy_async(s + t, x + 1 + t, 4); __pipeline_commit(); __pipeline_wait_prior(0);",
        "float a[8]; a[t % 8] = x[t]; reinterpret_cast<float2*>(y + 2)[t] = make_float2(a[t % 8], 0.0f);",
    ],
)
def test_accesses_that_a_device_allows_pass(run, kernel):
    answer = execute(run, kernel)
    assert (answer["error"], answer["records"]["faults"]) == ("", [])


def test_misaligned_access_is_found_with_the_full_headers_too(run):
    kernel = "y[t] = reinterpret_cast<const float4*>(x + 2)[0].x;"
    answer = execute(run, kernel, **FULL)
    assert [fault["kind"] for fault in answer["records"]["faults"]] == ["misaligned"]
    host = (
        "auto stream = at::cuda::getCurrentCUDAStream(); x.record_stream(stream); at::Stream other = stream.unwrap();"
    )
    host += " TORCH_CHECK(isFloatingType(x.scalar_type()) && other.id() == 0 && at::cuda::ATenCeilDiv(5, 2) == 3);"
    host += " auto rows = x.packed_accessor32<float, 1, torch::RestrictPtrTraits>();"
    names = ("c10/cuda/CUDAStream.h", "ATen/cuda/CUDAApplyUtils.cuh", "ATen/cuda/DeviceUtils.cuh")
    includes = "\n".join([FULL["includes"], *(f"#include <{name}>" for name in names)])
    given = {"includes": includes, "host": f"{FULL['host']} {host}"}
    kernel = kernel.replace("x + 2", "x + 4") + " y[t] = WARP_SHFL_XOR(y[t], 1);"
    assert execute(run, kernel, **given)["error"] == ""


def test_tensors_are_aligned_for_vectors_and_views_are_where_they_are(run):
    kernel = "y[t] = reinterpret_cast<const float4*>(x)[0].x;"
    assert execute(run, kernel)["value"][1] == 0
    assert execute(run, kernel, argument="x[4:]")["error"] == ""
    (fault,) = execute(run, kernel, argument="x[1:]")["records"]["faults"]
    assert "this one is 4 bytes past one" in fault["message"]


def test_host_code_may_read_unaligned_memory(run):
    host = "char bytes[16] = {0}; int value = *reinterpret_cast<int*>(bytes + 1); TORCH_CHECK(value == 0);"
    assert execute(run, "y[t] = x[t];", host=host)["error"] == ""
