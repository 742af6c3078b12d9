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
  kMisalignedAddress = 716,
  kCooperativeTooLarge = 720,
  kLaunchFailure = 719,
};

// Whether kernel code is running on this OS thread.
bool in_kernel();

// Block and thread that run, as text.
std::string position();

// Serial number of the running block over the life of the process, and of the first block of this launch. A block has
// a new one after each barrier of the grid, as if what comes then were a launch of its own.
uint64_t block_serial();
uint64_t first_block_of_launch();  // or of what comes after the grid's last barrier

// Whether the running block has waited for the grid before.
bool block_continues();

// Whether an address lies in the host frame of the running launch, where its arguments are.
bool is_launch_frame(const void* address);

// Kernels become no-ops that are still checked and recorded.
void set_null_kernels(bool null_kernels);
void set_sampled(bool sampled);

// How many of a kernel's accesses are checked. `kBrief`: the first accesses of a launch, for mistakes that are certain.
// `kFull`: all accesses, for everything that looks like a mistake.
enum class Checking { kOff, kBrief, kFull };
void set_checking(Checking checking);
Checking checking();

// Through these the runtime calls the checker, or what counts accesses in its place. The last two may be null.
struct CheckerHooks {
  void (*launch_begins)();
  void (*launch_ends)();
  void (*settle)();  // the reports are about to be taken
  void (*block_stops)(bool finished);  // at its end, or where it waits for the grid
  void (*argument)(const char* kernel, const void* address);  // a pointer that the next launch is given
};
void set_checker(const CheckerHooks* hooks);
void settle_checker();

// Whether the same call has been made before, so that the host's static variables have no reason to change.
void set_settled(bool settled);
bool settled();

}  // namespace emulator
