// Launches: geometry and resource checks as a device has them, the blocks one after the other, and a record of each.
#pragma once
#include <cstdint>
#include <string>

#define EMULATOR_RUNTIME_ITSELF
#include "emulator/runtime.h"

namespace emulator {

// CUDA's numbers for the errors that candidates see.
enum Error {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidConfiguration = 9,
  kIllegalAddress = 700,
  kLaunchFailure = 719,
};

// Whether kernel code is running on this OS thread.
bool in_kernel();

// Block and thread that run, as text.
std::string position();

// Serial number of the running block over the life of the process, and of the first block of this launch.
uint64_t block_serial();
uint64_t first_block_of_launch();

// Whether an address lies in the host frame of the running launch, where its arguments are.
bool is_launch_frame(const void* address);

// Kernels become no-ops that are still checked and recorded.
void set_ghost(bool ghost);

// The checker of a sanitised artifact joins in through these; null where there is none.
struct CheckerHooks {
  void (*launch_begins)();
};
void set_checker(const CheckerHooks* hooks);

}  // namespace emulator
