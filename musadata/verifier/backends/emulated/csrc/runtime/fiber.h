// Switching between stacks of one OS thread: about 15 ns in assembly, more where only ucontext is at hand.
#pragma once
#include <cstddef>
#include <vector>

namespace emulator {

// CUDA gives a thread up to 512 KB of local memory; no kernel that needs more than this is known.
constexpr size_t kStackBytes = 256 * 1024;
// Nothing else is mapped in these, so what an access there means does not depend on the memory map.
constexpr size_t kStackGuardBytes = 64 * 1024;

// Keeps the running fiber's state at *save and continues the one that was kept as `load`.
extern "C" void musadata_switch_stack(void** save, void* load);

// The state of a fiber that has not run yet; it will begin in `entry`, which must not return.
void* new_fiber_state(char* stack_top, void (*entry)());

// Stacks with a guard below them, kept for reuse. Indices stay valid for ever.
int acquire_stack();
void release_stack(int stack);
char* stack_base(int stack);
// Takes back stacks that were released, with whatever they hold then.
void claim_stacks(const std::vector<int>& stacks);
// Not all at the same offset in their pages: the frames of a block's threads would compete for the same cache sets.
constexpr size_t kStagger = 128;
constexpr size_t kMostStagger = 32 * kStagger;
inline char* stack_top(int stack) { return stack_base(stack) + kStackBytes - stack % 32 * kStagger; }

}  // namespace emulator
