// With PyTorch's own headers: what its CUDA headers would add, without the CUDA libraries behind them.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <ATen/AccumulateType.h>
#include <ATen/OpMathType.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Stream.h>
#include <torch/extension.h>

namespace at {
#ifndef __CUDACC__  // PyTorch has it for CUDA's compiler alone
template <typename T>
struct RestrictPtrTraits {
  typedef T* __restrict__ PtrType;
};
#endif
}  // namespace at

namespace c10::cuda {

class CUDAStream {
 public:
  operator cudaStream_t() const { return nullptr; }
  operator Stream() const { return unwrap(); }
  cudaStream_t stream() const { return nullptr; }
  Stream unwrap() const { return Stream(Stream::DEFAULT, device()); }
  StreamId id() const { return 0; }
  DeviceIndex device_index() const { return 0; }
  Device device() const { return Device(kCUDA, 0); }
  void synchronize() const {}
  bool query() const { return true; }
};
inline CUDAStream getCurrentCUDAStream(DeviceIndex = -1) { return {}; }
inline CUDAStream getDefaultCUDAStream(DeviceIndex = -1) { return {}; }
inline CUDAStream getStreamFromPool(bool = false, DeviceIndex = -1) { return {}; }
inline void setCurrentCUDAStream(CUDAStream) {}
inline DeviceIndex current_device() { return 0; }
inline DeviceIndex device_count() { return 1; }
inline void set_device(DeviceIndex) {}
inline void MaybeSetDevice(DeviceIndex) {}
inline void device_synchronize() {}

// There is one device: guards have nothing to change.
template <int unique>
class NoGuard {
 public:
  template <class... Anything>
  explicit NoGuard(Anything&&...) {}
  template <class Anything>
  void set_device(Anything&&) {}
  template <class Anything>
  void set_index(Anything&&) {}
};
using CUDAGuard = NoGuard<0>;
using OptionalCUDAGuard = NoGuard<1>;
using CUDAStreamGuard = NoGuard<2>;
using OptionalCUDAStreamGuard = NoGuard<3>;

}  // namespace c10::cuda

namespace c10::cuda::CUDACachingAllocator {
inline void* raw_alloc(size_t bytes) {
  void* memory = nullptr;
  return cudaMalloc(&memory, bytes) == cudaSuccess ? memory : nullptr;
}
inline void* raw_alloc_with_stream(size_t bytes, cudaStream_t) { return raw_alloc(bytes); }
inline void raw_delete(void* memory) { cudaFree(memory); }
inline void emptyCache() {}
}  // namespace c10::cuda::CUDACachingAllocator

namespace at::cuda {
using namespace c10::cuda;
inline cudaDeviceProp* getDeviceProperties(DeviceIndex) {
  static cudaDeviceProp properties;
  cudaGetDeviceProperties(&properties, 0);
  return &properties;
}
inline cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(0); }
inline int warp_size() { return 32; }
}  // namespace at::cuda

#define C10_CUDA_CHECK(expression)                                                                   \
  do {                                                                                               \
    const cudaError_t emulator_error_ = (expression);                                                \
    TORCH_CHECK(emulator_error_ == cudaSuccess, "CUDA error: ", cudaGetErrorString(emulator_error_)); \
  } while (0)
#define C10_CUDA_CHECK_WARN(expression) ((void)(expression))
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define AT_CUDA_CHECK(expression) C10_CUDA_CHECK(expression)
#ifndef C10_LAUNCH_BOUNDS_0
#define C10_LAUNCH_BOUNDS_0 __launch_bounds__(256, 4)
#define C10_LAUNCH_BOUNDS_1(threads) __launch_bounds__(threads)
#define C10_LAUNCH_BOUNDS_2(threads, blocks) __launch_bounds__(threads, blocks)
#endif
#define CUDA_KERNEL_LOOP_TYPE(i, n, index_type)                                                \
  for (index_type i = static_cast<index_type>(blockIdx.x) * blockDim.x + threadIdx.x; i < (n); \
       i += static_cast<index_type>(blockDim.x) * gridDim.x)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)
#define CUDA_1D_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)
#ifndef CUDA_KERNEL_ASSERT
#define CUDA_KERNEL_ASSERT(condition) assert(condition)
#endif
