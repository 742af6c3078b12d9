"""Casts beyond an integer's range give what a device gives: PTX's cvt saturates to 32 or 64 bits."""

from musadata.config import BackendType, VerifierConfig
from musadata.verifier import Verifier

_REFERENCE = """import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        a = torch.where(x > 0, 2147483647, torch.where(x < 0, -2147483648, 0)).int()
        return a, torch.where(x > 0, 4294967295, 0), torch.where(x > 0, 255, 0).to(torch.uint8)


def get_inputs():
    return [torch.randn(300)]


def get_init_inputs():
    return []
"""
_CANDIDATE = '''import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda = r"""
#include <torch/extension.h>
__global__ void k(const float* x, int* a, int64_t* b, unsigned char* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float v = x[i] * 1e30f;
    a[i] = (int)v;
    b[i] = static_cast<unsigned int>(v);
    c[i] = (unsigned char)v;
  }
}
std::vector<torch::Tensor> run(torch::Tensor x) {
  int n = (int)x.numel();
  auto a = torch::empty({n}, x.options().dtype(torch::kInt)), b = torch::empty({n}, x.options().dtype(torch::kLong));
  auto c = torch::empty({n}, x.options().dtype(torch::kByte));
  k<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), a.data_ptr<int>(), b.data_ptr<int64_t>(),
                              c.data_ptr<unsigned char>(), n);
  return {a, b, c};
}
"""
mod = load_inline("sat", "std::vector<torch::Tensor> run(torch::Tensor x);", cuda, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return tuple(mod.run(x.contiguous()))
'''


def test_casts_beyond_the_range_saturate():
    with Verifier(VerifierConfig(backend=BackendType.EMULATED)) as verifier:
        verdict = verifier.verify_text(_REFERENCE, _CANDIDATE)
    assert verdict.accepted, verdict.feedback
