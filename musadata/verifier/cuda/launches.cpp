// Linked into every candidate with `--wrap`: each kernel launch passes here first, to be recorded, or, in a ghost
// replay, to be left out.
#include <cuda_runtime.h>
#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

extern "C" {
// What <<<>>> becomes from CUDA 13 on; before that it is cudaLaunchKernel.
cudaError_t __real___cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t) __attribute__((weak));
cudaError_t __real_cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t);
cudaError_t __real_cudaLaunchCooperativeKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t);
cudaError_t __real_cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void*, void**);
cudaError_t cudaFuncGetName(const char**, const void*) __attribute__((weak));
}

namespace {

std::mutex g_mutex;
std::map<std::string, long> g_launches;  // one line per kernel, geometry and error
bool g_ghost = false;

std::string kernel_name(const void* function) {
  const char* mangled = nullptr;
  if (cudaFuncGetName == nullptr || cudaFuncGetName(&mangled, function) != cudaSuccess || mangled == nullptr) {
    return "kernel";
  }
  int status = 0;
  char* readable = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  std::string name = status == 0 ? readable : mangled;
  std::free(readable);
  if (name.rfind("void ", 0) == 0) {
    name = name.substr(5);
  }
  return name.substr(0, name.find_first_of("<("));
}

void record(const void* function, dim3 grid, dim3 block, size_t shared_bytes, cudaError_t error) {
  char geometry[160];
  std::snprintf(geometry, sizeof geometry, "\t%u\t%u\t%u\t%u\t%u\t%u\t%zu\t%d", grid.x, grid.y, grid.z, block.x,
                block.y, block.z, shared_bytes, static_cast<int>(error));
  std::lock_guard<std::mutex> lock(g_mutex);
  ++g_launches[kernel_name(function) + geometry];
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void musadata_set_ghost(int ghost) { g_ghost = ghost != 0; }

// One launch per line: name, grid, block, bytes of shared memory, error, count. Valid until the next call.
__attribute__((visibility("default"))) const char* musadata_take_launches() {
  static std::string text;
  std::lock_guard<std::mutex> lock(g_mutex);
  text.clear();
  for (const auto& entry : g_launches) {
    text += entry.first + "\t" + std::to_string(entry.second) + "\n";
  }
  g_launches.clear();
  return text.c_str();
}

cudaError_t __wrap___cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                      size_t shared_bytes, cudaStream_t stream) {
  const cudaError_t error =
      g_ghost ? cudaSuccess : __real___cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
  record(reinterpret_cast<const void*>(kernel), grid, block, shared_bytes, error);
  return error;
}

cudaError_t __wrap_cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                                    cudaStream_t stream) {
  const cudaError_t error =
      g_ghost ? cudaSuccess : __real_cudaLaunchKernel(function, grid, block, arguments, shared_bytes, stream);
  record(function, grid, block, shared_bytes, error);
  return error;
}

cudaError_t __wrap_cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                               size_t shared_bytes, cudaStream_t stream) {
  const cudaError_t error = g_ghost ? cudaSuccess
                                    : __real_cudaLaunchCooperativeKernel(function, grid, block, arguments, shared_bytes,
                                                                         stream);
  record(function, grid, block, shared_bytes, error);
  return error;
}

cudaError_t __wrap_cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  const cudaError_t error = g_ghost ? cudaSuccess : __real_cudaLaunchKernelExC(config, function, arguments);
  record(function, config->gridDim, config->blockDim, config->dynamicSmemBytes, error);
  return error;
}
}
