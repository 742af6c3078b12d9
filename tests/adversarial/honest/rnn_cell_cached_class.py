# task: rnn_cell
# style: a class that builds the extension in its constructor and keeps it, parameters packed into a struct by value, scratch buffer grown lazily
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
struct Params {
    const float *x, *h, *wx, *bx, *wh, *bh;
    float* out;
    int batch, ins, hidden;
};
static_assert(sizeof(Params) < 4096, "kernel parameters");
__global__ void project(Params p, float* scratch) {
    const int o = threadIdx.x + blockIdx.x * blockDim.x, b = blockIdx.y;
    if (o >= p.hidden) return;
    float s = p.bx[o] + p.bh[o];
    for (int i = 0; i < p.ins; i++) s = __fmaf_rn(p.x[b * p.ins + i], p.wx[o * p.ins + i], s);
    scratch[b * p.hidden + o] = s;
}
__global__ void recur(Params p, const float* scratch) {
    const int o = threadIdx.x + blockIdx.x * blockDim.x, b = blockIdx.y;
    if (o >= p.hidden) return;
    float s = scratch[b * p.hidden + o];
    for (int i = 0; i < p.hidden; i++) s = __fmaf_rn(p.h[b * p.hidden + i], p.wh[o * p.hidden + i], s);
    p.out[b * p.hidden + o] = tanhf(s);
}
torch::Tensor step(torch::Tensor x, torch::Tensor h, torch::Tensor wx, torch::Tensor bx, torch::Tensor wh, torch::Tensor bh, torch::Tensor scratch) {
    auto f = [](const torch::Tensor& t) { return t.data_ptr<float>(); };
    auto out = torch::empty_like(h);
    Params p{f(x), f(h), f(wx), f(bx), f(wh), f(bh), f(out), (int)x.size(0), (int)x.size(1), (int)h.size(1)};
    dim3 grid((p.hidden + 31) / 32, p.batch);
    project<<<grid, 32>>>(p, f(scratch));
    recur<<<grid, 32>>>(p, f(scratch));
    return out;
}
"""
declaration = (
    "torch::Tensor step(torch::Tensor x, torch::Tensor h, torch::Tensor wx, torch::Tensor bx, "
    "torch::Tensor wh, torch::Tensor bh, torch::Tensor scratch);"
)


class Extension:
    _instance = None

    def __new__(cls):
        if cls._instance is None:
            cls._instance = super().__new__(cls)
            cls._instance.module = load_inline(name="rnn_step", cpp_sources=declaration, cuda_sources=source, functions=["step"])
        return cls._instance

    def step(self, *args):
        return self.module.step(*args)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.input = nn.Linear(24, 32)
        self.hidden = nn.Linear(32, 32)
        self.extension = Extension()
        self._scratch = None

    def scratch(self, like):
        if self._scratch is None or self._scratch.numel() < like.numel():
            self._scratch = torch.empty(like.numel(), device=like.device, dtype=like.dtype)
        return self._scratch

    def forward(self, x, h):
        x, h = x.contiguous(), h.contiguous()
        return self.extension.step(
            x, h, self.input.weight, self.input.bias, self.hidden.weight, self.hidden.bias, self.scratch(h)
        )
