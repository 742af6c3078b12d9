// Counts what kernels do, in place of the checks: a process that loads this library for all before any candidate's has
// the functions below called for every access.
#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "../runtime/faults.h"
#include "../runtime/launch.h"
#include "../runtime/memory.h"
#include "../runtime/scheduler.h"
#include "../runtime/shared_memory.h"
#include "warps.h"

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace emulator {
namespace {

struct Argument {
  uintptr_t address;
  uintptr_t block;
};

struct Seen {  // the block of memory that a page's last access was in
  uintptr_t low = 0;
  uintptr_t high = 0;
};

constexpr uintptr_t kPage = 4096;

Warps g_warps;
std::vector<Argument> g_arguments;  // of this launch
std::vector<const void*> g_given;  // of the next one
std::string g_given_to;
std::unordered_map<std::string, uint32_t> g_windows;
uint64_t g_left = 0;  // accesses that may still be counted
bool g_counting = false;
bool g_spent = false;
uint64_t g_statics = 0;  // accesses to variables of the module
uint64_t g_barriers = 0;
uint64_t g_collectives = 0;
std::string g_rows;
std::string g_text;
Seen g_seen[256];
uint64_t g_seen_generation = 0;

void note_argument(const char* kernel, const void* address) {
  if (g_given_to != kernel) {
    g_given.clear();
    g_given_to = kernel;
  }
  g_given.push_back(address);
}

uintptr_t start_of(const void* address) {
  BlockRange range{};
  return find_block(address, &range) == Lookup::kInside ? reinterpret_cast<uintptr_t>(range.base) : 0;
}

void launch_begins() {
  g_arguments.clear();
  if (g_given_to == running_kernel()) {
    for (const void* address : g_given) {
      g_arguments.push_back({reinterpret_cast<uintptr_t>(address), start_of(address)});
    }
  }
  g_given.clear();
  g_given_to.clear();
  std::string name = running_kernel();
  name = name.substr(0, name.find('<'));
  const auto window = g_windows.find(name);
  g_warps.begin(static_cast<int>(blockDim.x * blockDim.y * blockDim.z), window == g_windows.end() ? 0 : window->second);
  g_statics = g_barriers = g_collectives = 0;
  g_counting = !g_spent;
}

void block_stops(bool finished) {
  if (!g_counting) {
    return;
  }
  g_warps.end_block(finished);
  if (finished) {
    g_barriers += barriers_passed();
    g_collectives += collectives_passed();
  }
}

void add_row(const std::vector<uint64_t>& values) {
  g_rows += "launch\t";
  for (const char c : running_kernel()) {
    g_rows += c == '\t' || c == '\n' || c == '\r' ? ' ' : c;
  }
  for (const uint64_t value : values) {
    g_rows += "\t" + std::to_string(value);
  }
  g_rows += "\n";
}

void launch_ends() {
  const Lockstep& steps = g_warps.lockstep;
  add_row({gridDim.x, gridDim.y, gridDim.z, blockDim.x, blockDim.y, blockDim.z, static_shared_bytes(),
           dynamic_shared_bytes(), g_barriers, g_collectives, steps.requests, steps.lanes, steps.divergent_requests,
           steps.divergent_warps, steps.warps, steps.idle_threads, g_statics, g_warps.alignment.repeated,
           g_warps.alignment.uneven, g_spent || g_warps.overflow});
  g_rows += g_warps.tally.rows();
  g_counting = false;
}

void settle() {}

const CheckerHooks g_hooks{&launch_begins, &launch_ends, &settle, &block_stops, &note_argument};

__attribute__((constructor)) void join_in() { set_checker(&g_hooks); }

// The allocation that holds an address; none for variables of the module.
const Seen* find_seen(uintptr_t address) {
  if (g_seen_generation != memory_generation()) {
    std::fill(std::begin(g_seen), std::end(g_seen), Seen{});
    g_seen_generation = memory_generation();
  }
  Seen& seen = g_seen[address / kPage & 255];
  if (address >= seen.low && address < seen.high) {
    return &seen;
  }
  BlockRange block{};
  if (find_block(reinterpret_cast<void*>(address), &block) != Lookup::kInside) {
    return nullptr;
  }
  seen = {reinterpret_cast<uintptr_t>(block.base), reinterpret_cast<uintptr_t>(block.base) + block.bytes};
  return &seen;
}

// The argument that an address most likely comes from: the last one that begins before it in the same allocation.
int argument_of(uintptr_t address, uintptr_t block) {
  int found = -1;
  for (size_t i = 0; i < g_arguments.size(); i++) {
    const bool is_nearer = found < 0 || (g_arguments[i].address <= address &&
                                         (g_arguments[found].address > address ||
                                          g_arguments[i].address > g_arguments[found].address));
    if (g_arguments[i].block == block && is_nearer) {
      found = static_cast<int>(i);
    }
  }
  return found;
}

template <class... Variables>
bool is_in(const void* address, const Variables&... variables) {
  const auto lies_in = [address](const auto& variable) {
    const auto* start = reinterpret_cast<const char*>(&variable);
    return address >= start && address < start + sizeof variable;
  };
  return (lies_in(variables) || ...);
}

void count(void* address, size_t bytes, Operation operation, const void* site) {
  RunningThread thread;
  if (!g_counting || !in_kernel() || !running_thread(&thread)) {
    return;
  }
  const char* where = static_cast<const char*>(address);
  if ((where >= thread.stack_low && where < thread.stack_high) || is_launch_frame(address) ||
      is_in(address, threadIdx, blockIdx, blockDim, gridDim)) {
    return;
  }
  if (g_left == 0) {
    g_spent = true;
    g_counting = false;
    return;
  }
  g_left--;
  size_t offset = 0, buffer_bytes = 0;
  int buffer = -1;
  const bool shared = shared_offset(address, &offset);
  if (!shared) {
    const auto number = reinterpret_cast<uintptr_t>(address);
    const Seen* block = find_seen(number);
    if (block == nullptr) {
      g_statics++;
      return;
    }
    offset = number - block->low;
    buffer_bytes = block->high - block->low;
    buffer = argument_of(number, block->low);
  }
  const uint64_t epoch = uint64_t{thread.barrier_epoch} << 32 | thread.warp_epoch;
  g_warps.add(thread.linear, epoch, {site, operation, shared, buffer, offset, static_cast<uint32_t>(bytes)}, buffer_bytes);
}

}  // namespace
}  // namespace emulator

using emulator::Operation;

#define SITE __builtin_return_address(0)

extern "C" {

// Counts so many accesses from now on; `windows`: lines of a kernel's name and the bytes of its widest vector type.
void musadata_count(uint64_t accesses, const char* windows) {
  using namespace emulator;
  g_left = accesses;
  g_spent = false;
  g_rows.clear();
  g_windows.clear();
  for (const char* line = windows; *line != '\0';) {
    const char* tab = strchr(line, '\t');
    const char* end = strchr(line, '\n');
    if (tab == nullptr || end == nullptr) {
      break;
    }
    g_windows[std::string(line, tab)] = static_cast<uint32_t>(strtoul(tab + 1, nullptr, 10));
    line = end + 1;
  }
}

const char* musadata_take_counts() {
  using namespace emulator;
  g_text = std::move(g_rows);
  g_rows.clear();
  return g_text.c_str();
}

#define EMULATOR_ACCESSES(bytes)                                                                                  \
  void __tsan_read##bytes(void* a) { emulator::count(a, bytes, Operation::kLoad, SITE); }                         \
  void __tsan_write##bytes(void* a) { emulator::count(a, bytes, Operation::kStore, SITE); }                       \
  void __tsan_volatile_read##bytes(void* a) { emulator::count(a, bytes, Operation::kLoad, SITE); }                \
  void __tsan_volatile_write##bytes(void* a) { emulator::count(a, bytes, Operation::kStore, SITE); }              \
  void __tsan_unaligned_read##bytes(void* a) { emulator::count(a, bytes, Operation::kLoad, SITE); }               \
  void __tsan_unaligned_write##bytes(void* a) { emulator::count(a, bytes, Operation::kStore, SITE); }             \
  void __tsan_unaligned_volatile_read##bytes(void* a) { emulator::count(a, bytes, Operation::kLoad, SITE); }      \
  void __tsan_unaligned_volatile_write##bytes(void* a) { emulator::count(a, bytes, Operation::kStore, SITE); }
EMULATOR_ACCESSES(1)
EMULATOR_ACCESSES(2)
EMULATOR_ACCESSES(4)
EMULATOR_ACCESSES(8)
EMULATOR_ACCESSES(16)

void __tsan_read_range(void* a, unsigned long bytes) { emulator::count(a, bytes, Operation::kLoad, SITE); }
void __tsan_write_range(void* a, unsigned long bytes) { emulator::count(a, bytes, Operation::kStore, SITE); }
void musadata_note_atomic(void* a, size_t bytes) { emulator::count(a, bytes, Operation::kAtomic, SITE); }
void musadata_note_fence() {}
}
