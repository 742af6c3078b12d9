// The last accesses to each four bytes: enough to see that two accesses were not ordered by any barrier.
#pragma once
#include <cstddef>
#include <cstdint>

namespace emulator {

struct Access {
  uint64_t block = 0;  // serial number over the life of the process; 0 for never
  uint32_t barrier_epoch = 0;
  uint32_t warp_epoch = 0;
  int16_t thread = 0;
  uint8_t bytes = 0;  // which of the four bytes, as a mask
};

// Two readers are kept, so that a thread's own read does not hide another's.
struct Cell {
  Access write;
  Access reads[2];
};

// The cell of an address; made on first use.
Cell* cell_of(uintptr_t address);

// What is known about the initialisation of shared memory in the running block.
void forget_shared_writes();
void note_shared_write(size_t offset, size_t bytes);
bool shared_was_written(size_t offset, size_t bytes);

}  // namespace emulator
