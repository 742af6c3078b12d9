// Streams, guards and errors of CUDA; see torch_abi/cuda.h.
#include <torch_abi/cuda.h>

#include <mutex>

namespace c10::cuda {

void CUDAStream::synchronize() const { cudaStreamSynchronize(stream_); }
bool CUDAStream::query() const { return cudaStreamQuery(stream_) == cudaSuccess; }

CUDAStream getCurrentCUDAStream(int device) {
  return CUDAStream(static_cast<cudaStream_t>(torch_abi::torch_abi_current_stream(device)), device < 0 ? 0 : device);
}
CUDAStream getDefaultCUDAStream(int device) { return CUDAStream(nullptr, device < 0 ? 0 : device); }

// As PyTorch's: 32 streams per priority, made when first asked for, handed out in turn and never destroyed. On the heap:
// the next stream's index is not state of the candidate.
CUDAStream getStreamFromPool(int priority, int device) {
  constexpr unsigned streams = 32;
  struct Pool {
    std::mutex mutex;
    cudaStream_t made[streams] = {};
    unsigned next = 0;
  };
  static Pool* const pools = new Pool[2];
  Pool& pool = pools[priority < 0];
  const std::lock_guard<std::mutex> lock(pool.mutex);
  cudaStream_t& stream = pool.made[pool.next++ % streams];
  if (stream == nullptr) {
    int lowest = 0, highest = 0;
    cudaDeviceGetStreamPriorityRange(&lowest, &highest);
    cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority < 0 ? highest : 0);
  }
  return CUDAStream(stream, device < 0 ? 0 : device);
}
CUDAStream getStreamFromPool(bool high_priority, int device) { return getStreamFromPool(high_priority ? -1 : 0, device); }
int current_device() {
  int device = 0;
  cudaGetDevice(&device);
  return device;
}
int device_count() {
  int count = 0;
  cudaGetDeviceCount(&count);
  return count;
}
void set_device(int device) { cudaSetDevice(device); }
void device_synchronize() { cudaDeviceSynchronize(); }

CUDAGuard::CUDAGuard(int device) : previous_(current_device()) { set_index(device); }
CUDAGuard::CUDAGuard(Device device) : CUDAGuard(device.index()) {}
CUDAGuard::~CUDAGuard() { cudaSetDevice(previous_); }
void CUDAGuard::set_index(int device) {
  if (device >= 0) {
    cudaSetDevice(device);
  }
}
void CUDAGuard::set_device(Device device) { set_index(device.index()); }

OptionalCUDAGuard::OptionalCUDAGuard() : previous_(current_device()) {}
OptionalCUDAGuard::OptionalCUDAGuard(int device) : OptionalCUDAGuard() { set_index(device); }
OptionalCUDAGuard::OptionalCUDAGuard(Device device) : OptionalCUDAGuard(device.index()) {}
OptionalCUDAGuard::OptionalCUDAGuard(std::optional<Device> device) : OptionalCUDAGuard() {
  if (device) {
    set_index(device->index());
  }
}
OptionalCUDAGuard::~OptionalCUDAGuard() { cudaSetDevice(previous_); }
void OptionalCUDAGuard::set_index(int device) {
  if (device >= 0) {
    cudaSetDevice(device);
  }
}
void OptionalCUDAGuard::set_device(Device device) { set_index(device.index()); }

void throw_cuda_error(cudaError_t error) { torch_abi::throw_error({"CUDA error: ", cudaGetErrorString(error)}); }

}  // namespace c10::cuda

namespace at {

std::optional<Device> device_of(const Tensor& tensor) {
  return tensor.defined() ? std::optional<Device>(tensor.device()) : std::nullopt;
}

namespace cuda {

cudaDeviceProp* getDeviceProperties(int device) {
  static cudaDeviceProp properties;
  cudaGetDeviceProperties(&properties, device < 0 ? 0 : device);
  return &properties;
}
cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(current_device()); }

}  // namespace cuda
}  // namespace at

namespace at::native {
bool canUse32BitIndexMath(const TensorBase& x, int64_t most) {
  int64_t last = 0;
  for (int64_t d = 0; d < x.dim(); d++) {
    last += (x.size(d) - 1) * x.stride(d);
  }
  return x.numel() <= most && last <= most;
}
}  // namespace at::native
