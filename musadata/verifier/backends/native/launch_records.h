// The record of launches in a candidate's library; the same on every device. Included once in each library.
#pragma once
#include <cstdio>
#include <map>
#include <mutex>
#include <string>

namespace {

std::mutex g_mutex;
std::map<std::string, long> g_launches;  // one line per kernel, geometry and error
bool g_null_kernels = false;

template <class Extent>
void record_launch(const std::string& kernel, Extent grid, Extent block, size_t shared_bytes, int error) {
  char geometry[160];
  std::snprintf(geometry, sizeof geometry, "\t%u\t%u\t%u\t%u\t%u\t%u\t%zu\t%d", grid.x, grid.y, grid.z, block.x,
                block.y, block.z, shared_bytes, error);
  std::lock_guard<std::mutex> lock(g_mutex);
  ++g_launches[kernel + geometry];
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void musadata_set_null_kernels(int null_kernels) { g_null_kernels = null_kernels != 0; }

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
}
