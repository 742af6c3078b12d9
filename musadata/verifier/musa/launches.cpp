// Linked into every candidate with `--wrap`: each kernel launch passes here first, to be recorded, or, in a ghost
// replay, to be left out. The runtime is not known to tell a kernel's name, so all are called "kernel".
#include <musa_runtime.h>

#include <cstdio>
#include <map>
#include <mutex>
#include <string>

extern "C" {
musaError_t __real_musaLaunchKernel(const void*, dim3, dim3, void**, size_t, musaStream_t);
musaError_t __real_musaLaunchCooperativeKernel(const void*, dim3, dim3, void**, size_t, musaStream_t);
}

namespace {

using Launch = musaError_t (*)(const void*, dim3, dim3, void**, size_t, musaStream_t);

std::mutex g_mutex;
std::map<std::string, long> g_launches;  // one line per geometry and error
bool g_ghost = false;

musaError_t launch(Launch real, const void* function, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                   musaStream_t stream) {
  const musaError_t error = g_ghost ? musaSuccess : real(function, grid, block, arguments, shared_bytes, stream);
  char line[160];
  std::snprintf(line, sizeof line, "kernel\t%u\t%u\t%u\t%u\t%u\t%u\t%zu\t%d", grid.x, grid.y, grid.z, block.x, block.y,
                block.z, shared_bytes, static_cast<int>(error));
  std::lock_guard<std::mutex> lock(g_mutex);
  ++g_launches[line];
  return error;
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

musaError_t __wrap_musaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                                    musaStream_t stream) {
  return launch(__real_musaLaunchKernel, function, grid, block, arguments, shared_bytes, stream);
}

musaError_t __wrap_musaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                               size_t shared_bytes, musaStream_t stream) {
  return launch(__real_musaLaunchCooperativeKernel, function, grid, block, arguments, shared_bytes, stream);
}
}
