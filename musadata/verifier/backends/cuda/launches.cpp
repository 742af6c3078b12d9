// Linked into every candidate with `--wrap`: each kernel launch passes here first, to be recorded or, in a replay with
// null kernels, to be left out.
#include <cuda_runtime.h>
#include <cxxabi.h>

#include <cstdlib>
#include <string>

#include "launch_records.h"

extern "C" {
// What <<<>>> becomes from CUDA 13 on; before that it is cudaLaunchKernel.
cudaError_t __real___cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t) __attribute__((weak));
cudaError_t __real_cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t);
cudaError_t __real_cudaLaunchCooperativeKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t);
cudaError_t __real_cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void*, void**);
cudaError_t cudaFuncGetName(const char**, const void*) __attribute__((weak));
}

namespace {

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
  record_launch(kernel_name(function), grid, block, shared_bytes, static_cast<int>(error));
}

}  // namespace

extern "C" {

cudaError_t __wrap___cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                      size_t shared_bytes, cudaStream_t stream) {
  const cudaError_t error =
      g_null_kernels ? cudaSuccess : __real___cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
  record(reinterpret_cast<const void*>(kernel), grid, block, shared_bytes, error);
  return error;
}

cudaError_t __wrap_cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                                    cudaStream_t stream) {
  const cudaError_t error =
      g_null_kernels ? cudaSuccess : __real_cudaLaunchKernel(function, grid, block, arguments, shared_bytes, stream);
  record(function, grid, block, shared_bytes, error);
  return error;
}

cudaError_t __wrap_cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                               size_t shared_bytes, cudaStream_t stream) {
  const cudaError_t error = g_null_kernels ? cudaSuccess
                                    : __real_cudaLaunchCooperativeKernel(function, grid, block, arguments, shared_bytes,
                                                                         stream);
  record(function, grid, block, shared_bytes, error);
  return error;
}

cudaError_t __wrap_cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  const cudaError_t error = g_null_kernels ? cudaSuccess : __real_cudaLaunchKernelExC(config, function, arguments);
  record(function, config->gridDim, config->blockDim, config->dynamicSmemBytes, error);
  return error;
}
}
