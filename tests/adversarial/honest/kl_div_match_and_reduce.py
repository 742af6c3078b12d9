# task: kl_div
# style: __reduce_add_sync-free warp tricks: __activemask, __any_sync, __syncthreads_count; float atomics into a double total
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <math_constants.h>
__global__ void kl_kernel(const float* __restrict__ x, const float* __restrict__ y, double* total, int rows, int cols) {
    const int row = blockIdx.x, lane = threadIdx.x;
    x += row * cols;
    y += row * cols;
    float mx = -CUDART_INF_F, my = -CUDART_INF_F;
    for (int c = lane; c < cols; c += 32) { mx = fmaxf(mx, x[c]); my = fmaxf(my, y[c]); }
    for (int m = 16; m > 0; m >>= 1) { mx = fmaxf(mx, __shfl_xor_sync(0xffffffff, mx, m)); my = fmaxf(my, __shfl_xor_sync(0xffffffff, my, m)); }
    double sx = 0, sy = 0;
    for (int c = lane; c < cols; c += 32) { sx += exp((double)x[c] - mx); sy += exp((double)y[c] - my); }
    for (int m = 16; m > 0; m >>= 1) { sx += __shfl_xor_sync(0xffffffff, sx, m); sy += __shfl_xor_sync(0xffffffff, sy, m); }
    const double lx = log(sx) + mx, ly = log(sy) + my;
    double loss = 0;
    for (int c = lane; c < cols; c += 32) {
        const double lp = y[c] - ly;
        loss += exp(lp) * (lp - (x[c] - lx));
    }
    for (int m = 16; m > 0; m >>= 1) loss += __shfl_xor_sync(0xffffffff, loss, m);
    if (lane == 0) atomicAdd(total, loss / rows);
}
__global__ void store(const double* total, float* out) { *out = __double2float_rn(*total); }
torch::Tensor kl(torch::Tensor x, torch::Tensor y) {
    auto total = torch::zeros({1}, x.options().dtype(torch::kDouble));
    auto out = torch::empty({}, x.options());
    kl_kernel<<<x.size(0), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), total.data_ptr<double>(), x.size(0), x.size(1));
    store<<<1, 1>>>(total.data_ptr<double>(), out.data_ptr<float>());
    return out;
}
"""
module = load_inline(name="kl_warp", cpp_sources="torch::Tensor kl(torch::Tensor x, torch::Tensor y);", cuda_sources=source, functions="kl")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.kl = module.kl

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return self.kl(x.contiguous(), y.contiguous())
