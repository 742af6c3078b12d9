// Launches, shared memory and barriers: what the rewriter's output and the kernels call.
#pragma once
#include <emulator/qualifiers.h>
#include <emulator/runtime_api.h>

namespace emulator {

template <class Argument>
inline void note_argument(const char* kernel, const Argument& argument) {
  using Given = std::decay_t<Argument>;  // an array's name is its address
  if constexpr (std::is_pointer_v<Given> && !std::is_function_v<std::remove_pointer_t<Given>>) {
    musadata_note_argument(kernel, const_cast<const void*>(static_cast<const volatile void*>(argument)));
  }
}

template <class Kernel, class... Arguments>
void launch(const char* name, const LaunchConfig& config, Kernel&& kernel, Arguments&&... arguments) {
  // Parameters are copied once per launch, as a device copies them, and once more per thread by the call. They are
  // captured and not in a tuple, which took a fifth of a candidate's compilation.
  static_assert((sizeof(std::decay_t<Arguments>) + ... + 0) <= 32764, "a kernel's parameters have at most 32764 bytes");
  (note_argument(name, arguments), ...);
  auto call = [&kernel, ... copies = std::decay_t<Arguments>(std::forward<Arguments>(arguments))]() mutable {
    kernel(copies...);
  };
  musadata_launch(&config, [](void* untyped) { (*static_cast<decltype(call)*>(untyped))(); }, &call, name);
}

// The slot behind one `__shared__` declaration; constant-initialised, so a static of it costs no guard.
template <class T>
struct Shared {
  SharedSlot slot;
  EMULATOR_UNSANITIZED T& here() {
    if (slot.launch != musadata_launch_serial) {
      musadata_place_shared(&slot, sizeof(T), alignof(T));
    }
    return *static_cast<T*>(slot.address);
  }
};

template <class T>
inline T* dynamic_shared() {
  return static_cast<T*>(musadata_dynamic_shared());
}

// The copy is done when this returns, or as late as the program lets it: both are orders that the hardware may choose.
inline void copy_async(void* target, const void* source, size_t taken, size_t bytes) {
  if (musadata_copies_wait()) {
    musadata_copy_later(target, source, taken, bytes);
    return;
  }
  memcpy(target, source, taken);
  memset(static_cast<char*>(target) + taken, 0, bytes - taken);
}

// cp.async
inline void copy_async(unsigned shared_address, const void* source, int bytes, int source_bytes = -1,
                       const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator_need_aligned(musadata_shared_base() + shared_address, bytes, "the target of cp.async", file, line);
  emulator_need_aligned(source, bytes, "the source of cp.async", file, line);
  copy_async(static_cast<void*>(musadata_shared_base() + shared_address), source,
             static_cast<size_t>(source_bytes < 0 ? bytes : source_bytes), static_cast<size_t>(bytes));
}

// What `__launch_bounds__` promises, at the beginning of a kernel.
inline void keep_launch_bounds(unsigned most_threads, ...) {
  if (blockDim.x * blockDim.y * blockDim.z > most_threads) {
    musadata_kernel_fault("launch_bounds", "launched with more threads a block than its __launch_bounds__ allows");
  }
}

}  // namespace emulator

// Where the compiler's canary behind a function's local arrays is gone.
extern "C" __attribute__((weak, visibility("hidden"), noreturn)) void __stack_chk_fail() {
  if (emulator::musadata_in_kernel()) {
    emulator::musadata_kernel_fault("local_overflow", "a write past the end of a local array");
  }
  abort();
}

// The name of a kernel whose launch stands in a macro.
#define EMULATOR_NAME(...) EMULATOR_TEXT(__VA_ARGS__)
#define EMULATOR_TEXT(...) #__VA_ARGS__

#define __syncthreads() emulator::musadata_barrier(__LINE__)
#define __syncthreads_count(predicate) \
  emulator::musadata_barrier_reduce(__LINE__, emulator::kBarrierCount, (predicate) != 0)
#define __syncthreads_and(predicate) \
  emulator::musadata_barrier_reduce(__LINE__, emulator::kBarrierAnd, (predicate) != 0)
#define __syncthreads_or(predicate) \
  emulator::musadata_barrier_reduce(__LINE__, emulator::kBarrierOr, (predicate) != 0)

// One thread runs at a time and memory is the host's, so what a thread wrote is visible.
static inline void __threadfence() { emulator::musadata_note_fence(); }
static inline void __threadfence_block() {}
static inline void __threadfence_system() { __threadfence(); }
static inline void __nanosleep(unsigned) { emulator::musadata_yield(); }
[[noreturn]] static inline void __trap() { emulator::musadata_kernel_fault("trap", "__trap() was called"); }
static inline void __brkpt() {}
#define __builtin_assume(condition) ((void)0)
#define __nv_assume(condition) ((void)0)

static inline size_t __cvta_generic_to_shared(const void* pointer) {
  return static_cast<const char*>(pointer) - emulator::musadata_shared_base();
}
static inline void* __cvta_shared_to_generic(size_t offset) { return emulator::musadata_shared_base() + offset; }
static inline size_t __cvta_generic_to_global(const void* pointer) { return reinterpret_cast<size_t>(pointer); }
static inline void* __cvta_global_to_generic(size_t address) { return reinterpret_cast<void*>(address); }
