#include "shared_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#define EMULATOR_RUNTIME_ITSELF
#include "emulator/runtime.h"
#include "memory.h"

namespace emulator {
namespace {

constexpr size_t kArenaBytes = 256 * 1024;
constexpr size_t kRedZone = 16;
constexpr unsigned char kRedByte = 0xC5;

struct StaticVariable {
  size_t offset;
  size_t bytes;
};

char* g_static_base = nullptr;
char* g_dynamic_end = nullptr;
char* g_dynamic = nullptr;
size_t g_dynamic_bytes = 0;
size_t g_used = 0;  // bytes of the static arena, red zones included
size_t g_declared = 0;  // bytes that the kernel asked for
size_t g_most = kDefaultSharedBytes;  // static and dynamic ones together
size_t g_guard = 0;
std::vector<StaticVariable> g_variables;
std::set<const char*> g_slots;  // of all launches

void map_arena() {
  if (g_static_base != nullptr) {
    return;
  }
  g_guard = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* mapping = mmap(nullptr, 2 * kArenaBytes + 3 * g_guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    abort();
  }
  g_static_base = static_cast<char*>(mapping) + g_guard;
  char* dynamic_base = g_static_base + kArenaBytes + g_guard;
  mprotect(g_static_base, kArenaBytes, PROT_READ | PROT_WRITE);
  mprotect(dynamic_base, kArenaBytes, PROT_READ | PROT_WRITE);
  g_dynamic_end = dynamic_base + kArenaBytes;
}

void poison_variable(const StaticVariable& variable) {
  char* base = g_static_base + variable.offset;
  if (poison() >= 0) {
    memset(base, poison(), variable.bytes);
  }
  memset(base + variable.bytes, kRedByte, kRedZone);
}

}  // namespace

void begin_shared(size_t dynamic_bytes, size_t most_bytes) {
  g_most = most_bytes;
  map_arena();
  g_variables.clear();
  g_used = 0;
  g_declared = 0;
  g_dynamic_bytes = dynamic_bytes;
  g_dynamic = g_dynamic_end - (dynamic_bytes + 15) / 16 * 16;
}

void poison_shared() {
  if (poison() >= 0 && g_dynamic_bytes != 0) {
    memset(g_dynamic, poison(), static_cast<size_t>(g_dynamic_end - g_dynamic));
  }
  for (const StaticVariable& variable : g_variables) {
    poison_variable(variable);
  }
}

std::string keep_shared() {
  return std::string(g_dynamic, g_dynamic_end - g_dynamic) + std::string(g_static_base, g_used);
}

void restore_shared(const std::string& kept) {
  poison_shared();  // what other blocks have declared since
  const size_t dynamic_bytes = g_dynamic_end - g_dynamic;
  memcpy(g_dynamic, kept.data(), dynamic_bytes);
  memcpy(g_static_base, kept.data() + dynamic_bytes, kept.size() - dynamic_bytes);
}

bool red_zone_intact(size_t* bytes_of_variable) {
  for (const StaticVariable& variable : g_variables) {
    const char* zone = g_static_base + variable.offset + variable.bytes;
    for (size_t i = 0; i < kRedZone; i++) {
      if (static_cast<unsigned char>(zone[i]) != kRedByte) {
        *bytes_of_variable = variable.bytes;
        return false;
      }
    }
  }
  return true;
}

size_t static_shared_bytes() { return g_declared; }

size_t dynamic_shared_bytes() { return g_dynamic_bytes; }

bool past_dynamic_shared(const void* address, size_t* offset) {
  const char* where = static_cast<const char*>(address);
  if (g_dynamic_end == nullptr || where < g_dynamic_end || where >= g_dynamic_end + g_guard) {
    return false;
  }
  *offset = static_cast<size_t>(where - g_dynamic);
  return true;
}

bool shared_offset(const void* address, size_t* offset) {
  const char* where = static_cast<const char*>(address);
  if (g_static_base == nullptr) {
    return false;
  }
  if (where >= g_static_base && where < g_static_base + g_used) {
    *offset = static_cast<size_t>(where - g_static_base);
    return true;
  }
  if (where >= g_dynamic && where < g_dynamic_end) {
    *offset = kArenaBytes + static_cast<size_t>(where - g_dynamic);
    return true;
  }
  return false;
}

bool in_shared_arena(const void* address) {
  const char* where = static_cast<const char*>(address);
  return g_static_base != nullptr && where >= g_static_base - g_guard && where < g_dynamic_end + g_guard;
}

bool is_shared_slot(const void* address) {
  const char* where = static_cast<const char*>(address);
  auto next = g_slots.upper_bound(where);
  return next != g_slots.begin() && where < *std::prev(next) + sizeof(SharedSlot);
}

}  // namespace emulator

extern "C" {

void* musadata_place_shared(emulator::SharedSlot* slot, size_t bytes, size_t alignment) {
  using namespace emulator;
  const size_t step = std::max<size_t>(alignment, 16);
  const size_t offset = (g_used + step - 1) / step * step;
  g_declared += bytes;
  if (g_declared > kDefaultSharedBytes) {
    const std::string message = "uses too much static shared memory (" + std::to_string(g_declared) + " bytes, " +
                                std::to_string(kDefaultSharedBytes) + " max)";
    musadata_kernel_fault("shared_memory", message.c_str());
  }
  if (g_declared + g_dynamic_bytes > g_most) {
    const std::string message = "has " + std::to_string(g_declared) + " bytes of static shared memory beside " +
                                std::to_string(g_dynamic_bytes) + " of dynamic, together at most " +
                                std::to_string(g_most);
    musadata_kernel_fault("shared_memory", message.c_str());
  }
  g_used = offset + bytes + kRedZone;
  g_variables.push_back({offset, bytes});
  poison_variable(g_variables.back());
  g_slots.insert(reinterpret_cast<const char*>(slot));
  slot->address = g_static_base + offset;
  slot->launch = musadata_launch_serial;
  return slot->address;
}

void* musadata_dynamic_shared() { return emulator::g_dynamic; }

char* musadata_shared_base() { return emulator::g_static_base; }
}
