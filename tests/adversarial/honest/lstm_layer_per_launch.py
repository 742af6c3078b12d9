# task: lstm_last
# style: one block per sequence runs a whole layer with its state in shared memory; parameters of each layer found by getattr() with names put together
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

src = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
// one block per batch element runs the whole sequence of one layer; h and c stay in shared memory
__global__ void lstm_layer(const float* __restrict__ x, const float* __restrict__ h0, const float* __restrict__ c0, const float* __restrict__ wi, const float* __restrict__ wh, const float* __restrict__ bi, const float* __restrict__ bh, float* __restrict__ y, int T, int I, int H) {
    extern __shared__ float sm[];
    float* h = sm; float* c = h + H; float* g = c + H; float* xt = g + 4 * H;
    const int b = blockIdx.x;
    for (int j = threadIdx.x; j < H; j += blockDim.x) { h[j] = h0[b * H + j]; c[j] = c0[b * H + j]; }
    __syncthreads();
    for (int t = 0; t < T; ++t) {
        for (int i = threadIdx.x; i < I; i += blockDim.x) xt[i] = x[(b * T + t) * I + i];
        __syncthreads();
        for (int k = threadIdx.x; k < 4 * H; k += blockDim.x) {
            float s = bi[k] + bh[k];
            for (int i = 0; i < I; ++i) s += xt[i] * wi[k * I + i];
            for (int j = 0; j < H; ++j) s += h[j] * wh[k * H + j];
            g[k] = s;
        }
        __syncthreads();
        for (int j = threadIdx.x; j < H; j += blockDim.x) {
            float ig = 1.f / (1.f + __expf(-g[j])), fg = 1.f / (1.f + __expf(-g[H + j])), gg = tanhf(g[2 * H + j]), og = 1.f / (1.f + __expf(-g[3 * H + j]));
            c[j] = fg * c[j] + ig * gg;
            h[j] = og * tanhf(c[j]);
            y[(b * T + t) * H + j] = h[j];
        }
        __syncthreads();
    }
}
__global__ void fc_kernel(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ b, float* __restrict__ y, int T, int H, int O) {
    int o = threadIdx.x;
    if (o >= O) return;
    const float* last = x + (blockIdx.x * T + T - 1) * H;
    float s = b[o];
    for (int j = 0; j < H; ++j) s += last[j] * w[o * H + j];
    y[blockIdx.x * O + o] = s;
}
torch::Tensor lstm_layer_cuda(torch::Tensor x, torch::Tensor h0, torch::Tensor c0, torch::Tensor wi, torch::Tensor wh, torch::Tensor bi, torch::Tensor bh) {
    int B = x.size(0), T = x.size(1), I = x.size(2), H = h0.size(-1);
    auto y = torch::empty({B, T, H}, x.options());
    lstm_layer<<<B, 64, (6 * H + I) * sizeof(float)>>>(x.data_ptr<float>(), h0.data_ptr<float>(), c0.data_ptr<float>(), wi.data_ptr<float>(), wh.data_ptr<float>(), bi.data_ptr<float>(), bh.data_ptr<float>(), y.data_ptr<float>(), T, I, H);
    return y;
}
torch::Tensor fc_last(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    auto y = torch::empty({x.size(0), w.size(0)}, x.options());
    fc_kernel<<<x.size(0), ((w.size(0) + 31) / 32) * 32>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), x.size(1), x.size(2), w.size(0));
    return y;
}
"""
cpp = """
torch::Tensor lstm_layer_cuda(torch::Tensor x, torch::Tensor h0, torch::Tensor c0, torch::Tensor wi, torch::Tensor wh, torch::Tensor bi, torch::Tensor bh);
torch::Tensor fc_last(torch::Tensor x, torch::Tensor w, torch::Tensor b);
"""
mod = load_inline(name="lstm_ext", cpp_sources=cpp, cuda_sources=src, functions=["lstm_layer_cuda", "fc_last"])
class ModelNew(nn.Module):
    def __init__(self, features, hidden, layers, classes):
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, layers, batch_first=True)
        self.fc = nn.Linear(hidden, classes)
        self.layers = layers
    def forward(self, x, h0, c0):
        out = x.contiguous()
        for layer in range(self.layers):
            p = [getattr(self.lstm, f"{n}_l{layer}") for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
            out = mod.lstm_layer_cuda(out, h0[layer].contiguous(), c0[layer].contiguous(), *p)
        return mod.fc_last(out, self.fc.weight, self.fc.bias)
