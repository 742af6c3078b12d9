// c10::cuda and at::cuda: the current stream, guards, error checks.
#pragma once
#include <torch_abi/tensor.h>

namespace c10::cuda {

class CUDAStream {
 public:
  explicit CUDAStream(cudaStream_t stream = nullptr, int device = 0) : stream_(stream), device_(device) {}
  operator cudaStream_t() const { return stream_; }
  cudaStream_t stream() const { return stream_; }
  DeviceIndex device_index() const { return static_cast<DeviceIndex>(device_); }
  Device device() const { return Device(kCUDA, device_); }
  void synchronize() const;
  bool query() const;

 private:
  cudaStream_t stream_;
  int device_;
};

CUDAStream getCurrentCUDAStream(int device = -1);
CUDAStream getDefaultCUDAStream(int device = -1);
CUDAStream getStreamFromPool(bool high_priority = false, int device = -1);
CUDAStream getStreamFromPool(int priority, int device = -1);
int current_device();
int device_count();
void set_device(int device);
inline void MaybeSetDevice(int device) { set_device(device); }
void device_synchronize();

// Makes a device current for a scope.
class CUDAGuard {
 public:
  explicit CUDAGuard(int device);
  explicit CUDAGuard(Device device);
  CUDAGuard(const CUDAGuard&) = delete;
  ~CUDAGuard();
  void set_index(int device);
  void set_device(Device device);

 private:
  int previous_;
};

class OptionalCUDAGuard {
 public:
  OptionalCUDAGuard();
  explicit OptionalCUDAGuard(int device);
  explicit OptionalCUDAGuard(Device device);
  explicit OptionalCUDAGuard(std::optional<Device> device);
  OptionalCUDAGuard(const OptionalCUDAGuard&) = delete;
  ~OptionalCUDAGuard();
  void set_index(int device);
  void set_device(Device device);

 private:
  int previous_;
};

[[noreturn]] void throw_cuda_error(cudaError_t error);

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

namespace at {
std::optional<Device> device_of(const Tensor& tensor);
}  // namespace at

namespace at::native {
bool canUse32BitIndexMath(const TensorBase& x, int64_t most = std::numeric_limits<int32_t>::max());
}  // namespace at::native

namespace at::cuda {
using namespace c10::cuda;
cudaDeviceProp* getDeviceProperties(int device);
cudaDeviceProp* getCurrentDeviceProperties();
inline int warp_size() { return 32; }
template <class T>
constexpr T ATenCeilDiv(T a, T b) {
  return (a + b - 1) / b;
}
namespace detail {
using at::native::canUse32BitIndexMath;
constexpr int CUDA_NUM_THREADS = 1024;
inline int GET_BLOCKS(int64_t count, int64_t threads = CUDA_NUM_THREADS) {
  TORCH_CHECK(count > 0, "CUDA kernel launch blocks must be positive, but got N=", count);
  return static_cast<int>((count + threads - 1) / threads);
}
}  // namespace detail
}  // namespace at::cuda

namespace at {
using at::cuda::ATenCeilDiv;
template <class T>
constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}
}  // namespace at

#define C10_CUDA_CHECK(expression)                                                             \
  do {                                                                                         \
    const cudaError_t torch_abi_error_ = (expression);                                         \
    if (torch_abi_error_ != cudaSuccess) {                                                     \
      ::c10::cuda::throw_cuda_error(torch_abi_error_);                                         \
    }                                                                                          \
  } while (0)
#define C10_CUDA_CHECK_WARN(expression) ((void)(expression))
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define AT_CUDA_CHECK(expression) C10_CUDA_CHECK(expression)
#define CUDA_KERNEL_LOOP_TYPE(i, n, index_type)                                             \
  for (index_type i = static_cast<index_type>(blockIdx.x) * blockDim.x + threadIdx.x; i < (n); \
       i += static_cast<index_type>(blockDim.x) * gridDim.x)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)
#define CUDA_1D_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)
#ifndef CUDA_KERNEL_ASSERT
#define CUDA_KERNEL_ASSERT(condition) assert(condition)
#endif
#define C10_LAUNCH_BOUNDS_0 __launch_bounds__(256, 4)
#define C10_LAUNCH_BOUNDS_1(threads) __launch_bounds__(threads)
#define C10_LAUNCH_BOUNDS_2(threads, blocks) __launch_bounds__(threads, blocks)
