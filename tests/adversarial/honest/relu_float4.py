# task: relu
# style: float4 loads and stores with a scalar tail
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda_src = r'''
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <c10/cuda/CUDAException.h>
#include <cstdint>

__device__ __forceinline__ float relu1(float v) { return (v < 0.f) ? 0.f : v; }

__global__ void relu_vec4(const float4* __restrict__ src, float4* __restrict__ dst, int64_t n_vec,
                          const float* __restrict__ src_tail, float* __restrict__ dst_tail, int tail) {
    const int64_t tid = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (tid < n_vec) {
        float4 v = src[tid];
        v.x = relu1(v.x);
        v.y = relu1(v.y);
        v.z = relu1(v.z);
        v.w = relu1(v.w);
        dst[tid] = v;
    }
    if (blockIdx.x == 0 && threadIdx.x < tail) {
        dst_tail[threadIdx.x] = relu1(src_tail[threadIdx.x]);
    }
}

at::Tensor relu_forward(const at::Tensor& x_in) {
    at::Tensor x = x_in.contiguous();
    TORCH_CHECK(x.scalar_type() == at::kFloat, "float32 expected, got ", x.scalar_type());
    at::Tensor y = at::empty_like(x);
    const int64_t n = x.numel();
    const int64_t n_vec = n / 4;
    const int tail = static_cast<int>(n % 4);
    const int threads = 128;
    const int64_t blocks = std::max<int64_t>(1, (n_vec + threads - 1) / threads);
    const float* src = x.data_ptr<float>();
    float* dst = y.data_ptr<float>();
    relu_vec4<<<blocks, threads>>>(reinterpret_cast<const float4*>(src), reinterpret_cast<float4*>(dst), n_vec,
                                   src + n_vec * 4, dst + n_vec * 4, tail);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
'''
ext = load_inline('relu_vec', 'at::Tensor relu_forward(const at::Tensor& x_in);', cuda_src, functions=['relu_forward'],
                  extra_cuda_cflags=['-O3', '--use_fast_math'])


class ModelNew(nn.Module):
    def forward(self, x):
        # a view that starts in the middle of a vector would not be aligned for float4
        x = x.contiguous() if x.data_ptr() % 16 == 0 else x.clone()
        return ext.relu_forward(x)
