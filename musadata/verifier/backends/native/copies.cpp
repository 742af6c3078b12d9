// Linked into every candidate with `--wrap`: the bytes that its C++ copies from the device to the host, or shares with
// the host, are counted here, after the preprocessor, whatever name or direction the source uses.
#include <cuda_runtime.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

namespace {

std::atomic<size_t> g_bytes{0};
std::mutex g_mutex;
std::map<void*, size_t> g_shared;  // bytes by address: memory that host and device can read, while it is there
size_t g_shared_before = 0;

bool is_on_device(const void* address) {
  cudaPointerAttributes attributes;
  if (cudaPointerGetAttributes(&attributes, address) != cudaSuccess) {
    cudaGetLastError();  // the candidate must not see the error
    return false;
  }
  return attributes.type == cudaMemoryTypeDevice;
}

void note_copy(const void* target, const void* source, size_t bytes, cudaMemcpyKind kind) {
  if (kind == cudaMemcpyDeviceToHost || (is_on_device(source) && !is_on_device(target))) {
    g_bytes += bytes;
  }
}

// From a __device__ variable, or in three dimensions: where it comes from does not matter.
void note_target(const void* target, size_t bytes) {
  if (target != nullptr && !is_on_device(target)) {
    g_bytes += bytes;
  }
}

void note_parameters(const cudaMemcpy3DParms* copy) {
  if (copy != nullptr && copy->dstArray == nullptr) {
    note_target(copy->dstPtr.ptr, copy->extent.width * copy->extent.height * copy->extent.depth);
  }
}

cudaError_t note_shared(cudaError_t error, void** address, size_t bytes) {
  if (error == cudaSuccess) {
    std::lock_guard<std::mutex> lock(g_mutex);
    g_shared[*address] = bytes;
    g_bytes += bytes;
  }
  return error;
}

void forget_shared(void* address) {
  std::lock_guard<std::mutex> lock(g_mutex);
  g_shared.erase(address);
}

}  // namespace

// `before` runs first, `after` on what the real function returns.
#define WRAP(name, parameters, arguments, before, after) \
  cudaError_t __real_##name parameters;                  \
  cudaError_t __wrap_##name parameters {                 \
    before;                                              \
    return after(__real_##name arguments);               \
  }
#define SHARED(error) note_shared(error, address, bytes)

extern "C" {

// Bytes that were copied or allocated to be shared since the last call, and what was shared then already.
__attribute__((visibility("default"))) size_t musadata_take_host_bytes() {
  std::lock_guard<std::mutex> lock(g_mutex);
  const size_t bytes = g_bytes.exchange(0) + g_shared_before;
  g_shared_before = 0;
  for (const auto& entry : g_shared) {
    g_shared_before += entry.second;
  }
  return bytes;
}

WRAP(cudaMemcpy, (void* target, const void* source, size_t bytes, cudaMemcpyKind kind), (target, source, bytes, kind),
     note_copy(target, source, bytes, kind), )
WRAP(cudaMemcpyAsync, (void* target, const void* source, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream),
     (target, source, bytes, kind, stream), note_copy(target, source, bytes, kind), )
WRAP(cudaMemcpy2D,
     (void* target, size_t target_pitch, const void* source, size_t source_pitch, size_t width, size_t height,
      cudaMemcpyKind kind),
     (target, target_pitch, source, source_pitch, width, height, kind),
     note_copy(target, source, width * height, kind), )
WRAP(cudaMemcpy2DAsync,
     (void* target, size_t target_pitch, const void* source, size_t source_pitch, size_t width, size_t height,
      cudaMemcpyKind kind, cudaStream_t stream),
     (target, target_pitch, source, source_pitch, width, height, kind, stream),
     note_copy(target, source, width * height, kind), )
WRAP(cudaMemcpy3D, (const cudaMemcpy3DParms* copy), (copy), note_parameters(copy), )
WRAP(cudaMemcpy3DAsync, (const cudaMemcpy3DParms* copy, cudaStream_t stream), (copy, stream), note_parameters(copy), )
WRAP(cudaMemcpyFromSymbol, (void* target, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind),
     (target, symbol, bytes, offset, kind), note_target(target, bytes), )
WRAP(cudaMemcpyFromSymbolAsync,
     (void* target, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind, cudaStream_t stream),
     (target, symbol, bytes, offset, kind, stream), note_target(target, bytes), )
WRAP(cudaMallocManaged, (void** address, size_t bytes, unsigned flags), (address, bytes, flags), , SHARED)
WRAP(cudaMallocHost, (void** address, size_t bytes), (address, bytes), , SHARED)
WRAP(cudaHostAlloc, (void** address, size_t bytes, unsigned flags), (address, bytes, flags), , SHARED)
WRAP(cudaFree, (void* address), (address), forget_shared(address), )
WRAP(cudaFreeHost, (void* address), (address), forget_shared(address), )

// The driver's functions by name, which would allow copies that are not counted. Kernels only need those that describe
// tensors for the copy engine.
#define WRAP_LOOKUP(name, more_parameters, more_arguments)                                                  \
  cudaError_t __real_##name(const char*, void**, more_parameters) __attribute__((weak));                    \
  cudaError_t __wrap_##name(const char* symbol, void** function, more_parameters) {                         \
    const bool needed = std::strncmp(symbol, "cuTensorMap", std::strlen("cuTensorMap")) == 0;                \
    return needed ? __real_##name(symbol, function, more_arguments) : cudaErrorInvalidValue;              \
  }
#define COMMA ,
WRAP_LOOKUP(cudaGetDriverEntryPoint, unsigned long long flags COMMA void* status, flags COMMA status)
WRAP_LOOKUP(cudaGetDriverEntryPointByVersion, unsigned version COMMA unsigned long long flags COMMA void* status,
            version COMMA flags COMMA status)
}
