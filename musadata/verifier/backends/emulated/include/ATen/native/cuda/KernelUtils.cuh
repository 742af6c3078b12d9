// PyTorch's own where its headers are, or else what kernels of others take from it.
#pragma once
#include <ATen/cuda/Atomic.cuh>
#if __has_include_next(<ATen/native/cuda/KernelUtils.cuh>)
#include_next <ATen/native/cuda/KernelUtils.cuh>
#else

namespace at::native {
template <class T, class Index>
__device__ inline void fastAtomicAdd(T* tensor, Index index, const Index numel, T value, bool fast_atomics) {
  gpuAtomicAddNoReturn(tensor + index, value);
}
}  // namespace at::native
#endif
