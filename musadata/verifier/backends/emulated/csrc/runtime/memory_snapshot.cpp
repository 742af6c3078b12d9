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
#include "variables.h"

namespace emulator {
namespace {

constexpr size_t kMostCopied = size_t{256} << 20;  // bytes in all; what exceeds them is not compared

struct Copy {
  char* base;
  uint64_t serial;  // of the block; 0 for variables
  std::vector<char> content;
  std::string library = {};  // of variables: the file, and where in it they are
  uint64_t address = 0;
  bool is_tls = false;
};

std::vector<Copy> g_snapshot;
size_t g_left = 0;

Copy& copy(char* base, size_t bytes, uint64_t serial) {
  const size_t count = std::min(bytes, g_left);
  g_left -= count;
  g_snapshot.push_back({base, serial, std::vector<char>(base, base + count)});
  return g_snapshot.back();
}

void copy_variables_at(char* base, size_t bytes, const std::string& library, uint64_t address, bool is_tls) {
  Copy& kept = copy(base, bytes, 0);
  kept.library = library;
  kept.address = address;
  kept.is_tls = is_tls;
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
      copy_variables_at(reinterpret_cast<char*>(library->dlpi_addr + part.p_vaddr), part.p_memsz, name, part.p_vaddr,
                        false);
    } else if (part.p_type == PT_TLS && library->dlpi_tls_data != nullptr) {
      copy_variables_at(static_cast<char*>(library->dlpi_tls_data), part.p_memsz, name, 0, true);
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

std::string hexadecimal(const char* bytes, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; i++) {
    constexpr const char* kDigits = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(bytes[i]);
    text += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return text;
}

// What has changed: a variable's name, or the place in a block, and the bytes before and now. "" if nothing has.
std::string describe_change(const Copy& copy) {
  const size_t bytes = copy.content.size();
  for (size_t at = 0; at < bytes; at += sizeof(void*)) {
    const size_t count = std::min(sizeof(void*), bytes - at);
    const char *before = copy.content.data() + at, *now = copy.base + at;
    if (memcmp(before, now, count) == 0 || (count == sizeof(void*) && is_irrelevant(before, now))) {
      continue;
    }
    const size_t first = std::mismatch(before, before + count, now).first - before;
    const std::string what =
        copy.serial == 0 ? variable_at(copy.library, copy.address + at + first, copy.is_tls)
                         : "byte " + std::to_string(at + first) + " of " + std::to_string(bytes) + " in device memory";
    if (!what.empty()) {
      return what + "\t" + hexadecimal(before, count) + "\t" + hexadecimal(now, count);
    }
  }
  return "";
}

}  // namespace

std::string changed_memory() {
  const Uncovered uncovered;
  for (const Copy& copy : g_snapshot) {
    if (copy.serial == 0 || block_serial_at(copy.base) == copy.serial) {
      const std::string change = describe_change(copy);
      if (!change.empty()) {
        return change;
      }
    }
  }
  return "";
}

void snapshot_memory() {
  const Uncovered uncovered;
  g_snapshot.clear();
  g_left = kMostCopied;
  dl_iterate_phdr(&copy_variables, nullptr);
  for_each_block([](char* base, size_t bytes, uint64_t serial) { copy(base, bytes, serial); });
}

}  // namespace emulator

extern "C" {
void musadata_snapshot_memory() { emulator::snapshot_memory(); }
// A line: what has changed, its bytes before, its bytes now; "" if nothing has. Valid until the next call.
const char* musadata_changed_memory() {
  static std::string text;
  text = emulator::changed_memory();
  return text.c_str();
}
}
