"""Numbers of eight bits are PyTorch's, value for value, and saturate where that is asked for."""

import pytest
import torch

SOURCE = """
import torch
from torch.utils.cpp_extension import load_inline

cuda = r'''
#include <torch/extension.h>
#include <cuda_fp8.h>
__global__ void both(const float* x, int* y, int n, __nv_saturation_t saturate) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = __nv_cvt_float_to_fp8(x[i], saturate, __NV_E4M3);
  y[n + i] = __nv_cvt_float2_to_fp8x2(make_float2(0, x[i]), saturate, __NV_E5M2) >> 8;
}
__global__ void widen(float* y) {
  const int i = threadIdx.x;
  y[i] = __half2float(__half(__nv_cvt_fp8_to_halfraw(i, __NV_E4M3)));
  __nv_fp8_e5m2 small;
  small.__x = i;
  y[256 + i] = static_cast<float>(small);
  const float4 four = static_cast<float4>(__nv_fp8x4_e4m3(make_float4(1, -2, 3, y[i])));
  y[512 + i] = four.x + four.y + four.z + four.w;
}
torch::Tensor narrow(torch::Tensor x, bool saturate) {
  const int n = x.size(0);
  auto y = torch::empty({2, n}, x.options().dtype(torch::kInt));
  both<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<int>(), n, saturate ? __NV_SATFINITE : __NV_NOSAT);
  return y;
}
torch::Tensor all(torch::Tensor x) {
  auto y = torch::empty({3, 256}, x.options());
  widen<<<1, 256>>>(y.data_ptr<float>());
  return y;
}
'''
cpp = "torch::Tensor narrow(torch::Tensor x, bool saturate); torch::Tensor all(torch::Tensor x);"
ext = load_inline(name="fp8", cpp_sources=cpp, cuda_sources=cuda, functions=["narrow", "all"])
x = torch.tensor(VALUES, device="cuda")

def answer():
    return [ext.narrow(x, False).tolist(), ext.narrow(x, True).tolist(), ext.all(x).tolist()]
"""
KINDS = torch.float8_e4m3fn, torch.float8_e5m2


def _values() -> torch.Tensor:
    """Every number of either kind, what is halfway between two, and others."""
    numbers = torch.cat([torch.arange(256, dtype=torch.uint8).view(kind).float() for kind in KINDS])
    numbers = numbers[numbers.isfinite()].unique()
    random = torch.randn(500, generator=torch.Generator().manual_seed(0))
    others = torch.cat([random, random * 1e-3, random * 1e-5, random * 300, random * 40000])
    return torch.cat([numbers, (numbers[1:] + numbers[:-1]) / 2, others, torch.tensor([1e30, -1e30, 464, 465, 61440])])


@pytest.fixture(scope="module")
def found(run):
    answer = run(SOURCE.replace("VALUES", repr(_values().tolist())))
    assert answer["error"] == "", answer["error"]
    return answer["value"]


def _as_numbers(bits, kind) -> torch.Tensor:
    return torch.tensor(bits, dtype=torch.uint8).view(kind).float()


@pytest.mark.parametrize(("which", "most"), [(0, 464), (1, float("inf"))])
def test_narrowing_rounds_as_pytorch_does(found, which, most):
    values, got = _values(), _as_numbers(found[0][which], KINDS[which])
    inside = values.abs() <= most
    torch.testing.assert_close(got[inside], values[inside].to(KINDS[which]).float(), rtol=0, atol=0)
    assert got[~inside].isnan().all()


@pytest.mark.parametrize("which", [0, 1])
def test_saturation_ends_at_the_largest_number(found, which):
    most = torch.finfo(KINDS[which]).max
    expected = _values().clamp(-most, most).to(KINDS[which]).float()
    torch.testing.assert_close(_as_numbers(found[1][which], KINDS[which]), expected, rtol=0, atol=0)


def test_widening_is_exact(found):
    every = torch.arange(256, dtype=torch.uint8)
    expected = [*(every.view(kind).float() for kind in KINDS), every.view(KINDS[0]).float() + 2]
    torch.testing.assert_close(torch.tensor(found[2]), torch.stack(expected), rtol=0, atol=0, equal_nan=True)
