// Linked into every candidate with `--wrap`: each kernel launch passes here first, to be recorded or, in a replay with
// null kernels, to be left out. The runtime is not known to tell a kernel's name, so all are called "kernel".
#include <musa_runtime.h>

#include "launch_records.h"

extern "C" {
musaError_t __real_musaLaunchKernel(const void*, dim3, dim3, void**, size_t, musaStream_t);
musaError_t __real_musaLaunchCooperativeKernel(const void*, dim3, dim3, void**, size_t, musaStream_t);
}

namespace {

using Launch = musaError_t (*)(const void*, dim3, dim3, void**, size_t, musaStream_t);

musaError_t launch(Launch real, const void* function, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                   musaStream_t stream) {
  const musaError_t error = g_null_kernels ? musaSuccess : real(function, grid, block, arguments, shared_bytes, stream);
  record_launch("kernel", grid, block, shared_bytes, static_cast<int>(error));
  return error;
}

}  // namespace

extern "C" {

musaError_t __wrap_musaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                                    musaStream_t stream) {
  return launch(__real_musaLaunchKernel, function, grid, block, arguments, shared_bytes, stream);
}

musaError_t __wrap_musaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                               size_t shared_bytes, musaStream_t stream) {
  return launch(__real_musaLaunchCooperativeKernel, function, grid, block, arguments, shared_bytes, stream);
}
}
