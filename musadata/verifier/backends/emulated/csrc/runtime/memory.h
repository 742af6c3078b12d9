// Device memory: host memory between guard pages, filled with poison, known to the bounds checks.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>

namespace emulator {

struct BlockRange {
  char* base;
  size_t bytes;
  size_t behind;  // bytes after its end that are nobody else's
  bool managed;  // the host may touch it too
};

enum class Lookup { kNone, kInside, kPastEnd };

void* allocate_device(size_t bytes);
bool release_device(void* address);

// Memory that another allocator owns but kernels may access (results of CPU operators): bounds without guard pages.
void adopt_device(void* address, size_t bytes);
void disown_device(void* address);

// A `__device__` or `__constant__` variable whose address the host has asked for: device memory from now on.
void adopt_symbol(void* address, size_t bytes);

// The block that begins here is managed memory from now on.
void make_managed(void* address);

// The block that holds `address`, or the nearest one that begins below it.
Lookup find_block(const void* address, BlockRange* range);

// The first block whose surroundings inside its guarded pages were written to, if any; reported once.
bool find_overrun(BlockRange* range, long* offset);

// Every block's first address, bytes and serial number, which no other block has or will have.
void for_each_block(const std::function<void(char*, size_t, uint64_t)>& visit);
uint64_t block_serial_at(const void* base);  // 0 if no block begins there

// Counts up whenever the set of blocks changes, so that callers can cache lookups.
uint64_t memory_generation();

// Bytes that the host was given to read: copied to it, or in memory that it shares with the device.
void note_host_bytes(size_t bytes);
// Those since the last call, and what was shared then already.
size_t take_host_bytes();

// While it is covered, only kernels, operators and the runtime can access the device's memory, as on a real machine; a
// library to which host code passes a pointer cannot. Those that may access it uncover it first; see faults.cpp.
void cover_memory(bool covered);
bool is_covered();

// Uncovers the memory for as long as the object lives.
class Uncovered {
 public:
  Uncovered();
  ~Uncovered();
  Uncovered(const Uncovered&) = delete;
  Uncovered& operator=(const Uncovered&) = delete;
};

void set_poison(int byte);  // 0..255, or -1 for none
int poison();

}  // namespace emulator

extern "C" {
void* musadata_device_allocate(size_t bytes);
void musadata_device_free(void* address);
void musadata_device_adopt(void* address, size_t bytes);
void musadata_device_disown(void* address);
// Memory that kernels and the host may both touch, as pinned memory is.
void* musadata_device_allocate_shared(size_t bytes);
int musadata_device_is_shared(const void* address);
int musadata_device_is_covered();
size_t musadata_device_peak();
void musadata_device_reset_peak();
size_t musadata_device_live();
size_t musadata_take_host_bytes();
}
