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
  void synchronize() const { cudaStreamSynchronize(stream_); }
  bool query() const { return cudaStreamQuery(stream_) == cudaSuccess; }

 private:
  cudaStream_t stream_;
  int device_;
};

inline CUDAStream getCurrentCUDAStream(int device = -1) {
  return CUDAStream(static_cast<cudaStream_t>(torch_abi::torch_abi_current_stream(device)), device < 0 ? 0 : device);
}
inline CUDAStream getDefaultCUDAStream(int device = -1) { return CUDAStream(nullptr, device < 0 ? 0 : device); }
inline int current_device() {
  int device = 0;
  cudaGetDevice(&device);
  return device;
}
inline int device_count() {
  int count = 0;
  cudaGetDeviceCount(&count);
  return count;
}
inline void set_device(int device) { cudaSetDevice(device); }
inline void device_synchronize() { cudaDeviceSynchronize(); }

// Makes a device current for a scope.
class CUDAGuard {
 public:
  explicit CUDAGuard(int device) : previous_(current_device()) { set_index(device); }
  explicit CUDAGuard(Device device) : previous_(current_device()) { set_index(device.index()); }
  CUDAGuard(const CUDAGuard&) = delete;
  ~CUDAGuard() { cudaSetDevice(previous_); }
  void set_index(int device) {
    if (device >= 0) {
      cudaSetDevice(device);
    }
  }
  void set_device(Device device) { set_index(device.index()); }

 private:
  int previous_;
};

class OptionalCUDAGuard {
 public:
  OptionalCUDAGuard() : previous_(current_device()) {}
  explicit OptionalCUDAGuard(int device) : OptionalCUDAGuard() { set_index(device); }
  explicit OptionalCUDAGuard(Device device) : OptionalCUDAGuard() { set_index(device.index()); }
  explicit OptionalCUDAGuard(std::optional<Device> device) : OptionalCUDAGuard() {
    if (device) {
      set_index(device->index());
    }
  }
  OptionalCUDAGuard(const OptionalCUDAGuard&) = delete;
  ~OptionalCUDAGuard() { cudaSetDevice(previous_); }
  void set_index(int device) {
    if (device >= 0) {
      cudaSetDevice(device);
    }
  }
  void set_device(Device device) { set_index(device.index()); }

 private:
  int previous_;
};

}  // namespace c10::cuda

namespace at {
inline std::optional<Device> device_of(const Tensor& tensor) {
  return tensor.defined() ? std::optional<Device>(tensor.device()) : std::nullopt;
}
}  // namespace at

namespace at::cuda {
using namespace c10::cuda;
inline cudaDeviceProp* getDeviceProperties(int device) {
  static cudaDeviceProp properties;
  cudaGetDeviceProperties(&properties, device < 0 ? 0 : device);
  return &properties;
}
inline cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(current_device()); }
inline int warp_size() { return 32; }
template <class T>
constexpr T ATenCeilDiv(T a, T b) {
  return (a + b - 1) / b;
}
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
    TORCH_CHECK(torch_abi_error_ == cudaSuccess, "CUDA error: ", cudaGetErrorString(torch_abi_error_)); \
  } while (0)
#define C10_CUDA_CHECK_WARN(expression) ((void)(expression))
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define AT_CUDA_CHECK(expression) C10_CUDA_CHECK(expression)
#define CUDA_KERNEL_LOOP_TYPE(i, n, index_type)                                             \
  for (index_type i = static_cast<index_type>(blockIdx.x) * blockDim.x + threadIdx.x; i < (n); \
       i += static_cast<index_type>(blockDim.x) * gridDim.x)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)
#define CUDA_1D_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)
#define C10_LAUNCH_BOUNDS_0 __launch_bounds__(256, 4)
#define C10_LAUNCH_BOUNDS_1(threads) __launch_bounds__(threads)
#define C10_LAUNCH_BOUNDS_2(threads, blocks) __launch_bounds__(threads, blocks)
