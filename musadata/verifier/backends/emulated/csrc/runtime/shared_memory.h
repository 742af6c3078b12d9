// The shared memory of the block that is running: static variables with red zones, dynamic memory before a guard page.
#pragma once
#include <cstddef>
#include <string>

namespace emulator {

constexpr size_t kDefaultSharedBytes = 48 * 1024;  // what a kernel gets without asking
constexpr size_t kLargestSharedBytes = 227 * 1024;  // the opt-in limit of compute capability 9.0

// A launch begins: no static variable is placed yet, and the `dynamic_bytes` end at the guard page. Static and dynamic
// memory together may take `most_bytes`.
void begin_shared(size_t dynamic_bytes, size_t most_bytes);

// A block begins: everything holds poison.
void poison_shared();

// Index of a static variable whose red zone was written to, or -1.
bool red_zone_intact(size_t* bytes_of_variable);

size_t static_shared_bytes();
size_t dynamic_shared_bytes();

// Whether an address lies in the guard page behind dynamic shared memory, and how far behind the end.
bool past_dynamic_shared(const void* address, size_t* offset);

// Offset of an address within shared memory for the checker, unique for each byte; false if it is elsewhere.
bool shared_offset(const void* address, size_t* offset);
constexpr size_t kSharedOffsets = 2 * 256 * 1024;

// Whether an address lies where shared memory is, used or not, or between and around its parts.
bool in_shared_arena(const void* address);

// Whether the emulator stores the place of a shared variable at this address, among a candidate's own variables.
bool is_shared_slot(const void* address);


// Saves and restores a block's shared memory, for blocks that wait for each other.
std::string keep_shared();
void restore_shared(const std::string& kept);

}  // namespace emulator
