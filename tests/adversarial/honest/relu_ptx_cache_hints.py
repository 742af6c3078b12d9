# task: relu
# style: vector loads and stores in inline PTX, with cache hints, an offset in the address, predicated tails and a prefetch
# musa: inline PTX
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>

__device__ __forceinline__ float4 ldg_streaming(const float4* p) {
    float4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(p));
    return v;
}
__device__ __forceinline__ void stg_streaming(float4* p, float4 v) {
    asm volatile("st.global.cs.v4.f32 [%0], {%1, %2, %3, %4};" :: "l"(p), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
}
// relu that keeps NaN, as PyTorch does
__device__ __forceinline__ float relu(float a) {
    float r;
    asm("max.NaN.f32 %0, %1, 0f00000000;" : "=f"(r) : "f"(a));
    return r;
}

__global__ void __launch_bounds__(256) relu_kernel(const float* __restrict__ x, float* __restrict__ y, size_t n4, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    const float4* x4 = reinterpret_cast<const float4*>(x);
    float4* y4 = reinterpret_cast<float4*>(y);
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    for (; i < n4; i += stride) {
        if (i + stride < n4) asm volatile("prefetch.global.L2 [%0];" :: "l"(x4 + i + stride));
        float4 v = ldg_streaming(x4 + i);
        v.x = relu(v.x); v.y = relu(v.y); v.z = relu(v.z); v.w = relu(v.w);
        stg_streaming(y4 + i, v);
    }
    if (blockIdx.x == 0 && threadIdx.x < 3) {  // tail
        int ok = n4 * 4 + threadIdx.x < n;
        float value = 0.0f;
        const float* last = x + n4 * 4 + threadIdx.x - 1;
        asm volatile("{\n\t"
                     "  .reg .pred p;\n\t"
                     "  setp.ne.b32 p, %2, 0;\n\t"
                     "  @p ld.global.f32 %0, [%1+4];\n\t"
                     "}\n" : "+f"(value) : "l"(last), "r"(ok));
        value = relu(value);
        if (ok) asm volatile("st.global.f32 [%0 + 4], %1;" :: "l"(y + n4 * 4 + threadIdx.x - 1), "f"(value) : "memory");
    }
}

torch::Tensor relu_cuda(torch::Tensor x) {
    TORCH_CHECK(x.is_cuda() && x.scalar_type() == torch::kFloat32, "float32 CUDA tensor expected, got ", x.scalar_type());
    auto input = x.contiguous();
    auto output = torch::empty_like(input);
    const size_t n = input.numel();
    if (n == 0) return output;
    const bool aligned = reinterpret_cast<uintptr_t>(input.data_ptr<float>()) % 16 == 0;
    const size_t n4 = n / 4;
    TORCH_CHECK(aligned, "misaligned input");
    const int blocks = std::min<size_t>((n4 + 255) / 256 + 1, 1024);
    relu_kernel<<<blocks, 256, 0, at::cuda::getCurrentCUDAStream()>>>(input.data_ptr<float>(), output.data_ptr<float>(), n4, n);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return output;
}
"""

relu_ext = load_inline(
    name="relu_ptx_hints",
    cpp_sources="torch::Tensor relu_cuda(torch::Tensor x);",
    cuda_sources=cuda_source,
    functions=["relu_cuda"],
    extra_cuda_cflags=["-O3", "--use_fast_math"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return relu_ext.relu_cuda(x)
