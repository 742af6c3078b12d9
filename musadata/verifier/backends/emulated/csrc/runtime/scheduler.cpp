#include "scheduler.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "faults.h"
#include "fiber.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulator {
namespace {

constexpr int kWarpSize = 32;
constexpr int kGridSite = -1;  // in place of a line

enum class State : uint8_t { kReady, kAtBarrier, kInCollective, kAtActiveMask, kFinished };

struct Thread {
  void* stack_pointer;
  State state;
  uint3 index;
  int warp;
  int lane;
  int stack;
  int barrier_site;
  int barrier_predicate;
  uint32_t mask;
  Collective* collective;
};

struct Warp {
  uint32_t alive;
  uint32_t waiting;  // lanes in a collective
  uint32_t epoch;
};

// The block that is running. Kernels run one at a time under the launch lock, so there is only one.
std::vector<Thread> g_threads;
std::vector<Warp> g_warps;
std::vector<int> g_start_order;
std::vector<int> g_ready;  // woken threads, in the order in which they were woken
size_t g_ready_head;
int g_next_fresh;  // position in g_start_order of the next thread that has never run
int g_current = -1;
int g_alive;
int g_at_barrier;
int g_barrier_kind;
int g_barrier_result;
uint32_t g_barrier_epoch;
bool g_waits_for_grid;
void* g_scheduler_stack;
void (*g_entry)(void*);
void* g_arguments;

Order g_order = Order::kForward;
uint64_t g_random_state = 0;

int thread_count() { return static_cast<int>(g_threads.size()); }

Thread& current() { return g_threads[g_current]; }

// Below this frame, only the kernel's own code runs on a fiber.
[[noreturn]] void fiber_main();

void start(int thread) {
  Thread& fresh = g_threads[thread];
  fresh.stack = acquire_stack();
  fresh.stack_pointer = new_fiber_state(stack_top(fresh.stack), &fiber_main);
}

void wake(int thread) {
  g_threads[thread].state = State::kReady;
  g_ready.push_back(thread);
}

int take_ready() {
  if (g_order == Order::kRandom) {
    const size_t choices = g_ready.size() - g_ready_head;
    std::swap(g_ready[g_ready_head], g_ready[g_ready_head + next_random() % choices]);
  }
  const int thread = g_ready[g_ready_head++];
  if (g_ready_head == g_ready.size()) {
    g_ready.clear();
    g_ready_head = 0;
  }
  return thread;
}

// The next thread to run: a woken one, else one that has never run; -1 if all wait or have finished.
int next_thread() {
  if (g_ready_head < g_ready.size()) {
    return take_ready();
  }
  if (g_next_fresh < thread_count()) {
    const int thread = g_start_order[g_next_fresh++];
    start(thread);
    return thread;
  }
  return -1;
}

// When all threads wait, those that asked for the active mask have converged as far as they ever will.
bool wake_active_mask() {
  for (size_t warp = 0; warp < g_warps.size(); warp++) {
    const int base = static_cast<int>(warp) * kWarpSize;
    const int end = std::min(base + kWarpSize, thread_count());
    uint32_t lanes = 0;
    for (int i = base; i < end; i++) {
      if (g_threads[i].state == State::kAtActiveMask) {
        lanes |= 1u << (i - base);
      }
    }
    if (lanes == 0) {
      continue;
    }
    for (int i = base; i < end; i++) {
      if (g_threads[i].state == State::kAtActiveMask) {
        g_threads[i].collective->result = lanes;
        wake(i);
      }
    }
    return true;
  }
  return false;
}

// Leaves the current fiber, whose state goes to *save, for the next thread or for the scheduler.
void switch_away(void** save) {
  int next = current_fault() != nullptr ? -1 : next_thread();
  if (next < 0 && current_fault() == nullptr && g_alive > 0 && wake_active_mask()) {
    next = next_thread();
  }
  if (next < 0) {
    g_current = -1;
    musadata_switch_stack(save, g_scheduler_stack);
    return;
  }
  g_current = next;
  if (save == &g_threads[next].stack_pointer) {
    return;
  }
  threadIdx = g_threads[next].index;
  musadata_switch_stack(save, g_threads[next].stack_pointer);
}

void wait() { switch_away(&current().stack_pointer); }

std::string barrier_text(int site) { return site == kGridSite ? "grid.sync()" : "line " + std::to_string(site); }

// A device lets one thread of each block arrive for all of it.
void wait_for_grid() {
  if (g_threads[0].state == State::kFinished) {
    report_fault("deadlock", "the first thread of a block has exited before grid.sync(), for which the others wait", false);
  }
  g_waits_for_grid = true;
}

void open_barrier() {
  for (int i = 0; i < thread_count(); i++) {
    const int thread = g_order == Order::kReverse ? thread_count() - 1 - i : i;
    if (g_threads[thread].state == State::kAtBarrier) {
      wake(thread);
    }
  }
  g_at_barrier = 0;
  g_barrier_epoch++;
}

void open_barrier_if_complete() {
  if (g_at_barrier == 0 || g_at_barrier != g_alive) {
    return;
  }
  int site = 0;
  int yes = 0;
  for (const Thread& thread : g_threads) {
    if (thread.state != State::kAtBarrier) {
      continue;
    }
    if (site != 0 && thread.barrier_site != site) {
      report_fault("barrier_divergence",
                   "threads of one block wait at different __syncthreads() (" +
                       barrier_text(std::min(site, thread.barrier_site)) + " and " +
                       barrier_text(std::max(site, thread.barrier_site)) + ")",
                   false);
      return;
    }
    site = thread.barrier_site;
    yes += thread.barrier_predicate != 0;
  }
  g_barrier_result = g_barrier_kind == kBarrierCount ? yes : g_barrier_kind == kBarrierAnd ? yes == g_alive : yes != 0;
  if (site == kGridSite) {
    wait_for_grid();
  } else {
    open_barrier();
  }
}

void shuffle(Collective** lanes, uint32_t mask) {
  for (int lane = 0; lane < kWarpSize; lane++) {
    Collective* target = lanes[lane];
    if (target == nullptr) {
      continue;
    }
    const int source = target->source_lane;
    if (source >= 0 && source < kWarpSize && (mask >> source & 1)) {
      memcpy(target->out, lanes[source]->in, target->size);
    } else if (source == lane) {
      memcpy(target->out, target->in, target->size);
    } else {
      memset(target->out, 0xFF, target->size);  // undefined in CUDA: make the mistake visible
    }
  }
}

void ballot(Collective** lanes) {
  uint32_t votes = 0;
  for (int lane = 0; lane < kWarpSize; lane++) {
    if (lanes[lane] != nullptr && lanes[lane]->predicate) {
      votes |= 1u << lane;
    }
  }
  for (int lane = 0; lane < kWarpSize; lane++) {
    if (lanes[lane] != nullptr) {
      lanes[lane]->result = votes;
    }
  }
}

void match(Collective** lanes) {
  for (int lane = 0; lane < kWarpSize; lane++) {
    if (lanes[lane] == nullptr) {
      continue;
    }
    for (int other = 0; other < kWarpSize; other++) {
      if (lanes[other] != nullptr && memcmp(lanes[other]->in, lanes[lane]->in, lanes[lane]->size) == 0) {
        lanes[lane]->result |= 1u << other;
      }
    }
  }
}

void gather(Collective** lanes) {
  for (int lane = 0; lane < kWarpSize; lane++) {
    if (lanes[lane] == nullptr) {
      continue;
    }
    for (int other = 0; other < kWarpSize; other++) {
      lanes[lane]->inputs[other] = lanes[other] == nullptr ? nullptr : lanes[other]->in;
    }
  }
}

// All lanes of `mask` that still live have arrived: exchange their data and let them go on.
void complete_collective(int warp, uint32_t mask) {
  const int base = warp * kWarpSize;
  Collective* lanes[kWarpSize] = {};
  const Collective* first = g_threads[base + __builtin_ctz(mask)].collective;
  for (int lane = 0; lane < kWarpSize; lane++) {
    if ((mask >> lane & 1) == 0) {
      continue;
    }
    lanes[lane] = g_threads[base + lane].collective;
    lanes[lane]->arrived = mask;
    if (lanes[lane]->kind != first->kind || lanes[lane]->size != first->size) {
      report_fault("warp_divergence", "lanes that name each other in a mask execute different warp intrinsics", true);
      return;
    }
  }
  switch (first->kind) {
    case CollectiveKind::kShuffle:
      shuffle(lanes, mask);
      break;
    case CollectiveKind::kBallot:
      ballot(lanes);
      break;
    case CollectiveKind::kMatch:
      match(lanes);
      break;
    case CollectiveKind::kGather:
      gather(lanes);
      break;
    case CollectiveKind::kSync:
      break;
  }
  g_warps[warp].epoch++;
  g_warps[warp].waiting &= ~mask;
  for (int lane = 0; lane < kWarpSize; lane++) {
    if (lanes[lane] != nullptr) {
      wake(base + lane);
    }
  }
}

// Completes the collective of this lane if all lanes that its mask names (and that still live) wait in it with it.
bool try_collective(int warp, int lane) {
  const int base = warp * kWarpSize;
  const uint32_t mask = g_threads[base + lane].mask;
  const uint32_t needed = mask & g_warps[warp].alive;
  if ((needed & ~g_warps[warp].waiting) != 0) {
    return false;  // the path of all arrivals but the last, so it must be cheap
  }
  for (uint32_t rest = needed; rest != 0; rest &= rest - 1) {
    if (g_threads[base + __builtin_ctz(rest)].mask != mask) {
      return false;
    }
  }
  complete_collective(warp, needed);
  return true;
}

// After a lane has exited: the lanes that wait may have waited only for this one.
void try_collectives(int warp) {
  for (uint32_t rest = g_warps[warp].waiting; rest != 0; rest &= rest - 1) {
    if (try_collective(warp, __builtin_ctz(rest))) {
      return;
    }
  }
}

void finish_current() {
  Thread& thread = current();
  thread.state = State::kFinished;
  g_alive--;
  g_warps[thread.warp].alive &= ~(1u << thread.lane);
  if (g_alive == 0) {
    return;
  }
  open_barrier_if_complete();
  if (g_warps[thread.warp].alive != 0) {
    try_collectives(thread.warp);
  }
}

void run_kernel_code() {
  try {
    g_entry(g_arguments);
  } catch (...) {
    report_fault("exception", "a C++ exception left the kernel", true);
  }
}

void fiber_main() {
  while (true) {
    const int finished = g_current;
    run_kernel_code();
    finish_current();
    const bool nobody_woken = g_ready_head >= g_ready.size();
    if (nobody_woken && g_next_fresh < thread_count() && current_fault() == nullptr) {
      // Most threads never wait: the next one runs on this very stack, without a switch.
      const int next = g_start_order[g_next_fresh++];
      g_threads[next].stack = g_threads[finished].stack;
      g_current = next;
      threadIdx = g_threads[next].index;
      continue;
    }
    release_stack(g_threads[finished].stack);
    void* nobody_returns_here;
    switch_away(&nobody_returns_here);
    __builtin_unreachable();
  }
}

std::string counted(int count, const char* one, const char* many) {
  return std::to_string(count) + (count == 1 ? one : many);
}

// What lies below a fiber's state belongs to the function that switches.
char* lowest_used(const Thread& thread) {
  constexpr size_t kOfSwitch = 512;
  return std::max(stack_base(thread.stack), static_cast<char*>(thread.stack_pointer) - kOfSwitch);
}

void report_deadlock() {
  int at_barrier = 0;
  int in_collective = 0;
  int line = 0;
  for (const Thread& thread : g_threads) {
    at_barrier += thread.state == State::kAtBarrier;
    in_collective += thread.state == State::kInCollective;
    if (thread.state == State::kAtBarrier && line == 0) {
      line = thread.barrier_site;
    }
  }
  std::string message = "the block can never go on: ";
  message += counted(at_barrier, " thread waits", " threads wait") + " at __syncthreads()";
  if (line != 0) {
    message += " (" + barrier_text(line) + ")";
  }
  message += ", " + std::to_string(in_collective) + " in a warp intrinsic, ";
  message += std::to_string(thread_count() - g_alive) + " of " + std::to_string(thread_count()) + " have exited";
  report_fault("deadlock", message, false);
}

// Runs until all have finished, or a fault is reported, or all wait for the grid; waiting blocks are saved in between.
void run_threads() {
  g_waits_for_grid = false;
  switch_away(&g_scheduler_stack);
  if (g_alive > 0 && !g_waits_for_grid && current_fault() == nullptr) {
    report_deadlock();
  }
  for (const Thread& thread : g_threads) {
    if (thread.state != State::kFinished && thread.stack >= 0) {
      release_stack(thread.stack);
    }
  }
}

}  // namespace

void set_order(Order order, uint64_t seed) {
  g_order = order;
  g_random_state = seed;
}

Order order() { return g_order; }

uint64_t next_random() {  // splitmix64
  uint64_t z = (g_random_state += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

void begin_threads(dim3 block, void (*entry)(void*), void* arguments) {
  const int threads = static_cast<int>(block.x * block.y * block.z);
  g_entry = entry;
  g_arguments = arguments;
  g_threads.assign(threads, Thread{});
  g_warps.assign((threads + kWarpSize - 1) / kWarpSize, Warp{});
  g_start_order.resize(threads);
  for (int i = 0; i < threads; i++) {
    const auto linear = static_cast<unsigned>(i);
    g_threads[i].index = {linear % block.x, linear / block.x % block.y, linear / (block.x * block.y)};
    g_threads[i].warp = i / kWarpSize;
    g_threads[i].lane = i % kWarpSize;
    g_start_order[i] = g_order == Order::kReverse ? threads - 1 - i : i;
  }
}

void run_block() {
  const int threads = thread_count();
  if (g_order == Order::kRandom) {
    for (int i = threads - 1; i > 0; i--) {
      std::swap(g_start_order[i], g_start_order[next_random() % (i + 1)]);
    }
  }
  for (size_t warp = 0; warp < g_warps.size(); warp++) {
    const int lanes = std::min(kWarpSize, threads - static_cast<int>(warp) * kWarpSize);
    g_warps[warp] = {lanes == kWarpSize ? ~0u : (1u << lanes) - 1, 0, 0};
  }
  for (Thread& thread : g_threads) {
    thread.state = State::kReady;
    thread.stack = -1;
  }
  g_alive = threads;
  g_next_fresh = 0;
  g_at_barrier = 0;
  g_barrier_epoch = 0;
  g_ready.clear();
  g_ready_head = 0;
  run_threads();
}

bool block_waits_for_grid() { return g_waits_for_grid; }

struct WaitingBlock {
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<std::string> stacks;  // what is on them, of those threads that have not finished
  int alive;
  uint32_t barrier_epoch;
};

std::shared_ptr<WaitingBlock> put_block_away() {
  auto block = std::make_shared<WaitingBlock>(WaitingBlock{g_threads, g_warps, {}, g_alive, g_barrier_epoch});
  for (const Thread& thread : g_threads) {
    if (thread.state != State::kFinished) {
      const char* low = lowest_used(thread);
      block->stacks.emplace_back(low, stack_base(thread.stack) + kStackBytes - low);
    }
  }
  return block;
}

void continue_block(WaitingBlock* block) {
  g_threads = std::move(block->threads);
  g_warps = std::move(block->warps);
  g_alive = block->alive;
  g_barrier_epoch = block->barrier_epoch;
  g_next_fresh = thread_count();
  std::vector<int> stacks;
  size_t next = 0;
  for (const Thread& thread : g_threads) {
    if (thread.state != State::kFinished) {
      const std::string& kept = block->stacks[next++];
      memcpy(lowest_used(thread), kept.data(), kept.size());
      stacks.push_back(thread.stack);
    }
  }
  claim_stacks(stacks);
  open_barrier();
  run_threads();
}

void abandon_block() {
  g_current = -1;
  void* nobody_returns_here;
  musadata_switch_stack(&nobody_returns_here, g_scheduler_stack);
  __builtin_unreachable();
}

bool running_thread(RunningThread* thread) {
  if (g_current < 0) {
    return false;
  }
  const Thread& running = current();
  char* base = stack_base(running.stack);
  *thread = {g_current, running.warp, g_barrier_epoch, g_warps[running.warp].epoch, base, base + kStackBytes};
  return true;
}

uint64_t barriers_passed() { return g_barrier_epoch; }

uint64_t collectives_passed() {
  uint64_t passed = 0;
  for (const Warp& warp : g_warps) {
    passed += warp.epoch;
  }
  return passed;
}

}  // namespace emulator

using namespace emulator;

extern "C" {

int musadata_barrier_reduce(int site, int kind, int predicate) {
  Thread& thread = current();
  thread.state = State::kAtBarrier;
  thread.barrier_site = site;
  thread.barrier_predicate = predicate;
  g_barrier_kind = kind;
  g_at_barrier++;
  open_barrier_if_complete();
  wait();
  return g_barrier_result;
}

void musadata_barrier(int site) { musadata_barrier_reduce(site, kBarrierCount, 0); }

void musadata_grid_barrier() {
  if (!musadata_is_cooperative()) {
    musadata_kernel_fault("trap", "grid.sync() in a launch that is not cooperative: use cudaLaunchCooperativeKernel");
  }
  musadata_barrier(kGridSite);
}

void musadata_collective(uint32_t mask, Collective* collective) {
  Thread& thread = current();
  if ((mask >> thread.lane & 1) == 0) {
    musadata_kernel_fault("warp_divergence", "a lane calls a warp intrinsic with a mask that does not name it");
  }
  thread.state = State::kInCollective;
  thread.mask = mask;
  thread.collective = collective;
  g_warps[thread.warp].waiting |= 1u << thread.lane;
  try_collective(thread.warp, thread.lane);
  wait();
}

uint32_t musadata_active_mask() {
  Collective collective{};
  current().state = State::kAtActiveMask;
  current().collective = &collective;
  wait();
  return collective.result;
}

int musadata_lane() { return current().lane; }

int musadata_warp() { return current().warp; }

void musadata_pass_barrier() { g_barrier_epoch++; }

void musadata_yield() {
  wake(g_current);
  wait();
}
}
