// PyTorch's atomic additions for types of which CUDA has none. A header of its own, as candidates that do not include it
// may define the same functions.
#pragma once
#include <torch/extension.h>

namespace torch_abi {
// Adds to a value of less than four bytes through the word that holds it.
template <class T, class Add>
__device__ inline T atomic_part(T* address, Add add) {
  static_assert(sizeof(T) < 4);
  const size_t offset = reinterpret_cast<size_t>(address) & 3;
  auto* word = reinterpret_cast<unsigned*>(reinterpret_cast<char*>(address) - offset);
  const unsigned shift = static_cast<unsigned>(offset) * 8;
  constexpr unsigned kMask = (1u << (8 * sizeof(T))) - 1;
  unsigned seen = *word;
  while (true) {
    unsigned bits = seen >> shift & kMask;
    T before, after;
    memcpy(&before, &bits, sizeof(T));
    after = add(before);
    bits = 0;
    memcpy(&bits, &after, sizeof(T));
    const unsigned expected = seen;
    seen = atomicCAS(word, expected, (expected & ~(kMask << shift)) | bits << shift);
    if (seen == expected) {
      return before;
    }
  }
}
}  // namespace torch_abi

#define TORCH_ABI_ATOMIC_PART(type)                                                                        \
  __device__ inline type gpuAtomicAdd(type* address, type value) {                                         \
    return torch_abi::atomic_part(address, [=](type before) { return static_cast<type>(before + value); }); \
  }                                                                                                        \
  __device__ inline void atomicAdd(type* address, type value) { gpuAtomicAdd(address, value); }
TORCH_ABI_ATOMIC_PART(uint8_t)
TORCH_ABI_ATOMIC_PART(int8_t)
TORCH_ABI_ATOMIC_PART(int16_t)
#undef TORCH_ABI_ATOMIC_PART
__device__ inline bool gpuAtomicAdd(bool* address, bool value) {
  return torch_abi::atomic_part(address, [=](bool before) { return before || value; });
}
__device__ inline void atomicAdd(bool* address, bool value) { gpuAtomicAdd(address, value); }
__device__ inline int64_t gpuAtomicAdd(int64_t* address, int64_t value) {
  return static_cast<int64_t>(::atomicAdd(reinterpret_cast<unsigned long long*>(address), value));
}
__device__ inline void atomicAdd(int64_t* address, int64_t value) { gpuAtomicAdd(address, value); }
__device__ inline at::Half gpuAtomicAdd(at::Half* address, at::Half value) {
  return ::atomicAdd(reinterpret_cast<__half*>(address), static_cast<__half>(value));
}
__device__ inline void atomicAdd(at::Half* address, at::Half value) { gpuAtomicAdd(address, value); }
__device__ inline at::BFloat16 gpuAtomicAdd(at::BFloat16* address, at::BFloat16 value) {
  return ::atomicAdd(reinterpret_cast<__nv_bfloat16*>(address), static_cast<__nv_bfloat16>(value));
}
__device__ inline void atomicAdd(at::BFloat16* address, at::BFloat16 value) { gpuAtomicAdd(address, value); }
__device__ inline int32_t gpuAtomicAdd(int32_t* address, int32_t value) { return atomicAdd(address, value); }
__device__ inline float gpuAtomicAdd(float* address, float value) { return atomicAdd(address, value); }
__device__ inline double gpuAtomicAdd(double* address, double value) { return atomicAdd(address, value); }
template <class T>
__device__ inline void gpuAtomicAddNoReturn(T* address, T value) {
  gpuAtomicAdd(address, value);
}
