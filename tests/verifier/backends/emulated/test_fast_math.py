"""Fast functions err as on a device: within CUDA's bounds, and more the larger the argument is."""

import pytest
import torch

SOURCE = """
import torch
from torch.utils.cpp_extension import load_inline

cuda = r'''
#include <torch/extension.h>
__global__ void apply(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float s, c;
  __sincosf(x[i], &s, &c);
  y[i] = __sinf(x[i]), y[n + i] = __cosf(x[i]), y[2 * n + i] = __expf(x[i]), y[3 * n + i] = __logf(fabsf(x[i]));
  y[4 * n + i] = __powf(fabsf(x[i]), 2.5f), y[5 * n + i] = s - y[i] + c - y[n + i];
}
torch::Tensor go(torch::Tensor x) {
  auto y = torch::empty({6, x.size(0)}, x.options());
  apply<<<(x.size(0) + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(0));
  return y;
}
'''
ext = load_inline(name="fast", cpp_sources="torch::Tensor go(torch::Tensor x);", cuda_sources=cuda, functions=["go"])

def answer():
    return ext.go(torch.linspace(-80, 80, 1601, device="cuda")).tolist()
"""


@pytest.fixture(scope="module")
def found(run):
    answer = run(SOURCE)
    assert answer["error"] == "", answer["error"]
    return torch.tensor(answer["value"], dtype=torch.float64), torch.linspace(-80, 80, 1601).double()


def test_sine_and_cosine_are_near_in_one_turn_and_less_so_beyond(found):
    values, x = found
    for got, right in ((values[0], x.sin()), (values[1], x.cos())):
        error = (got - right).abs()
        assert error[x.abs() < 3.1416].max() < 2**-21.19  # "for x in [-π, π]"
        assert 1e-6 < error.max() < 4e-5
    assert not values[5].any()


def test_powers_are_within_the_bounds_of_the_guide(found):
    values, x = found
    error = (values[2] / x.exp() - 1).abs() / 2**-24
    assert bool((error <= 2 * (2 + (1.173 * x).abs().floor())).all()) and error.max() > 4
    assert ((values[3] - x.abs().log()).abs() < 2**-21.41 + 3 * 2**-24 * x.abs().log().abs())[x != 0].all()
    torch.testing.assert_close(values[4], x.abs() ** 2.5, rtol=1e-5, atol=0.0)
