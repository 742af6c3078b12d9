// What compiled candidates call: the boundary between kernels and the emulator. Plain C++, no CUDA names but the
// built-in variables, so that the runtime itself can include it.
#pragma once
#include <cstddef>
#include <cstdint>

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

#ifndef EMULATOR_RUNTIME_ITSELF
// Written by the scheduler at every switch of threads; constant for the code of one thread, as in CUDA.
extern const uint3 threadIdx, blockIdx;
extern const dim3 blockDim, gridDim;
#endif

namespace emulator {

struct LaunchConfig {
  dim3 grid, block;
  size_t shared_bytes;
  void* stream;
  bool cooperative = false;
  bool by_variable = false;  // the launch names a variable, not the kernel
  LaunchConfig(dim3 grid_, dim3 block_, size_t shared_bytes_ = 0, void* stream_ = nullptr)
      : grid(grid_), block(block_), shared_bytes(shared_bytes_), stream(stream_) {}
  LaunchConfig of_variable() const {
    LaunchConfig config = *this;
    config.by_variable = true;
    return config;
  }
};

// A kernel that the candidate casts to void*, which hides what it takes.
struct HiddenKernel {
  const char* name = nullptr;
  void (*launch)(const char* name, const void* kernel, const LaunchConfig* config, void** arguments) = nullptr;
};

// A collective of a warp: every lane of `mask` waits until all of them have arrived, then data moves between lanes.
enum class CollectiveKind : int { kShuffle, kBallot, kSync, kMatch, kGather };

struct Collective {
  CollectiveKind kind;
  int source_lane = 0;  // shuffle
  bool predicate = false;  // ballot
  unsigned size = 0;  // bytes at `in` (and at `out`, for a shuffle)
  const void* in = nullptr;
  void* out = nullptr;
  uint32_t result = 0;  // ballot, match: the lanes that said yes
  uint32_t arrived = 0;  // the lanes that took part
  const void* inputs[32] = {};  // gather: every lane's `in`, null for absent lanes
};

// One `__shared__` declaration of one function (and of one instantiation of a template).
struct SharedSlot {
  void* address = nullptr;
  uint64_t launch = 0;  // the launch that `address` belongs to
};

extern "C" {
extern uint64_t musadata_launch_serial;
void musadata_launch(const LaunchConfig* config, void (*entry)(void*), void* arguments, const char* name);
void musadata_hide_kernel(const void* kernel, HiddenKernel hidden);
HiddenKernel musadata_find_kernel(const void* kernel);  // no `launch` if it was never hidden
void* musadata_place_shared(SharedSlot* slot, size_t bytes, size_t alignment);
void* musadata_dynamic_shared();
char* musadata_shared_base();

void musadata_barrier(int site);
int musadata_barrier_reduce(int site, int kind, int predicate);  // kind 0 count, 1 and, 2 or
void musadata_grid_barrier();  // of a cooperative launch
int musadata_is_cooperative();
void musadata_collective(uint32_t mask, Collective* collective);
uint32_t musadata_active_mask();
int musadata_lane();
int musadata_warp();
void musadata_yield();
void musadata_pass_barrier();  // that a barrier made of memory was passed: what came before it is ordered

// Asynchronous copies: done at once, or, where these say that they wait, when the thread that asked awaits all but so
// many of the groups that it has committed.
int musadata_copies_wait();
void musadata_copy_later(void* target, const void* source, size_t taken, size_t bytes);
void musadata_commit_copies();
void musadata_await_copies(uint64_t groups_left, int uncommitted_too);

[[noreturn]] void musadata_kernel_fault(const char* kind, const char* message);
[[noreturn]] void musadata_unsupported(const char* what);  // the host's code needs something that is not emulated
int musadata_in_kernel();
// That an address is not a multiple of `alignment`: ends the kernel, if one runs.
void musadata_misaligned(const void* address, size_t alignment, const char* what, const char* file, int line);

// For the checker.
void musadata_note_atomic(void* address, size_t bytes);
void musadata_note_fence();

int musadata_last_error(int clear);
void musadata_set_error(int code);
void musadata_allow_shared(const char* function, size_t bytes);  // the 48 KB opt-in
int musadata_most_resident(int threads, size_t shared_bytes);  // blocks that a multiprocessor holds at the same time
void* musadata_allocate(size_t bytes);  // device memory; null if there is none left
void* musadata_allocate_managed(size_t bytes);
int musadata_release(void* address);  // 0 if it was device memory
// That so many bytes go from `source` to `target`: counted if that is from the device to the host, as `stated` or by
// where the two lie.
void musadata_note_copy(const void* target, const void* source, size_t bytes, bool stated);
void musadata_move(void* target, const void* source, size_t bytes);  // memmove, which candidates may not use for this
void musadata_fill(void* target, int value, size_t bytes);
void musadata_adopt_symbol(const void* address, size_t bytes);
// Streams and events: which work waits for which.
void* musadata_open_stream(int blocking);
void musadata_close_stream(void* stream);
void* musadata_open_event();
void musadata_close_event(void* event);
void musadata_queue(void* stream, const char* what);  // anything but a kernel
void musadata_record_event(void* event, void* stream);
void musadata_wait_event(void* stream, void* event);
void musadata_await_stream(void* stream);  // what the host waits for
void musadata_await_event(void* event);
void musadata_await_device();
// That a kernel is given this address, which must be null or one of the device's memory.
void musadata_note_argument(const char* kernel, const void* address);
}

enum BarrierReduction { kBarrierCount = 0, kBarrierAnd = 1, kBarrierOr = 2 };

}  // namespace emulator
