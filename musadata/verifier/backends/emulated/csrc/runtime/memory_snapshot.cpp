// Snapshots of the device's memory and of the candidates' own variables. A program that is called again with the same
// inputs, in the same order of threads, must leave both as they were; otherwise it knows how often it was called.
#include "memory_snapshot.h"

#include <link.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "memory.h"
#include "shared_memory.h"

namespace emulator {
namespace {

constexpr size_t kMostCopied = size_t{256} << 20;  // bytes in all; what exceeds them is not compared

struct Copy {
  char* base;
  uint64_t serial;  // of the block; 0 for variables
  std::vector<char> content;
};

std::vector<Copy> g_snapshot;
size_t g_left = 0;

void copy(char* base, size_t bytes, uint64_t serial) {
  const size_t count = std::min(bytes, g_left);
  g_left -= count;
  g_snapshot.push_back({base, serial, std::vector<char>(base, base + count)});
}

// The writable segments of every candidate's library, and its variables of this thread.
int copy_variables(dl_phdr_info* library, size_t, void*) {
  const std::string name = library->dlpi_name == nullptr ? "" : library->dlpi_name;
  const std::string ending = "/candidate.so";
  if (name.size() < ending.size() || name.compare(name.size() - ending.size(), ending.size(), ending) != 0) {
    return 0;
  }
  for (int i = 0; i < library->dlpi_phnum; i++) {
    const auto& part = library->dlpi_phdr[i];
    if (part.p_type == PT_LOAD && (part.p_flags & PF_W) != 0) {
      copy(reinterpret_cast<char*>(library->dlpi_addr + part.p_vaddr), part.p_memsz, 0);
    } else if (part.p_type == PT_TLS && library->dlpi_tls_data != nullptr) {
      copy(static_cast<char*>(library->dlpi_tls_data), part.p_memsz, 0);
    }
  }
  return 0;
}

bool is_device_address(const char* word) {
  const void* address;
  BlockRange range;
  memcpy(&address, word, sizeof address);
  return find_block(address, &range) == Lookup::kInside;
}

// Addresses of a call's own tensors differ from call to call, and the emulator stores places of shared memory.
bool is_irrelevant(const char* before, const char* now) {
  return (is_device_address(before) && is_device_address(now)) || is_shared_slot(now);
}

bool has_changed(const Copy& copy) {
  const size_t bytes = copy.content.size();
  for (size_t at = 0; at < bytes; at += sizeof(void*)) {
    const size_t count = std::min(sizeof(void*), bytes - at);
    const char *before = copy.content.data() + at, *now = copy.base + at;
    if (memcmp(before, now, count) != 0 && (count < sizeof(void*) || !is_irrelevant(before, now))) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool memory_changed() {
  const Uncovered uncovered;
  return std::any_of(g_snapshot.begin(), g_snapshot.end(), [](const Copy& copy) {
    return (copy.serial == 0 || block_serial_at(copy.base) == copy.serial) && has_changed(copy);
  });
}

void snapshot_memory() {
  const Uncovered uncovered;
  g_snapshot.clear();
  g_left = kMostCopied;
  dl_iterate_phdr(&copy_variables, nullptr);
  for_each_block(&copy);
}

}  // namespace emulator

extern "C" {
void musadata_snapshot_memory() { emulator::snapshot_memory(); }
int musadata_memory_changed() { return emulator::memory_changed(); }
}
