#include "checks.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>

#include "../runtime/launch.h"
#include "../runtime/memory.h"
#include "../runtime/records.h"
#include "../runtime/scheduler.h"
#include "../runtime/shared_memory.h"
#include "../runtime/variables.h"
#include "shadow.h"

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim;

namespace emulator {

bool g_checking = true;

namespace {

constexpr int kWarpSize = 32;
// A brief check ends here, counted and not timed, so that the same program gives the same reports: about 10 ms a launch.
constexpr uint64_t kBriefPerLaunch = 200'000;
constexpr uint64_t kBriefPerProcess = 2'000'000;
// Further away than its own pages, or this, a wild pointer is not reported as an overrun of its neighbour: memory without
// pages of its own is in the host's heap.
constexpr size_t kFarOutside = 64;
constexpr uintptr_t kPage = 4096;

RunningThread g_thread;
bool g_brief = false;
uint64_t g_left_of_launch = 0;
uint64_t g_left_of_process = kBriefPerProcess;
uint64_t g_shared_block = 0;  // the block whose shared writes are noted
uint64_t g_atomics_block = 0;  // the last block that used an atomic
std::unordered_set<uint64_t> g_fenced_blocks;  // of this launch
std::set<std::string> g_reported;
uint64_t g_reported_generation = 0;

void report(const char* kind, const std::string& message, const void* code, bool by_host = false) {
  Dl_info where{};
  dladdr(code, &where);
  const auto offset = static_cast<size_t>(static_cast<const char*>(code) - static_cast<const char*>(where.dli_fbase));
  if (g_reported_generation != reports_generation()) {
    g_reported.clear();
    g_reported_generation = reports_generation();
  }
  // One report per kind and place in the code; the first one is in the lowest thread that reaches it.
  if (!g_reported.insert(std::string(kind) + ":" + std::to_string(offset)).second) {
    return;
  }
  Fault found{kind, by_host ? "" : running_kernel(), by_host ? "" : position(), message, where.dli_fname == nullptr ? "" : where.dli_fname, offset};
  record_report(found);
}

std::string size_text(size_t bytes, bool is_write) {
  return std::string(is_write ? "a write of " : "a read of ") + std::to_string(bytes) + " bytes";
}

// ---- bounds

struct Range {
  uintptr_t low = 0;
  uintptr_t high = 0;
};
Range g_ranges[256];  // blocks seen lately, by page
uint64_t g_ranges_generation = 0;

void report_outside(uintptr_t address, size_t bytes, bool is_write, const void* code, Lookup lookup,
                    const BlockRange& block) {
  const auto base = reinterpret_cast<uintptr_t>(block.base);
  const size_t far = std::max(block.behind, kFarOutside);
  if (lookup == Lookup::kPastEnd && address - (base + block.bytes) < far) {
    report("out_of_bounds",
           size_text(bytes, is_write) + " " + std::to_string(address - (base + block.bytes)) +
               " bytes past the end of a " + std::to_string(block.bytes) + "-byte device allocation",
           code);
    return;
  }
  if (g_brief) {
    return;  // may be memory that the kernel itself allocated, or pinned
  }
  report("host_memory", size_text(bytes, is_write) + " of memory that is not on the device", code);
}

void check_bounds(uintptr_t address, size_t bytes, bool is_write, const void* code) {
  if (g_ranges_generation != memory_generation()) {
    std::fill(std::begin(g_ranges), std::end(g_ranges), Range{});
    g_ranges_generation = memory_generation();
  }
  Range& range = g_ranges[address / kPage & 255];
  if (address >= range.low && address + bytes <= range.high) {
    return;
  }
  BlockRange block{};
  const Lookup lookup = find_block(reinterpret_cast<void*>(address), &block);
  Dl_info symbol{};
  if (lookup != Lookup::kInside && dladdr(reinterpret_cast<void*>(address), &symbol) != 0) {
    // __device__ and __constant__ variables are the library's own data.
    range = {address / kPage * kPage, address / kPage * kPage + kPage};
    return;
  }
  if (lookup != Lookup::kInside) {
    report_outside(address, bytes, is_write, code, lookup, block);
    return;
  }
  range.low = reinterpret_cast<uintptr_t>(block.base);
  range.high = range.low + block.bytes;
  if (address + bytes > range.high) {
    report("out_of_bounds",
           size_text(bytes, is_write) + " across the end of a " + std::to_string(block.bytes) +
               "-byte device allocation",
           code);
  }
}

// ---- uninitialised shared memory

void check_initialised(size_t offset, size_t bytes, bool is_write, const void* code) {
  if (g_shared_block != block_serial()) {
    g_shared_block = block_serial();
    forget_shared_writes();
  }
  if (is_write) {
    note_shared_write(offset, bytes);
  } else if (!g_brief && !block_continues() && !shared_was_written(offset, bytes)) {
    report("uninitialised_shared", size_text(bytes, is_write) + " of shared memory that no thread has written", code);
  }
}

// ---- races

// Blocks are ordered by nothing, except where the earlier one fenced its writes and this one has looked at an atomic
// since: the "last block" pattern.
bool blocks_ordered(const Access& earlier) {
  return g_atomics_block == block_serial() && g_fenced_blocks.count(earlier.block) != 0;
}

// Whether an earlier access is unordered with one by the running thread now.
bool unordered(const Access& earlier, bool is_shared) {
  if (earlier.block < first_block_of_launch()) {
    return false;  // another launch, or never
  }
  if (earlier.block != block_serial()) {
    return !is_shared && !blocks_ordered(earlier);
  }
  if (earlier.thread == g_thread.linear || earlier.barrier_epoch != g_thread.barrier_epoch) {
    return false;
  }
  const bool same_warp = earlier.thread / kWarpSize == g_thread.warp;
  return !(same_warp && earlier.warp_epoch != g_thread.warp_epoch);
}

// A write that leaves the bytes as they were is harmless: many threads may store the same value. The written value is
// known at the next access only, so a brief check reports it then.
struct Write {
  void* address;
  size_t bytes;
};
struct SuspectWrite {
  void* address = nullptr;
  size_t bytes = 0;
  char before[16];
  bool by_host;
  const char* kind;
  std::string message;
  uint3 block, thread;
  const void* code;
};
SuspectWrite g_suspect;

void report_race(const Access& earlier, bool earlier_is_write, bool is_write, const Write& write, const void* code) {
  const bool between_blocks = earlier.block != block_serial();
  const std::string pair = std::string(earlier_is_write ? "a write" : "a read") + " and a later " +
                           (is_write ? "write" : "read") + " of the same bytes";
  const char* kind = between_blocks ? "race_between_blocks" : "race_in_block";
  const std::string message = between_blocks
                                  ? pair + " by another block"
                                  : pair + " by threads " + std::to_string(earlier.thread) + " and " +
                                        std::to_string(g_thread.linear) + " with no barrier between them";
  if (!g_brief || !is_write) {
    report(kind, message, code);
  } else if (g_suspect.address == nullptr) {
    g_suspect = {write.address, write.bytes, {}, false, kind, message, blockIdx, threadIdx, code};
    memcpy(g_suspect.before, write.address, write.bytes);
  }
}

std::string name_of_static(void* address) {
  Dl_info its{};
  dladdr(address, &its);
  return variable_at(its.dli_fname, static_cast<char*>(address) - static_cast<char*>(its.dli_fbase), false);
}

void settle_suspect() {
  if (g_suspect.address == nullptr) {
    return;
  }
  if (memcmp(g_suspect.before, g_suspect.address, g_suspect.bytes) != 0) {
    const uint3 block = std::exchange(blockIdx, g_suspect.block);
    const uint3 thread = std::exchange(threadIdx, g_suspect.thread);
    const std::string message = g_suspect.by_host ? name_of_static(g_suspect.address) : g_suspect.message;
    report(g_suspect.kind, message, g_suspect.code, g_suspect.by_host);
    blockIdx = block;
    threadIdx = thread;
  }
  g_suspect.address = nullptr;
}

void remember_read(Cell* cell, const Access& access) {
  Access& newest = cell->reads[0];
  if (newest.block == access.block && newest.thread != access.thread) {
    cell->reads[1] = newest;
  }
  newest = access;
}

void check_race(uintptr_t address, size_t bytes, bool is_write, bool is_shared, const void* code) {
  const Write whole{reinterpret_cast<void*>(address), std::min(bytes, sizeof SuspectWrite::before)};
  for (size_t done = 0; done < bytes;) {
    const uintptr_t at = address + done;
    const size_t first = at & 3;
    const size_t count = std::min(4 - first, bytes - done);
    const auto mask = static_cast<uint8_t>(((1u << count) - 1) << first);
    Cell* cell = cell_of(at);
    if ((cell->write.bytes & mask) != 0 && unordered(cell->write, is_shared)) {
      report_race(cell->write, true, is_write, whole, code);
    }
    for (const Access& read : cell->reads) {
      if (is_write && (read.bytes & mask) != 0 && unordered(read, is_shared)) {
        report_race(read, false, is_write, whole, code);
      }
    }
    const Access now{block_serial(), g_thread.barrier_epoch, g_thread.warp_epoch,
                     static_cast<int16_t>(g_thread.linear), mask};
    if (is_write) {
      cell->write = now;
    } else {
      remember_read(cell, now);
    }
    done += count;
  }
}

// A plain write that another thread updates atomically without an order between the two: an update may be lost. What
// follows an atomic is not looked at, since its result may have told that all others are done.
void check_atomic_race(uintptr_t address, size_t bytes, bool is_shared, const void* code) {
  if (!running_thread(&g_thread)) {
    return;
  }
  const size_t first = address & 3;
  const auto mask = static_cast<uint8_t>(((1u << std::min(bytes, 4 - first)) - 1) << first);
  const Access& earlier = cell_of(address)->write;
  if ((earlier.bytes & mask) == 0 || !unordered(earlier, is_shared)) {
    return;
  }
  const bool between_blocks = earlier.block != block_serial();
  report(between_blocks ? "race_between_blocks" : "race_in_block",
         between_blocks ? "a write and a later atomic of the same bytes by another block"
                        : "a write and a later atomic of the same bytes by threads " + std::to_string(earlier.thread) +
                              " and " + std::to_string(g_thread.linear) + " with no barrier between them",
         code);
}

// Blocks run one after another: a thread that waits for another block's write would wait for ever.
constexpr uint64_t kManyAtomics = 20'000'000;
uint64_t g_spinning_thread = 0;
uint64_t g_spins = 0;

void count_atomic() {
  const uint64_t thread =
      block_serial() << 32 | (threadIdx.x + uint64_t{blockDim.x} * (threadIdx.y + uint64_t{blockDim.y} * threadIdx.z));
  g_spins = thread == g_spinning_thread ? g_spins + 1 : 0;
  g_spinning_thread = thread;
  if (g_spins > kManyAtomics) {
    g_spins = 0;
    musadata_kernel_fault("unsupported", "a loop of atomics, in which a thread may wait for another block, is not emulated");
  }
}

void launch_begins() {
  settle_suspect();
  g_fenced_blocks.clear();
  g_brief = checking() == Checking::kBrief;
  g_left_of_launch = g_brief ? std::min(kBriefPerLaunch, g_left_of_process) : UINT64_MAX;
  g_checking = checking() != Checking::kOff && g_left_of_launch > 0;
}

void launch_ends() {
  settle_suspect();
  g_checking = true;
}

// Counts an access; false once a brief check has reached its limit.
bool spend() {
  if (!g_brief) {
    return true;
  }
  g_left_of_process--;
  if (--g_left_of_launch > 0) {
    return true;
  }
  settle_suspect();
  g_checking = false;
  return false;
}

const CheckerHooks g_hooks{&launch_begins, &launch_ends, &settle_suspect};

__attribute__((constructor)) void join_in() { set_checker(&g_hooks); }

// ---- the host's code

bool is_static_of(const void* code, void* address) {
  Dl_info mine{}, its{};
  return dladdr(code, &mine) != 0 && dladdr(address, &its) != 0 && mine.dli_fbase == its.dli_fbase;
}

void check_host(uintptr_t address, size_t bytes, bool is_write, const void* code) {
  void* where = reinterpret_cast<void*>(address);
  BlockRange block{};
  if (find_block(where, &block) == Lookup::kInside) {
    if (!block.managed) {
      cover_memory(false);  // once is enough
      report("host_access", "the host's code makes " + size_text(bytes, is_write) + " of device memory through a pointer",
             code, true);
    }
  } else if (is_write && settled() && is_static_of(code, where)) {
    const size_t kept = std::min(bytes, sizeof SuspectWrite::before);
    g_suspect = {where, kept, {}, true, "static_state", "", {}, {}, code};
    memcpy(g_suspect.before, where, kept);
  }
}

bool is_kernel_stack(uintptr_t address) {
  return (address >= reinterpret_cast<uintptr_t>(g_thread.stack_low) &&
          address < reinterpret_cast<uintptr_t>(g_thread.stack_high)) ||
         is_launch_frame(reinterpret_cast<void*>(address));
}

}  // namespace

void check_access(uintptr_t address, size_t bytes, bool is_write, const void* code) {
  if (!in_kernel()) {
    settle_suspect();
    check_host(address, bytes, is_write, code);
    return;
  }
  if (!running_thread(&g_thread) || is_kernel_stack(address) || !spend()) {
    return;
  }
  settle_suspect();
  size_t offset = 0;
  const bool is_shared = shared_offset(reinterpret_cast<void*>(address), &offset);
  if (is_shared) {
    check_initialised(offset, bytes, is_write, code);
  } else if (in_shared_arena(reinterpret_cast<void*>(address))) {
    // Not "past the end of an allocation", which may lie next to it in one process and not in another.
    report("shared_overflow", size_text(bytes, is_write) + " outside of the block's shared variables", code);
    return;
  } else {
    check_bounds(address, bytes, is_write, code);
  }
  check_race(address, bytes, is_write, is_shared, code);
}

}  // namespace emulator

extern "C" {

// Called by instrumented atomics and fences.
void musadata_note_atomic(void* address, size_t bytes) {
  const void* code = __builtin_return_address(0);
  using namespace emulator;
  if (!in_kernel()) {
    return;
  }
  count_atomic();
  if (!g_checking) {
    return;
  }
  settle_suspect();
  g_atomics_block = block_serial();
  size_t offset = 0;
  const bool is_shared = shared_offset(address, &offset);
  if (is_shared) {
    check_initialised(offset, bytes, false, code);
    check_initialised(offset, bytes, true, code);
  } else {
    check_bounds(reinterpret_cast<uintptr_t>(address), bytes, true, code);
  }
  check_atomic_race(reinterpret_cast<uintptr_t>(address), bytes, is_shared, code);
}

void musadata_note_fence() {
  if (emulator::g_checking && emulator::in_kernel()) {
    emulator::g_fenced_blocks.insert(emulator::block_serial());
  }
}
}
