// Runs the threads of one block after another on fibers; it switches threads only where CUDA lets them wait.
#pragma once
#include <cstdint>
#include <memory>

#define EMULATOR_RUNTIME_ITSELF
#include "emulator/runtime.h"

namespace emulator {

enum class Order { kForward, kReverse, kRandom };

constexpr int kLargestBlock = 1024;

void set_order(Order order, uint64_t seed);
Order order();

// Prepares for blocks of `threads` threads that each call entry(arguments).
void begin_threads(dim3 block, void (*entry)(void*), void* arguments);

// Runs one block to its end, or until a fault is reported, or until all of it waits for the grid.
void run_block();

// Saves a block that waits for the grid, since other blocks use the same stacks, and restores it to continue.
struct WaitingBlock;
bool block_waits_for_grid();
std::shared_ptr<WaitingBlock> put_block_away();
void continue_block(WaitingBlock* block);

// Leaves the running thread for good; the block ends with the fault that was reported.
[[noreturn]] void abandon_block();

// Which thread runs, for the checker.
struct RunningThread {
  int linear;
  int warp;
  uint32_t barrier_epoch;  // barriers that this block has passed
  uint32_t warp_epoch;  // collectives that this warp has passed
  char* stack_low;
  char* stack_high;
};
bool running_thread(RunningThread* thread);

// What the block that ran last has passed: barriers, and collectives of all its warps.
uint64_t barriers_passed();
uint64_t collectives_passed();

// A repeatable stream of numbers, the same with every standard library.
uint64_t next_random();

}  // namespace emulator
