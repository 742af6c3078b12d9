#include "launch.h"

#include <pthread.h>

#include <algorithm>
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "async_copies.h"
#include "faults.h"
#include "memory.h"
#include "records.h"
#include "scheduler.h"
#include "shared_memory.h"
#include "streams.h"

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace emulator {
namespace {

// Autograd launches from its own threads; a device would queue their kernels, here they run one at a time.
std::mutex g_launch_lock;
bool g_in_kernel = false;
pthread_t g_kernel_thread;
uint64_t g_block_serial = 0;
uint64_t g_first_block = 0;
bool g_cooperative = false;
bool g_continues = false;
bool g_null_kernels = false;
bool g_sampled = false;
Checking g_checking = Checking::kOff;
bool g_settled = false;
const CheckerHooks* g_checker = nullptr;

const char* g_launch_frame = nullptr;

int g_error = kSuccess;
bool g_error_is_sticky = false;  // a fault in a kernel poisons the context: every later call fails

std::map<std::string, size_t> g_allowed_shared;  // function -> bytes it opted into

std::map<const void*, HiddenKernel> g_hidden_kernels;

int check_geometry(const LaunchConfig& config) {
  const dim3& block = config.block;
  const dim3& grid = config.grid;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kLargestBlock || block.x > 1024 || block.y > 1024 || block.z > 64) {
    return kInvalidConfiguration;
  }
  const bool grid_fits = grid.x <= 0x7fffffffu && grid.y <= 65535 && grid.z <= 65535;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || !grid_fits) {
    return kInvalidConfiguration;
  }
  return kSuccess;
}

constexpr int kMultiprocessors = 132;

// All blocks of a cooperative launch wait for each other, so they must fit on the device at the same time.
int check_cooperative(const LaunchConfig& config) {
  const int threads = static_cast<int>(config.block.x * config.block.y * config.block.z);
  const uint64_t blocks = uint64_t{config.grid.x} * config.grid.y * config.grid.z;
  const int fitting = kMultiprocessors * musadata_most_resident(threads, config.shared_bytes);
  return config.cooperative && blocks > static_cast<uint64_t>(fitting) ? kCooperativeTooLarge : kSuccess;
}

// How much dynamic shared memory a kernel has opted into. A variable may stand for any of them.
size_t allowed_shared(const std::string& name, bool by_variable) {
  size_t allowed = 0;
  for (const auto& [function, bytes] : g_allowed_shared) {
    if (function == name || function.empty() || by_variable) {
      allowed = std::max(allowed, bytes);
    }
  }
  return allowed;
}

int check_shared(const LaunchConfig& config, const std::string& name) {
  if (config.shared_bytes <= kDefaultSharedBytes) {
    return kSuccess;
  }
  return config.shared_bytes <= std::min(kLargestSharedBytes, allowed_shared(name, config.by_variable)) ? kSuccess : kInvalidValue;
}

void set_block_index(uint64_t linear, const dim3& grid) {
  blockIdx = {static_cast<unsigned>(linear % grid.x), static_cast<unsigned>(linear / grid.x % grid.y),
              static_cast<unsigned>(linear / (uint64_t{grid.x} * grid.y))};
}

void check_overruns() {
  size_t bytes = 0;
  if (!red_zone_intact(&bytes)) {
    report_fault("shared_overflow",
                 "a write past the end of a __shared__ variable of " + std::to_string(bytes) + " bytes", false);
  }
}

// A full-period walk over the blocks that starts anywhere and jumps: repeatable, needs no memory.
struct BlockWalk {
  uint64_t count;
  uint64_t start = 0;
  uint64_t step = 1;

  explicit BlockWalk(uint64_t blocks) : count(blocks) {
    if (order() == Order::kReverse) {
      start = blocks - 1;
      step = blocks - 1;
    } else if (order() == Order::kRandom) {
      start = next_random() % blocks;
      step = next_random() % blocks;
      while (greatest_common_divisor(step, blocks) != 1) {
        step = (step + 1) % blocks;
      }
    }
    if (blocks == 1) {
      step = 0;
    }
  }

  static uint64_t greatest_common_divisor(uint64_t a, uint64_t b) { return b == 0 ? a : greatest_common_divisor(b, a % b); }

  uint64_t at(uint64_t i) const {
    return static_cast<uint64_t>((start + static_cast<unsigned __int128>(i) * step) % count);
  }
};

struct Waiting {
  uint64_t linear;
  std::shared_ptr<WaitingBlock> block;
  std::string shared;
};

// After a block has run to its end, or to a barrier of the grid, where its state is saved.
void end_turn(uint64_t linear, std::vector<Waiting>* waiting) {
  if (current_fault() != nullptr) {
    return;
  }
  check_overruns();
  if (g_checker != nullptr && g_checker->block_stops != nullptr) {
    g_checker->block_stops(!block_waits_for_grid());
  }
  if (block_waits_for_grid()) {
    waiting->push_back({linear, put_block_away(), keep_shared()});
  }
}

// All blocks run from one barrier of the grid to the next, again in any order.
void continue_blocks(std::vector<Waiting> waiting, uint64_t blocks, const dim3& grid) {
  g_continues = true;
  while (!waiting.empty() && current_fault() == nullptr) {
    if (waiting.size() != blocks) {
      report_fault("deadlock",
                   "the grid can never go on: " + std::to_string(waiting.size()) + " of " + std::to_string(blocks) +
                       " blocks wait at grid.sync(), the others have exited",
                   false);
      break;
    }
    g_first_block = g_block_serial + 1;
    const BlockWalk walk(blocks);
    std::vector<Waiting> next;
    for (uint64_t i = 0; i < blocks && current_fault() == nullptr; i++) {
      Waiting& turn = waiting[walk.at(i)];
      set_block_index(turn.linear, grid);
      g_block_serial++;
      restore_shared(turn.shared);
      forget_copies();
      continue_block(turn.block.get());
      turn.block = nullptr;
      end_turn(turn.linear, &next);
    }
    waiting = std::move(next);
  }
  g_continues = false;
}

// The first, the middle and the last place along an axis of a grid.
std::vector<unsigned> sampled_places(unsigned count) {
  std::vector<unsigned> places = {0, count / 2, count - 1};
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

// Only some blocks of a launch that is too large for all of them; none of them waits for another.
void run_sampled_blocks(const LaunchConfig& config) {
  for (unsigned z : sampled_places(config.grid.z)) {
    for (unsigned y : sampled_places(config.grid.y)) {
      for (unsigned x : sampled_places(config.grid.x)) {
        if (current_fault() != nullptr) {
          return;
        }
        blockIdx = {x, y, z};
        g_block_serial++;
        poison_shared();
        forget_copies();
        run_block();
        check_overruns();
      }
    }
  }
}

void run_blocks(const LaunchConfig& config) {
  if (g_sampled && !config.cooperative) {
    return run_sampled_blocks(config);
  }
  const uint64_t blocks = uint64_t{config.grid.x} * config.grid.y * config.grid.z;
  const BlockWalk walk(blocks);
  std::vector<Waiting> waiting;
  for (uint64_t i = 0; i < blocks && current_fault() == nullptr; i++) {
    set_block_index(walk.at(i), config.grid);
    g_block_serial++;
    poison_shared();
    forget_copies();
    run_block();
    end_turn(walk.at(i), &waiting);
  }
  if (!waiting.empty()) {
    continue_blocks(std::move(waiting), blocks, config.grid);
  }
}

void check_memory_overruns() {
  BlockRange range{};
  long offset = 0;
  if (!find_overrun(&range, &offset)) {
    return;
  }
  const std::string place = offset < 0 ? std::to_string(-offset) + " bytes before the start"
                                       : std::to_string(offset - static_cast<long>(range.bytes)) + " bytes past the end";
  report_fault("out_of_bounds_write",
               "a write " + place + " of a " + std::to_string(range.bytes) + "-byte device allocation", false);
}

void fail(int code, bool sticky) {
  if (!g_error_is_sticky) {
    g_error = code;
    g_error_is_sticky = sticky;
  }
}

[[noreturn]] void raise_fault(const Fault& fault) {
  const bool is_access = fault.kind == "illegal_access", is_misaligned = fault.kind == "misaligned";
  fail(is_access ? kIllegalAddress : is_misaligned ? kMisalignedAddress : kLaunchFailure, true);
  throw std::runtime_error("CUDA error: " + describe(fault));
}

void run_kernel(const LaunchConfig& config, void (*entry)(void*), void* arguments, const std::string& name) {
  blockDim = config.block;
  gridDim = config.grid;
  g_cooperative = config.cooperative;
  g_first_block = g_block_serial + 1;
  musadata_launch_serial++;
  begin_shared(config.shared_bytes, allowed_shared(name, config.by_variable) >= config.shared_bytes ? kLargestSharedBytes : kDefaultSharedBytes);
  begin_threads(config.block, entry, arguments);
  install_trap_handlers();
  if (g_checker != nullptr) {
    g_checker->launch_begins();
  }
  g_kernel_thread = pthread_self();
  g_in_kernel = true;
  run_blocks(config);
  g_in_kernel = false;
  if (g_checker != nullptr) {
    g_checker->launch_ends();
  }
  if (current_fault() == nullptr) {
    check_memory_overruns();
  }
}

std::string triple(const uint3& v) {
  return "(" + std::to_string(v.x) + "," + std::to_string(v.y) + "," + std::to_string(v.z) + ")";
}

}  // namespace

bool in_kernel() { return g_in_kernel && pthread_equal(g_kernel_thread, pthread_self()); }

std::string position() { return "block " + triple(blockIdx) + " thread " + triple(threadIdx); }

uint64_t block_serial() { return g_block_serial; }

uint64_t first_block_of_launch() { return g_first_block; }

bool block_continues() { return g_continues; }

bool is_launch_frame(const void* address) {
  constexpr long kFrameBytes = 64 * 1024;
  const long above = static_cast<const char*>(address) - g_launch_frame;
  return above >= 0 && above < kFrameBytes;
}

void set_null_kernels(bool null_kernels) { g_null_kernels = null_kernels; }

void set_sampled(bool sampled) { g_sampled = sampled; }

void set_checking(Checking checking) { g_checking = checking; }

Checking checking() { return g_checking; }

void set_checker(const CheckerHooks* hooks) { g_checker = hooks; }

void settle_checker() {
  if (g_checker != nullptr) {
    g_checker->settle();
  }
}

void set_settled(bool settled) { g_settled = settled; }

bool settled() { return g_settled; }

}  // namespace emulator

using namespace emulator;

extern "C" {

uint64_t musadata_launch_serial = 0;

void musadata_launch(const LaunchConfig* config, void (*entry)(void*), void* arguments, const char* name) {
  if (in_kernel()) {
    musadata_kernel_fault("unsupported", "a kernel launches a kernel (dynamic parallelism), which is not emulated");
  }
  std::lock_guard<std::mutex> lock(g_launch_lock);
  g_launch_frame = static_cast<const char*>(__builtin_frame_address(0));
  int error = g_error_is_sticky ? g_error : check_geometry(*config);
  if (error == kSuccess) {
    error = check_shared(*config, name);
  }
  if (error == kSuccess) {
    error = check_cooperative(*config);
  }
  record_launch(name, *config, error);
  if (error != kSuccess) {
    fail(error, false);
    return;
  }
  queue_kernel(config->stream, name);
  if (g_null_kernels) {
    return;
  }
  begin_faults(name);
  const Uncovered uncovered;
  run_kernel(*config, entry, arguments, name);
  if (const Fault* fault = current_fault()) {
    raise_fault(*fault);
  }
}

void musadata_hide_kernel(const void* kernel, HiddenKernel hidden) {
  std::lock_guard<std::mutex> lock(g_launch_lock);
  g_hidden_kernels[kernel] = hidden;
}

HiddenKernel musadata_find_kernel(const void* kernel) {
  std::lock_guard<std::mutex> lock(g_launch_lock);
  const auto found = g_hidden_kernels.find(kernel);
  return found == g_hidden_kernels.end() ? HiddenKernel() : found->second;
}

int musadata_in_kernel() { return in_kernel(); }

int musadata_is_cooperative() { return g_cooperative; }

void musadata_unsupported(const char* what) {
  begin_faults("");
  const std::string text = std::string(what) + " is not emulated";
  report_fault("unsupported", text, false);
  throw std::runtime_error(text);
}

int musadata_most_resident(int threads, size_t shared_bytes) {
  constexpr int kThreads = 2048;
  constexpr int kBlocks = 32;
  constexpr size_t kSharedBytes = 228 * 1024;
  constexpr size_t kSharedOfSystem = 1024;  // that each block costs
  if (threads <= 0 || threads > kLargestBlock) {
    return 0;
  }
  const int by_threads = kThreads / ((threads + 31) / 32 * 32);
  const auto by_shared = static_cast<int>(kSharedBytes / (shared_bytes + kSharedOfSystem));
  return std::min({kBlocks, by_threads, by_shared});
}

int musadata_last_error(int clear) {
  const int error = g_error;
  if (clear && !g_error_is_sticky) {
    g_error = kSuccess;
  }
  return error;
}

void musadata_set_error(int code) { fail(code, false); }

void musadata_reset_errors() {
  g_error = kSuccess;
  g_error_is_sticky = false;
}

void musadata_allow_shared(const char* function, size_t bytes) {
  size_t& allowed = g_allowed_shared[function];
  allowed = bytes > allowed ? bytes : allowed;
}

void* musadata_allocate(size_t bytes) {
  void* address = allocate_device(bytes);
  if (address == nullptr) {
    fail(kOutOfMemory, false);
  }
  return address;
}

void* musadata_allocate_managed(size_t bytes) {
  void* address = musadata_allocate(bytes);
  make_managed(address);
  return address;
}

void musadata_note_copy(const void* target, const void* source, size_t bytes, bool stated) {
  BlockRange range;
  if (stated || (find_block(source, &range) == Lookup::kInside && find_block(target, &range) != Lookup::kInside)) {
    note_host_bytes(bytes);
  }
}

void musadata_move(void* target, const void* source, size_t bytes) {
  const Uncovered uncovered;
  memmove(target, source, bytes);
}

void musadata_fill(void* target, int value, size_t bytes) {
  const Uncovered uncovered;
  memset(target, value, bytes);
}

void musadata_adopt_symbol(const void* address, size_t bytes) { adopt_symbol(const_cast<void*>(address), bytes); }

void musadata_note_argument(const char* kernel, const void* address) {
  if (g_checker != nullptr && g_checker->argument != nullptr) {
    g_checker->argument(kernel, address);
  }
  constexpr size_t kJustOutside = 4096;  // a pointer to the end of an array is legal
  BlockRange range;
  const Lookup lookup = find_block(address, &range);
  const bool near = lookup == Lookup::kPastEnd && static_cast<const char*>(address) - (range.base + range.bytes) < kJustOutside;
  // A full check names the line that uses it.
  if (address != nullptr && lookup != Lookup::kInside && !near && checking() != Checking::kFull) {
    record_report(Fault{"host_memory", kernel, "", "an argument is the address of memory that is not on the device"});
  }
}

int musadata_release(void* address) { return address == nullptr || release_device(address) ? kSuccess : kInvalidValue; }
}
