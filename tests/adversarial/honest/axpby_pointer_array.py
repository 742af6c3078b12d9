# task: axpby
# style: stages an array of pointers on the device with cudaMallocAsync, and frees it in the stream
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <vector>

__global__ void weighted_sum(float* const* inputs, const float* weights, int count, float* __restrict__ out, int64_t n) {
    const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < n; i += stride) {
        float total = 0.0f;
        for (int k = 0; k < count; ++k) total = fmaf(weights[k], __ldg(inputs[k] + i), total);
        out[i] = total;
    }
}

torch::Tensor axpby(std::vector<torch::Tensor> inputs, std::vector<double> weights) {
    auto out = torch::empty_like(inputs[0]);
    cudaStream_t stream = at::cuda::getCurrentCUDAStream();
    std::vector<float*> pointers;
    for (auto& tensor : inputs) pointers.push_back(tensor.data_ptr<float>());
    std::vector<float> factors(weights.begin(), weights.end());
    float** device_pointers;
    float* device_factors;
    cudaMallocAsync(&device_pointers, pointers.size() * sizeof(float*), stream);
    cudaMallocAsync(&device_factors, factors.size() * sizeof(float), stream);
    cudaMemcpyAsync(device_pointers, pointers.data(), pointers.size() * sizeof(float*), cudaMemcpyHostToDevice, stream);
    cudaMemcpyAsync(device_factors, factors.data(), factors.size() * sizeof(float), cudaMemcpyHostToDevice, stream);
    int device = 0, processors = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    weighted_sum<<<2 * processors, 256, 0, stream>>>(device_pointers, device_factors, static_cast<int>(pointers.size()),
                                                   out.data_ptr<float>(), out.numel());
    AT_CUDA_CHECK(cudaGetLastError());
    cudaFreeAsync(device_pointers, stream);
    cudaFreeAsync(device_factors, stream);
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("axpby", &axpby, "weighted sum of any number of tensors", pybind11::arg("inputs"), pybind11::arg("weights"));
}
"""
ext = load_inline(
    name="axpby_pointers",
    cpp_sources="",
    cuda_sources=source,
)


class ModelNew(nn.Module):
    def forward(self, x, y, alpha=1.0):
        return ext.axpby([x.contiguous(), y.contiguous()], weights=[alpha, 0.5])
